// attest replay: judges what attest capture wrote, or any other vectors: attest run --vectors by another name.
#include <memory>

#include "cli/commands.hpp"
#include "cli/locate.hpp"
#include "cli/run.hpp"
#include "cli/table_file.hpp"
#include "cli/vectors.hpp"

namespace attest::cli {

Command add_replay(CLI::App& program) {
  struct Arguments {
    std::vector<std::string> folders, cases;
    VectorWords words;
    std::string least;
    Session session;
  };
  CLI::App* command = program.add_subcommand("replay", "judge captured cases, and whatever attest run --vectors takes");
  auto arguments = std::make_shared<Arguments>();
  command->add_option("folders", arguments->folders, "folders that attest capture wrote, or a .json, .safetensors or .npz file")
      ->required()
      ->type_name("DIR");
  command->add_option("--case", arguments->cases, "only cases of these names (globs, separated by commas)")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->type_name("GLOB");
  add_vector_words(*command, arguments->words);
  add_relations(*command, arguments->session.options.relations);
  command->add_option("--min-arithmetic", arguments->least, "refuse implementations that declare less, e.g. acc=f32,prob=bf16")
      ->type_name("WORDS");
  command->add_option("-o,--output", arguments->session.results_path, "results as JSON lines")->type_name("FILE");
  add_table(*command, arguments->session.table_path);
  arguments->session.plugins.add_to(*command);
  return [arguments, command] {
    Session& session = arguments->session;
    session.command = command_line(*command);
    session.options.least = core::parse_min_arithmetic(arguments->least);
    session.options.timed = false;
    return run_vectors(arguments->folders, arguments->cases, arguments->words, session);
  };
}

}  // namespace attest::cli
