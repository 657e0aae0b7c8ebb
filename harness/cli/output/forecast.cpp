#include "cli/output/forecast.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "core/run/rates.hpp"
#include "core/session/earlier_results.hpp"
#include "core/session/session.hpp"
#include "reports/table.hpp"
#include "reports/words/titles.hpp"
#include "reports/words/units.hpp"

namespace attest::cli {
namespace {

// The estimates say whether a run takes seconds, minutes or hours. The constants are of the quick
// suites on two cores.
// The speed of an implementation of which no run was seen, as a share of the highest that attest
// assumes.
constexpr double kUsualShare = 0.1;
// Runs of the checks between runs and of audits, beside one for each fill
constexpr double kFurtherRuns = 10;
// Inputs, goldens and checks of one record
constexpr double kAround_s = 0.5;
// All runs of one record, at most, as a multiple of the limit for four of them: slow runs are fewer
constexpr double kCaseLimits = 2;

// "3.20 s", "12 min".
std::string print_duration(double seconds) {
  return seconds < 120 ? reports::print_time(seconds * 1e9)
                       : fmt::format("{:.0f} min", seconds / 60);
}

/// Prints the table of what would run.
class Forecast : public core::Sink {
 public:
  Forecast(const JudgingOptions& options, const core::Implementations& implementations,
           const core::Identity& identity)
      : options_(options) {
    if (!options.resume.empty()) earlier_ = core::EarlierResults(options.resume);
    if (earlier_.begun()) earlier_.require_same(identity);
    for (const core::Registry::Entry& entry : implementations.chosen())
      width_ = std::max(width_, entry.implementation->name.size());
    fmt::print("  {:<{}}  {:<11} {:>9} {:>9} {:>9}\n", "", width_, "would", "a run", "in all",
               "memory");
  }

  const core::Record* earlier(const core::CaseKey& key) override {
    const core::Record* record = earlier_.take(key);
    if (!record) return nullptr;
    ++finished_;
    if (record->outcome.passes() && record->flops >= core::Rates::kLeastFlops)
      seen_.insert(record->impl);
    return record;
  }
  void finished(const core::Job& job, const core::Registry::Entry* entry,
                core::Record& record) override {
    if (!record.outcome.passes()) ++others_[record.outcome.verdict()];
    if (record.outcome.verdict() == core::Verdict::kUnsupported) return unsupported_.add(record);
    if (const std::string title = reports::case_heading(record); title != title_)
      fmt::print("{}\n", title_ = title);
    fmt::print("  {:<{}}  ", record.impl, width_);
    if (!record.outcome.passes())
      fmt::print("{:<11} {}\n", name(record.outcome.verdict()), record.outcome.reason);
    else if (entry)
      add(record, timed_s(job));
    else
      fmt::print("be judged\n");  // the outputs of a vector: they are there
  }
  void print_totals() const {
    fmt::print("{}\n{} would run", unsupported_.print(), count_);
    if (!others_.empty()) fmt::print(", {}", reports::print_verdicts(others_));
    if (finished_ > 0) fmt::print("; {} finished in {}", finished_, options_.resume);
    fmt::print("\nabout {} in all; at most {} of memory at a time\n", print_duration(total_s_),
               reports::print_bytes(most_bytes_));
    fmt::print(
        "These are estimates. An implementation of which no run was seen is taken to reach a tenth "
        "of the\nhighest speed that attest assumes; --resume FILE takes the speeds in FILE. During "
        "the run, attest\nskips cases for which an implementation turns out to be too slow.\n");
  }

 private:
  // Seconds of timed runs.
  double timed_s(const core::Job& job) const {
    if (options_.untimed) return 0;
    return job.budget_s > 0 ? job.budget_s : options_.plugins.limits.budget_s;
  }
  void add(const core::Record& record, double timed_s) {
    const double run_ns = record.estimated_ns / (seen_.contains(record.impl) ? 1 : kUsualShare);
    const double runs_s = std::min(run_ns * 1e-9 * (double(record.fills.size()) + kFurtherRuns),
                                   kCaseLimits * options_.plugins.limits.case_limit_s);
    const double seconds = kAround_s + timed_s + runs_s;
    fmt::print("{:<11} {:>9} {:>9} {:>9}\n", "run", reports::print_time(run_ns),
               print_duration(seconds), reports::print_bytes(record.estimated_bytes));
    ++count_;
    total_s_ += seconds;
    most_bytes_ = std::max(most_bytes_, record.estimated_bytes);
  }

  const JudgingOptions& options_;
  core::EarlierResults earlier_;
  std::set<std::string> seen_;  // implementations of which a speed is known
  size_t width_ = 14, count_ = 0, finished_ = 0;
  std::map<core::Verdict, int> others_;  // of what would not run
  double total_s_ = 0, most_bytes_ = 0;
  std::string title_;
  reports::UnsupportedCounts unsupported_;
};

}  // namespace

std::vector<core::Record> forecast(core::Plan plan, JudgingOptions& options) {
  const core::Implementations implementations = options.plugins.load();
  core::Session session(std::move(plan), implementations, options.run_options(),
                        options.token_files);
  print_warnings(session.warnings());
  Forecast sink(options, implementations, options.identity(session));
  session.run(sink);
  sink.print_totals();
  return session.records();
}

}  // namespace attest::cli
