// attest choose: names the implementation to take for each case, within limits.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "cli/commands/commands.hpp"
#include "cli/exit_code.hpp"
#include "cli/options/quantity_options.hpp"
#include "cli/output/progress.hpp"
#include "cli/plugins.hpp"
#include "core/problem/glob.hpp"
#include "core/problem/quantities.hpp"
#include "core/tensor/error.hpp"
#include "reports/choice/choice_text.hpp"
#include "reports/words/escape.hpp"
#include "reports/words/json_text.hpp"

namespace attest::cli {
namespace {

using reports::Answer;
using reports::ChoiceLimits;
using reports::ProblemRecords;
using reports::Usable;

constexpr int64_t kMostTokens = int64_t{1} << 40;

struct ChooseArguments {
  std::vector<std::string> files, cases, dtypes;
  std::optional<int64_t> tokens;
  std::optional<double> max_error_ratio;
  double deadline_s = 0;
  uint64_t memory_bytes = 0;
  std::string format = "text";

  ChoiceLimits limits() const {
    ChoiceLimits limits;
    if (deadline_s > 0) limits.deadline_ns = std::round(deadline_s * 1e9);
    if (memory_bytes > 0) limits.memory_bytes = double(memory_bytes);
    limits.max_error_ratio = max_error_ratio;
    return limits;
  }
};

/// Throws Error if the filters name what no record has.
void check_filters(const reports::Input& input, const ChooseArguments& arguments) {
  std::vector<std::string> names, dtypes;
  for (const core::Results& run : input.runs)
    for (const core::Record& record : run.records) {
      names.push_back(record.case_name);
      names.push_back(record.suite + "/" + record.case_name);
      dtypes.push_back(record.dtype);
    }
  core::require_matches("--case", arguments.cases, names);
  core::require_matches("--dtype", arguments.dtypes, dtypes);
}

/// Whether the filters take the problem; a family, if they take one of its cases.
bool is_wanted(const ProblemRecords& problem, const ChooseArguments& arguments) {
  if (!core::matches(problem.dtype, arguments.dtypes)) return false;
  return std::ranges::any_of(problem.records, [&](const core::Record* record) {
    return core::matches(record->case_name, arguments.cases) ||
           core::matches(record->suite + "/" + record->case_name, arguments.cases);
  });
}

/// The titles of what there is instead of what was asked for, each once and 20 at most.
std::string titles(const std::vector<ProblemRecords>& problems) {
  constexpr size_t kShown = 20;
  std::vector<std::string> all;
  for (const ProblemRecords& problem : problems) all.push_back(reports::title(problem));
  const size_t shown = std::min(all.size(), kShown);
  return fmt::format("{}{}", fmt::join(all.begin(), all.begin() + std::ptrdiff_t(shown), ", "),
                     all.size() > shown ? fmt::format(" and {} more", all.size() - shown) : "");
}

/// Why there is nothing to choose from. Where the cases have no records of the dtypes, it names
/// those that they have.
std::string nothing_words(const reports::Input& input, const ChooseArguments& arguments) {
  ChooseArguments any_dtype = arguments;
  any_dtype.dtypes.clear();
  std::vector<ProblemRecords> there =
      arguments.tokens ? reports::families(input) : reports::cases(input);
  std::erase_if(there, [&](const ProblemRecords& one) { return !is_wanted(one, any_dtype); });
  const std::string what = arguments.tokens ? " whose problems have tokens" : "";
  if (there.empty()) return "there are no records to choose from" + what;
  return fmt::format("there are no records{} with --dtype {}, but of: {}", what,
                     fmt::join(arguments.dtypes, ","), reports::printable(titles(there)));
}

int exit_code(const std::vector<Answer>& answers) {
  Usable worst = Usable::kYes;
  for (const Answer& answer : answers) worst = std::max(worst, answer.choice.usable());
  return worst == Usable::kNo ? kBad : worst == Usable::kUnknown ? kInconclusive : kOk;
}

void print_answers(const std::vector<Answer>& answers, const ChoiceLimits& limits) {
  for (const Answer& answer : answers)
    fmt::print("{}{}", &answer == &answers.front() ? "" : "\n",
               print_choice(answer, limits, wants_colour(stdout)));
}

int run(const ChooseArguments& arguments) {
  std::vector<core::Results> files;
  for (const std::string& file : arguments.files) files.push_back(core::read_results(file));
  const reports::Input input = reports::make_input(std::move(files));
  print_warnings(input.warnings);
  check_filters(input, arguments);
  const auto unwanted = [&](const ProblemRecords& one) { return !is_wanted(one, arguments); };
  std::vector<ProblemRecords> families = reports::families(input);
  std::erase_if(families, unwanted);
  std::vector<ProblemRecords> asked = arguments.tokens ? families : reports::cases(input);
  std::erase_if(asked, unwanted);
  const ChoiceLimits limits = arguments.limits();
  std::vector<Answer> answers;
  for (ProblemRecords& problem : asked) {
    reports::Choice choice = choose(problem, arguments.tokens, limits);
    answers.push_back({std::move(problem), std::move(choice)});
  }
  if (arguments.format == "json")
    fmt::print("{}", reports::json_text(choices_json(answers, families, limits)));
  else
    print_answers(answers, limits);
  if (answers.empty()) {
    fmt::print(stderr, "attest: {}\n", nothing_words(input, arguments));
    return kNothing;
  }
  return exit_code(answers);
}

}  // namespace

Command add_choose(CLI::App& program) {
  CLI::App* command = program.add_subcommand(
      "choose", "name the implementation to take for each case, within limits");
  auto arguments = std::make_shared<ChooseArguments>();
  command->add_option("files", arguments->files, "results files that attest run -o wrote")
      ->required()
      ->type_name("FILE");
  command
      ->add_option("--case", arguments->cases,
                   "cases by their names, or SUITE/NAME; several are separated by commas")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->type_name("GLOB");
  command->add_option("--dtype", arguments->dtypes, "only these dtypes")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->type_name("GLOB");
  command
      ->add_option_function<std::string>(
          "--tokens",
          [arguments](const std::string& text) {
            const std::optional<int64_t> tokens = core::parse_count(text, 1, kMostTokens);
            if (!tokens)
              throw CLI::ValidationError(
                  "--tokens",
                  fmt::format("{}: must be {}", core::in_quotes(text), core::kCountWords));
            arguments->tokens = tokens;
          },
          "ask about the cases' problems with so many tokens; where this size was not measured, "
          "the nearest sizes on both sides decide")
      ->type_name("N");
  require_unit(
      add_period(
          *command, "--deadline", arguments->deadline_s,
          "the slowest time seen, warm or cold, may take so long: a rate (20Hz) or a time (50ms)",
          1e-9, 1e6),
      {"Hz", "ms", "s"});
  require_unit(add_bytes(*command, "--memory", arguments->memory_bytes,
                         "the measured memory beyond the tensors may be so much", 1),
               {"MiB", "GiB"});
  add_number(
      *command, "--max-error-ratio",
      [arguments](double share) { arguments->max_error_ratio = share; },
      "the largest error may be this share of its gate; the rms error has only its own gate", 0, 1)
      ->type_name("SHARE");
  command->add_option("--format", arguments->format, "text, or json for programs")
      ->check(CLI::IsMember({"text", "json"}))
      ->capture_default_str()
      ->type_name("text|json");
  command->footer(
      quantity_help() +
      "\nA deadline and a memory limit need a unit here.\nExamples:\n"
      "  attest choose results.jsonl --deadline 20Hz --memory 1GiB --max-error-ratio 0.5\n"
      "  attest choose scaling.jsonl --tokens 32768 --deadline 50ms --format json\n"
      "Exit codes: 0 there is an implementation to take for each case; 1 for some case none may be "
      "used; 3 for some case the records cannot tell; 4 there are no such records; 64 usage, or "
      "not a results file.");
  return [arguments] { return run(*arguments); };
}

}  // namespace attest::cli
