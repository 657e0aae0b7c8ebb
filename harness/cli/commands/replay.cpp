// attest replay: judges captured cases or other test vectors. It is another name for attest run
// --vectors.
#include <memory>

#include "cli/commands/commands.hpp"
#include "cli/judging.hpp"
#include "cli/options/command_line.hpp"
#include "cli/options/vector_words.hpp"
#include "cli/output/ending.hpp"

namespace attest::cli {

Command add_replay(CLI::App& program) {
  struct Arguments {
    std::vector<std::string> folders, cases;
    core::VectorWords words;
    bool is_timed = false;
    JudgingOptions judging;
  };
  CLI::App* command = program.add_subcommand(
      "replay", "judge captured cases or other test vectors, as attest run --vectors does");
  auto arguments = std::make_shared<Arguments>();
  command
      ->add_option("folders", arguments->folders,
                   "folders that attest capture wrote, or a .json, .safetensors or .npz file")
      ->required()
      ->type_name("DIR");
  command
      ->add_option("--case", arguments->cases,
                   "only cases with these names (globs, separated by commas)")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->type_name("GLOB");
  add_vector_words(*command, arguments->words);
  add_time_of_vectors(*command, arguments->is_timed);
  arguments->judging.add_many_to(*command);
  return [arguments, command] {
    arguments->judging.command = command_line(*command);
    settle_time(arguments->judging, arguments->is_timed);
    return judge_plan(
        core::plan_vectors(arguments->folders, {.cases = arguments->cases}, arguments->words),
        arguments->judging, {.after = print_counts});
  };
}

}  // namespace attest::cli
