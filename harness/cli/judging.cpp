#include "cli/judging.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <map>

#include "cli/exit_code.hpp"
#include "cli/interrupt.hpp"
#include "cli/output/ending.hpp"
#include "cli/output/forecast.hpp"
#include "cli/output/recorder.hpp"
#include "cli/output/table_file.hpp"
#include "core/device/device_kinds.hpp"
#include "core/measure/machine/board/board.hpp"
#include "core/record/races.hpp"
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

// A GPU's driver does not say whether its clocks are locked; a Jetson's files do.
void require_locked_clocks(const core::Implementations& implementations) {
  core::UnlockedClocks clocks = core::find_unlocked_clocks();
  for (const core::Registry::Entry& entry : implementations.chosen()) {
    const core::DeviceKind* kind = core::find_device_kind(entry.implementation->device);
    if (core::read_board() || !kind || !kind->own_memory) continue;
    clocks.which.push_back(fmt::format("the clocks of {} devices, on which {} runs, cannot be seen",
                                       kind->title, entry.implementation->name));
    if (clocks.remedy.empty()) clocks.remedy = "--impl, to choose others";
    break;
  }
  if (!clocks.which.empty())
    throw core::Error(fmt::format("--require-locked-clocks: {}; what helps: {}",
                                  fmt::join(clocks.which, "; "), clocks.remedy));
}

void check_paths(const JudgingOptions& options) {
  namespace fs = std::filesystem;
  // --resume names the file to write as well; -o may name the same.
  if (!options.resume.empty() && !options.output.empty() &&
      fs::weakly_canonical(options.resume) != fs::weakly_canonical(options.output))
    throw core::Error(
        fmt::format("--resume {}: -o names another file, {}", options.resume, options.output));
  if (!options.resume.empty() || options.overwrite) return;
  refuse_to_replace(options.output);
  refuse_to_replace_table(options.table);
}

/// The sessions of one run, one after the other, into one recorder.
class Judging {
 public:
  Judging(JudgingOptions& options, const JudgingHooks& hooks) : options_(options), hooks_(hooks) {}

  void run(core::Session& session, Recorder& recorder) {
    session.run(recorder);
    while (session.completed() && hooks_.extend) {
      const size_t before = session.most_records();
      core::Plan more = hooks_.extend(all_records(session));
      if (more.jobs.empty()) break;
      session.extend(std::move(more));
      recorder.expect(session.most_records() - before);
      session.run(recorder);
    }
    records_ = all_records(session);
    completed_ = session.completed();
    shares_.add(session.shares());
  }

  void run_next_sessions(Recorder& recorder) {
    while (completed_ && hooks_.next_session) {
      core::Plan plan = hooks_.next_session(records_);
      if (plan.jobs.empty()) return;
      const core::Implementations implementations = options_.plugins.load();
      core::Session session(std::move(plan), implementations, options_.run_options(),
                            options_.token_files, interrupted);
      recorder.expect(session.most_records());
      run(session, recorder);
    }
  }

  const std::vector<core::Record>& records() const { return records_; }
  /// To be called when all sessions are over: passes before a race are suspect too.
  std::map<std::string, core::Overruled> overrule() { return core::overrule_races(records_); }
  bool completed() const { return completed_; }
  const core::Shares& shares() const { return shares_; }

 private:
  std::vector<core::Record> all_records(const core::Session& session) const {
    std::vector<core::Record> all = records_;
    all.insert(all.end(), session.records().begin(), session.records().end());
    return all;
  }

  JudgingOptions& options_;
  const JudgingHooks& hooks_;
  std::vector<core::Record> records_;  // of the sessions that are over
  bool completed_ = false;
  core::Shares shares_;
};

}  // namespace

int judge_plan(core::Plan plan, JudgingOptions& options, const JudgingHooks& hooks) {
  check_paths(options);
  if (options.dry_run) return exit_code(forecast(std::move(plan), options), true);
  const core::Implementations implementations = options.plugins.load();
  if (options.locked_clocks) require_locked_clocks(implementations);
  Judging judging(options, hooks);
  core::Session session(std::move(plan), implementations, options.run_options(),
                        options.token_files, interrupted);
  print_warnings(session.warnings());
  Recorder recorder(options, implementations, session);
  TableFile table(options.table);

  catch_interrupts();
  judging.run(session, recorder);
  judging.run_next_sessions(recorder);
  const std::map<std::string, core::Overruled> overruled = judging.overrule();
  const std::vector<core::Record>& records = judging.records();
  const core::NeverJudged left = core::never_judged(implementations.chosen(), records);
  if (judging.completed()) recorder.close(records, left);
  table.write(recorder.results(records, judging.completed()));

  if (hooks.before) hooks.before(records);
  if (options.shows_progress) {
    recorder.end_table(records);
    print_overruled(overruled);
    print_noise(records);
    print_excess(records);
  } else {
    recorder.print_all(records, judging.completed());
  }
  if (hooks.after) hooks.after(records);
  if (options.shows_shares) print_shares(judging.shares());
  if (!options.table.empty()) fmt::print("table: {}\n", options.table);
  if (options.shows_coverage) {
    if (!options.results_path().empty()) fmt::print("results: {}\n", options.results_path());
    fmt::print("{}", core::print_never_judged(left));
    print_next(records, options);
  }
  if (!judging.completed()) print_stop(options);
  return exit_code(records, left.empty() || !options.strict);
}

}  // namespace attest::cli
