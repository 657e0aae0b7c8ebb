// Runs a plan for a command: writes records to a file and to the screen, and returns an exit code.
#pragma once
#include <functional>
#include <vector>

#include "cli/judging_options.hpp"
#include "core/session/session.hpp"

namespace attest::cli {

/// Prints something about the records in addition to their table.
using PrintRecords = std::function<void(const std::vector<core::Record>&)>;

/// Runs the plan and prints the table of records. If options.shows_progress, rows are printed as
/// the records come, otherwise all of them at the end. When the session is over, `before` is called
/// before the end of the table (before the whole table, without progress) and `after` after it;
/// either may be empty. With options.dry_run it only prints what would run. Returns an ExitCode.
/// Throws Error if options contradict each other.
int judge_plan(core::Plan plan, JudgingOptions& options, const PrintRecords& before = {},
               const PrintRecords& after = {});

}  // namespace attest::cli
