// Runs a plan for a command: writes records to a file and to the screen, and returns an exit code.
#pragma once
#include <functional>
#include <vector>

#include "cli/options/judging_options.hpp"
#include "core/session/session.hpp"

namespace attest::cli {

/// Prints something about the records in addition to their table.
using PrintRecords = std::function<void(const std::vector<core::Record>&)>;
/// Further jobs that the records so far call for; a plan without jobs: none.
using MoreJobs = std::function<core::Plan(const std::vector<core::Record>&)>;

/// What a command adds to the run of its plan; each may be empty.
struct JudgingHooks {
  PrintRecords before;  // called before the end of the table (without progress, before the table)
  PrintRecords after;   // called after the table
  MoreJobs extend;      // asked again and again, when all jobs are done
  // As `extend`, but it may change the number of threads, for which new workers start. Asked when
  // `extend` has no more jobs.
  MoreJobs next_session;
};

/// Runs the plan and prints the table of records. If options.shows_progress, rows are printed as
/// the records come, otherwise all of them at the end. With options.dry_run it only prints what
/// would run. Returns an ExitCode. Throws Error if options contradict each other.
int judge_plan(core::Plan plan, JudgingOptions& options, const JudgingHooks& hooks = {});

}  // namespace attest::cli
