#include "cli/judging.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <map>

#include "cli/exit_code.hpp"
#include "cli/forecast.hpp"
#include "cli/interrupt.hpp"
#include "cli/recorder.hpp"
#include "cli/table_file.hpp"
#include "core/tensor/error.hpp"

namespace attest::cli {
namespace {

// `all_judged`: every declared feature and dtype was judged, or --strict was not given.
int exit_code(const std::vector<core::Record>& records, bool all_judged) {
  using core::Record;
  if (interrupted()) return kInterrupted;
  if (std::ranges::any_of(records, [](const Record& r) { return r.outcome.is_bad(); })) return kBad;
  if (std::ranges::none_of(records, [](const Record& r) { return r.outcome.passes(); }))
    return kNothing;
  return all_judged ? kOk : kInconclusive;
}

// What the harness itself took, beside implementations and goldens.
void print_shares(const core::Shares& shares) {
  const double own =
      std::max(0.0, shares.total_s - shares.implementations_s - shares.judging_s - shares.inputs_s);
  fmt::print(
      "{:.1f} s: {:.1f} s in implementations, {:.1f} s in goldens and judging, {:.1f} s in inputs, "
      "{:.1f} s ({:.1f} %) in the harness\n",
      shares.total_s, shares.implementations_s, shares.judging_s, shares.inputs_s, own,
      own / shares.total_s * 100);
}

// The command that explains the reason code of most bad records.
void print_advice(const std::vector<core::Record>& records) {
  std::map<core::ReasonCode, int> counts;
  for (const core::Record& record : records)
    if (record.outcome.is_bad()) ++counts[record.outcome.code];
  const auto most = std::ranges::max_element(
      counts, {}, [](const auto& code_and_count) { return code_and_count.second; });
  if (most != counts.end())
    fmt::print("attest explain {}: what it means, and what to do\n", name(most->first));
}

// Says why the run was not completed, and how to complete it.
void print_stop(const core::Session& session, const JudgingOptions& options) {
  if (session.completed()) return;
  fmt::print(stderr, "attest: {}; what was measured is kept",
             interrupted() ? "interrupted" : "stopped after the first bad record (--fail-fast)");
  const std::string& path = options.results_path();
  if (!path.empty())
    fmt::print(stderr, ", and --resume {}{} goes on with it", path,
               options.fail_fast ? " without --fail-fast" : "");
  fmt::print(stderr, "\n");
}

void check_paths(const JudgingOptions& options) {
  namespace fs = std::filesystem;
  // --resume names the file to write as well; -o may name the same.
  if (!options.resume.empty() && !options.output.empty() &&
      fs::weakly_canonical(options.resume) != fs::weakly_canonical(options.output))
    throw core::Error(
        fmt::format("--resume {}: -o names another file, {}", options.resume, options.output));
  if (options.resume.empty() && !options.overwrite) refuse_to_replace(options.output);
}

}  // namespace

int judge_plan(core::Plan plan, JudgingOptions& options, const PrintRecords& before,
               const PrintRecords& after) {
  check_paths(options);
  if (options.dry_run) return exit_code(forecast(std::move(plan), options), true);
  const core::Implementations implementations = options.plugins.load();
  core::Session session(std::move(plan), implementations, options.run_options(),
                        options.token_files, interrupted);
  Recorder recorder(options, implementations, session);
  TableFile table(options.table);

  catch_interrupts();
  session.run(recorder);
  if (session.completed()) recorder.close(session);
  table.write(recorder.results(session));

  const std::vector<core::Record>& records = session.records();
  if (before) before(records);
  if (options.shows_progress)
    recorder.end_table();
  else
    recorder.print_all(session);
  if (after) after(records);
  if (options.shows_shares) print_shares(session.shares());
  const core::NeverJudged left = session.never_judged();
  if (!options.table.empty()) fmt::print("table: {}\n", options.table);
  if (options.shows_coverage) {
    if (!options.results_path().empty()) fmt::print("results: {}\n", options.results_path());
    fmt::print("{}", core::print_never_judged(left));
    print_advice(records);
  }
  print_stop(session, options);
  return exit_code(records, left.empty() || !options.strict);
}

void print_counts(const std::vector<core::Record>& records) {
  std::map<std::string, std::map<std::string_view, int>> counts;
  std::vector<std::string> order;
  for (const core::Record& record : records) {
    if (record.outcome.code == core::ReasonCode::kUnsupportedVector)
      fmt::print("{}/{}: unsupported: {}\n", record.suite, record.case_name, record.outcome.reason);
    if (!counts.contains(record.impl)) order.push_back(record.impl);
    ++counts[record.impl][name(record.outcome.verdict())];
  }
  for (const std::string& impl : order) {
    std::string line;
    for (const std::string_view verdict : core::kVerdictNames)
      if (const auto at = counts[impl].find(verdict); at != counts[impl].end())
        line += fmt::format("{}{} {}", line.empty() ? "" : ", ", at->second, verdict);
    fmt::print("{:<14} {}\n", impl, line);
  }
}

}  // namespace attest::cli
