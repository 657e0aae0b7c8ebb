// attest compare: compares two builds by their results: what no longer passes, and what got slower,
// bigger or less accurate.
#include <fmt/format.h>

#include <memory>
#include <nlohmann/json.hpp>

#include "cli/commands/commands.hpp"
#include "cli/comparison/comparing.hpp"
#include "cli/output/report_input.hpp"
#include "cli/output/results_file.hpp"
#include "cli/output/written_file.hpp"
#include "core/tensor/error.hpp"
#include "reports/compare/builds.hpp"
#include "reports/compare/comparison_text.hpp"
#include "reports/formats.hpp"

namespace attest::cli {
namespace {

struct CompareArguments {
  std::vector<std::string> before, after;
  std::string json_path, report_path;
  Comparing comparing;
};

/// The format of --report. Throws Error if the file's name does not end as one of them.
const reports::Format& page_format(const std::string& path) {
  const reports::Format* format = reports::format_of_file(path);
  if (!format || !format->has_parts)
    throw core::Error(fmt::format("--report {}: must end in .html or .md", path));
  return *format;
}

int run(CompareArguments& arguments) {
  const reports::Format* format =
      arguments.report_path.empty() ? nullptr : &page_format(arguments.report_path);
  if (arguments.after.empty()) {
    if (arguments.before.size() < 2)
      throw core::Error("compare: one file alone has nothing to be compared with");
    arguments.after = {arguments.before.back()};
    arguments.before.pop_back();
  }
  const reports::CompareOptions options = arguments.comparing.options();
  const std::vector<core::Results> before = read_launches(arguments.before),
                                   after = read_launches(arguments.after);
  require_peer(before, after, options.relative_to);
  arguments.comparing.check_floors(after);
  refuse_inputs("--json", arguments.json_path, arguments.before, arguments.after);
  refuse_inputs("--report", arguments.report_path, arguments.before, arguments.after);
  reports::require_one_build(before, after);
  const reports::Comparison comparison = compare(before, after, options);
  write_json_file("--json", arguments.json_path, to_json(comparison));
  if (format) {
    reports::Input input = report_input(after, *format);
    input.comparison = comparison;
    write_text_file("--report", arguments.report_path, format->print(input, {}));
  }
  arguments.comparing.print(comparison);
  return arguments.comparing.exit_code(comparison);
}

}  // namespace

Command add_compare(CLI::App& program) {
  CLI::App* command = program.add_subcommand(
      "compare", "what no longer passes, got slower, bigger or less accurate in a new build");
  auto arguments = std::make_shared<CompareArguments>();
  command
      ->add_option("before", arguments->before,
                   "results of the old build; without --after, the last file is of the new build")
      ->required()
      ->type_name("FILE");
  command
      ->add_option("--after", arguments->after, "results of the new build; each file is one launch")
      ->type_name("FILE");
  arguments->comparing.add_to(*command);
  command->add_option("--json", arguments->json_path, "also write the comparison as JSON")
      ->type_name("FILE");
  command
      ->add_option("--report", arguments->report_path,
                   "also write a page (.html) or Markdown (.md) of the new results, with the "
                   "comparison; it is replaced")
      ->type_name("FILE");
  command->footer(
      "Samples of one launch share a machine state. To find a change of a few percent, both builds "
      "have to take turns, at least eight times each: attest ab does that.\n"
      "Results of launches that took turns: attest compare old?.jsonl --after new?.jsonl\n"
      "Two files alone: attest compare --floor 5 last.jsonl this.jsonl; "
      "attest compare --relative-to naive --floor 5 last.jsonl this.jsonl\n"
      "Exit codes: 0 nothing is worse; 1 something no longer passes; 2 slower, bigger or less "
      "accurate; 3 --strict: something is undecided or missing;\n"
      "4 the sides have no case in common, or no time could be compared because machines differ; "
      "64 usage, or not a results file.");
  return [arguments] { return run(*arguments); };
}

}  // namespace attest::cli
