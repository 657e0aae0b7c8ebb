// attest baseline: makes the baseline of a gate from results.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <filesystem>
#include <memory>

#include "cli/commands/commands.hpp"
#include "cli/comparison/baseline.hpp"
#include "cli/exit_code.hpp"
#include "cli/options/command_line.hpp"
#include "cli/output/header.hpp"
#include "cli/output/results_file.hpp"
#include "core/tensor/error.hpp"

namespace attest::cli {
namespace {

struct BaselineArguments {
  std::string action, baseline, command;
  std::vector<std::string> results;
  bool allow_failing = false, replace = false;
};

/// The baseline that is updated; none where a new one begins. Throws Error if it is one of the
/// results.
std::optional<core::Results> old_baseline(const BaselineArguments& arguments) {
  for (const std::string& path : arguments.results) {
    std::error_code ignored;
    if (std::filesystem::equivalent(path, arguments.baseline, ignored))
      throw core::Error(fmt::format("{}: is the baseline itself; name results", path));
  }
  if (arguments.replace || !std::filesystem::exists(arguments.baseline)) return std::nullopt;
  return read_one(arguments.baseline);
}

std::vector<core::Results> read_files(const std::vector<std::string>& paths) {
  std::vector<core::Results> all;
  for (const std::string& path : paths) all.push_back(read_one(path));
  return all;
}

/// How many of the times were taken while something happened to the machine, of how many.
std::pair<int64_t, int64_t> doubtful_times(const std::vector<core::Results>& fresh) {
  int64_t doubtful = 0, all = 0;
  for (const core::Results& results : fresh)
    for (const core::Record& record : results.records) {
      all += record.time.has_value();
      doubtful += record.time && record.noisy;
    }
  return {doubtful, all};
}

int run(const BaselineArguments& arguments) {
  const std::optional<core::Results> old = old_baseline(arguments);
  const std::vector<core::Results> fresh = read_files(arguments.results);
  require_one_baseline(old, fresh);
  const std::vector<std::string> bad = bad_records(fresh);
  if (!bad.empty() && !arguments.allow_failing) {
    fmt::print(stderr,
               "{}\nattest: {} results are bad; a baseline holds what passes, or all with "
               "--allow-failing. Nothing was written\n",
               fmt::join(bad, "\n"), bad.size());
    return kBad;
  }
  core::Results updated = updated_baseline(old, fresh, utc_now());
  updated.header.command = arguments.command;
  write_baseline(arguments.baseline, updated);
  const auto& facts = updated.header.environment.at("baseline");
  const std::string& launches = facts.at("launches");
  fmt::print("{}: {} records of {} launch{} from {}\n", arguments.baseline, updated.records.size(),
             launches, launches == "1" ? "" : "es", facts.at("from"));
  if (facts.contains("kept")) fmt::print("kept: {}\n", facts.at("kept"));
  if (old)
    for (const std::string& lost : lost_launches(*old, fresh))
      fmt::print(
          "replaced: {}: gates see less of how much launches differ; give as many results files\n",
          lost);
  if (const auto [doubtful, all] = doubtful_times(fresh); doubtful > 0)
    fmt::print(
        "doubtful: {} of {} times, because something happened to the machine meanwhile: gates may "
        "leave them undecided; run those cases again\n",
        doubtful, all);
  return kOk;
}

}  // namespace

Command add_baseline(CLI::App& program) {
  CLI::App* command =
      program.add_subcommand("baseline", "write or update the baseline that a gate compares with");
  auto arguments = std::make_shared<BaselineArguments>();
  command->add_option("action", arguments->action, "what to do")
      ->required()
      ->check(CLI::IsMember({"update"}).description(""))
      ->type_name("update");
  command->add_option("baseline", arguments->baseline, "the baseline, which need not exist yet")
      ->required()
      ->type_name("FILE");
  command
      ->add_option(
          "results", arguments->results,
          "results that become the baseline of their cases; other cases stay. Each file is "
          "one launch")
      ->required()
      ->type_name("FILE");
  command->add_flag("--allow-failing", arguments->allow_failing,
                    "take results that are bad too; rules with verdict not_worse allow them");
  command->add_flag("--replace", arguments->replace,
                    "begin a new baseline, for example on another machine");
  command->footer(
      "Example: attest baseline update base.jsonl results.jsonl\n"
      "Results of several launches of one build are kept apart: gate and compare then know how "
      "much launches differ. They replace all launches that the baseline had of their cases.\n"
      "The header of the baseline says when it was updated, from which files and commits.\n"
      "Exit codes: 0 written; 1 a result is bad; 4 the file cannot be written; 64 usage, not a "
      "results file, results of another machine, two builds of a case, or a time that is zero or "
      "negative.");
  return [arguments, command] {
    arguments->command = command_line(*command);
    return run(*arguments);
  };
}

}  // namespace attest::cli
