// attest replay: judges what attest capture wrote, or any other vectors: attest run --vectors by
// another name.
#include <memory>

#include "cli/commands/commands.hpp"
#include "cli/locate.hpp"
#include "cli/run.hpp"
#include "cli/vectors.hpp"

namespace attest::cli {

Command add_replay(CLI::App& program) {
  struct Arguments {
    std::vector<std::string> folders, cases;
    VectorWords words;
    JudgingOptions judging;
    Session session;
  };
  CLI::App* command = program.add_subcommand(
      "replay", "judge captured cases, and whatever attest run --vectors takes");
  auto arguments = std::make_shared<Arguments>();
  command
      ->add_option("folders", arguments->folders,
                   "folders that attest capture wrote, or a .json, .safetensors or .npz file")
      ->required()
      ->type_name("DIR");
  command
      ->add_option("--case", arguments->cases,
                   "only cases of these names (globs, separated by commas)")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->type_name("GLOB");
  add_vector_words(*command, arguments->words);
  arguments->judging.add_to(*command, arguments->session);
  return [arguments, command] {
    Session& session = arguments->session;
    session.command = command_line(*command);
    arguments->judging.apply(session);
    return run_vectors(arguments->folders, arguments->cases, arguments->words, session);
  };
}

}  // namespace attest::cli
