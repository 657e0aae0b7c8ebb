// attest compare: compares two builds by their results: what no longer passes, and what got slower,
// bigger or less accurate.
#include <fmt/format.h>

#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>

#include "cli/commands/commands.hpp"
#include "cli/exit_code.hpp"
#include "cli/json_file.hpp"
#include "cli/progress.hpp"
#include "cli/results_file.hpp"
#include "core/tensor/error.hpp"
#include "reports/builds.hpp"
#include "reports/comparison_text.hpp"

namespace attest::cli {
namespace {

struct CompareArguments {
  std::vector<std::string> before, after;
  std::string json_path;
  double floor_percent = 0;
  bool strict = false, changed_only = false;
  reports::CompareOptions options;
};

// "5%" -> "5". Returns no error, as CLI11 wants it.
std::string drop_percent_sign(std::string& text) {
  if (text.ends_with('%')) text.pop_back();
  return {};
}

/// Throws Error if the JSON would be written over what is compared.
void check_json_path(const CompareArguments& arguments) {
  for (const std::vector<std::string>* side : {&arguments.before, &arguments.after})
    for (const std::string& path : *side) {
      std::error_code ignored;
      if (std::filesystem::equivalent(path, arguments.json_path, ignored))
        throw core::Error(
            fmt::format("--json {}: is one of the files that are compared", arguments.json_path));
    }
}

int run(CompareArguments& arguments) {
  if (arguments.after.empty()) {
    if (arguments.before.size() < 2)
      throw core::Error("compare: one file alone has nothing to be compared with");
    arguments.after = {arguments.before.back()};
    arguments.before.pop_back();
  }
  if (arguments.floor_percent > 0) arguments.options.rule.floor = arguments.floor_percent / 100;
  const std::vector<core::Results> before = read_launches(arguments.before),
                                   after = read_launches(arguments.after);
  require_peer(before, after, arguments.options.relative_to);
  check_json_path(arguments);
  reports::require_one_build(before, after);
  const reports::Comparison comparison = compare(before, after, arguments.options);
  write_json_file(arguments.json_path, to_json(comparison));
  fmt::print("{}", print_comparison(comparison, {.colour = wants_colour(stdout),
                                                 .changed_only = arguments.changed_only}));
  if (comparison.cases.empty()) {
    fmt::print(stderr, "attest: both sides have no (implementation, case) in common\n");
    return kNothing;
  }
  if (regressed(comparison)) return kBad;
  if (worse(comparison)) return kWorse;
  if (all_apart(comparison)) {
    fmt::print(stderr,
               "attest: no time could be compared: the sides are of different machines, kinds of "
               "build or numbers of threads; --across-machines compares them all the same\n");
    return kNothing;
  }
  return arguments.strict && inconclusive(comparison) ? kInconclusive : kOk;
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
  command
      ->add_option("--floor", arguments->floor_percent,
                   "percent by which launches of one build differ on this machine (A/A); only a "
                   "larger change counts, and only above 1 %")
      ->transform(CLI::Validator(drop_percent_sign, ""))
      ->check(CLI::Range(0.01, 1000.0))
      ->type_name("PERCENT");
  command
      ->add_option("--relative-to", arguments->options.relative_to,
                   "divide times by those of this implementation in the same launch, e.g. a "
                   "library; such ratios can be compared from day to day")
      ->type_name("IMPL");
  command->add_flag("--across-machines", arguments->options.across_machines,
                    "compare times even between machines, kinds of build or numbers of threads");
  command->add_flag("--changed", arguments->changed_only,
                    "print only cases in which something changed or is undecided");
  command->add_flag("--strict", arguments->strict,
                    "exit with 3 if something is undecided, or missing in the new results");
  command->add_option("--json", arguments->json_path, "also write the comparison as JSON")
      ->type_name("FILE");
  command->footer(
      "Samples of one launch share a machine state. To find a change of a few percent, start both "
      "builds in turns, at least eight times each:\n"
      "  for i in 1 3 5 7; do j=$((i + 1))\n"
      "    old/attest run vit -o old$i.jsonl; new/attest run vit -o new$i.jsonl; "
      "new/attest run vit -o new$j.jsonl; old/attest run vit -o old$j.jsonl; done\n"
      "  attest compare old?.jsonl --after new?.jsonl\n"
      "Two files alone: attest compare --floor 5 last.jsonl this.jsonl; "
      "attest compare --relative-to naive --floor 5 last.jsonl this.jsonl\n"
      "Exit codes: 0 nothing is worse; 1 something no longer passes; 2 slower, bigger or less "
      "accurate; 3 --strict: something is undecided or missing;\n"
      "4 the sides have no case in common, or no time could be compared because machines differ; "
      "64 usage, or not a results file.");
  return [arguments] { return run(*arguments); };
}

}  // namespace attest::cli
