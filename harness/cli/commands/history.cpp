// attest history: keeps the runs of cases in an index, and finds the steps of their series.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <memory>
#include <nlohmann/json.hpp>

#include "cli/commands/commands.hpp"
#include "cli/exit_code.hpp"
#include "cli/output/written_file.hpp"
#include "cli/plugins.hpp"
#include "core/problem/glob.hpp"
#include "core/tensor/error.hpp"
#include "reports/history/history_text.hpp"
#include "reports/history/index.hpp"

namespace attest::cli {
namespace {

using reports::HistoryIndex;
using reports::SeriesKey;

struct HistoryArguments {
  std::string action, index = "history.sqlite", json_path;
  std::vector<std::string> files, cases, impls, dtypes;
  bool changed_only = false;
};

std::vector<core::Results> read_all(const std::vector<std::string>& paths) {
  std::vector<core::Results> files;
  for (const std::string& path : paths) files.push_back(core::read_results(path));
  return files;
}

/// Says what became of each file, and returns an ExitCode.
int report(const std::vector<std::string>& files, const reports::FilledIndex& filled) {
  const auto& [index, added] = filled;
  for (size_t i = 0; i < files.size(); ++i) {
    fmt::print("{}: {} of {} records are new{}\n", files[i], added[i].fresh, added[i].records,
               added[i].known_run ? "; the index has this run already, and it counts once" : "");
    print_warnings(added[i].warnings);
  }
  fmt::print("the index has {} results files and {} series\n", index.files().size(),
             index.keys().size());
  return kOk;
}

int add(const HistoryArguments& arguments) {
  if (arguments.files.empty()) throw core::Error("history add: names no results files");
  return report(arguments.files, HistoryIndex::add(arguments.index, read_all(arguments.files)));
}

int rebuild(const HistoryArguments& arguments) {
  const std::vector<std::string> paths =
      arguments.files.empty() ? HistoryIndex::open(arguments.index).files() : arguments.files;
  return report(paths, HistoryIndex::rebuild(arguments.index, read_all(paths)));
}

bool is_wanted(const SeriesKey& key, const HistoryArguments& arguments) {
  return (core::matches(key.case_name, arguments.cases) ||
          core::matches(key.suite + "/" + key.case_name, arguments.cases)) &&
         core::matches(key.impl, arguments.impls) && core::matches(key.dtype, arguments.dtypes);
}

/// Throws Error if a filter names what no series has.
void check_filters(const std::vector<SeriesKey>& keys, const HistoryArguments& arguments) {
  std::vector<std::string> cases, impls, dtypes;
  for (const SeriesKey& key : keys) {
    cases.push_back(key.case_name);
    cases.push_back(key.suite + "/" + key.case_name);
    impls.push_back(key.impl);
    dtypes.push_back(key.dtype);
  }
  core::require_matches("--case", arguments.cases, cases);
  core::require_matches("--impl", arguments.impls, impls);
  core::require_matches("--dtype", arguments.dtypes, dtypes);
}

int show(const HistoryArguments& arguments) {
  if (!arguments.files.empty())
    throw core::Error(
        fmt::format("history show: {}: shows the index alone; attest history add enters results "
                    "into it",
                    arguments.files.front()));
  const HistoryIndex index = HistoryIndex::open(arguments.index);
  const std::vector<SeriesKey> keys = index.keys();
  if (keys.empty()) {
    fmt::print(stderr, "attest: {}: is empty; attest history add enters results into it\n",
               arguments.index);
    return kNothing;
  }
  check_filters(keys, arguments);
  std::vector<reports::CaseHistory> all;
  for (const SeriesKey& key : keys)
    if (is_wanted(key, arguments)) all.push_back(history_of(index.series(key)));
  if (all.empty()) throw core::Error("history show: no series matches all filters together");
  write_json_file("--json", arguments.json_path, reports::to_json(all));
  fmt::print("{}", print_history(all, arguments.changed_only));
  return kOk;
}

/// Throws Error if an option of `show` is given to another action.
void check_options(const HistoryArguments& arguments) {
  if (arguments.action == "show") return;
  const std::pair<const char*, bool> options[] = {{"--case", !arguments.cases.empty()},
                                                  {"--impl", !arguments.impls.empty()},
                                                  {"--dtype", !arguments.dtypes.empty()},
                                                  {"--changed", arguments.changed_only},
                                                  {"--json", !arguments.json_path.empty()}};
  for (const auto& [name, given] : options)
    if (given)
      throw core::Error(fmt::format("history {}: {}: is an option of attest history show",
                                    arguments.action, name));
}

int run(const HistoryArguments& arguments) {
  check_options(arguments);
  refuse_inputs("--index", arguments.index, arguments.files, {});
  refuse_inputs("--json", arguments.json_path, arguments.files, {arguments.index});
  if (arguments.action == "add") return add(arguments);
  return arguments.action == "rebuild" ? rebuild(arguments) : show(arguments);
}

void add_globs(CLI::App& command, const char* name, std::vector<std::string>& globs,
               const char* help) {
  command.add_option(name, globs, help)->delimiter(',')->allow_extra_args(false)->type_name("GLOB");
}

}  // namespace

Command add_history(CLI::App& program) {
  CLI::App* command = program.add_subcommand(
      "history", "find from which commit on a case is slower, bigger or less accurate");
  auto arguments = std::make_shared<HistoryArguments>();
  command
      ->add_option("action", arguments->action,
                   "add results to an index, show its series and their steps, or rebuild it")
      ->required()
      ->check(CLI::IsMember({"add", "show", "rebuild"}).description(""))
      ->type_name("add|show|rebuild");
  command
      ->add_option("results", arguments->files,
                   "results to add; to rebuild from, in place of the files that the index names")
      ->type_name("FILE");
  command
      ->add_option("--index", arguments->index,
                   "the index, an SQLite file; it holds nothing that the results do not")
      ->capture_default_str()
      ->type_name("FILE");
  add_globs(*command, "--case", arguments->cases,
            "show these cases, by their names or SUITE/NAME; several are separated by commas");
  add_globs(*command, "--impl", arguments->impls, "show these implementations");
  add_globs(*command, "--dtype", arguments->dtypes, "show these dtypes");
  command->add_flag("--changed", arguments->changed_only, "show only series that have a step");
  command->add_option("--json", arguments->json_path, "also write the series and steps as JSON")
      ->type_name("FILE");
  command->footer(
      "A series is one case and implementation on one machine, in one power mode, kind of build "
      "and number of threads. Its runs are in the order of the times at which they began. Steps "
      "are found by E-divisive with a seeded permutation test; they need at least 3 runs on each "
      "side and 11 in all. Commits are those of attest.\n"
      "Examples:\n"
      "  attest history add results/*.jsonl\n"
      "  attest history show --case 'vit/*' --impl 'flash_*' --changed\n"
      "  attest report results.jsonl --history history.sqlite -o report.html\n"
      "Exit codes: 0 done, whether there are steps or none; 4 the index is empty, locked, or "
      "cannot "
      "be read or written; 64 usage, not a results file, a filter that matches nothing, or no "
      "index "
      "or a damaged one.");
  return [arguments] { return run(*arguments); };
}

}  // namespace attest::cli
