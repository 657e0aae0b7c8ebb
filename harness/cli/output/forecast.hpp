// --dry-run: shows what a plan would run, with estimates, without running it.
#pragma once
#include <vector>

#include "cli/options/judging_options.hpp"
#include "core/session/plan.hpp"

namespace attest::cli {

/// Prints a line for each implementation and case that would run or be skipped, then totals.
/// Returns the records: those that pass would run. With --resume, the finished records of that file
/// are counted, and their speeds are used. Throws Error as the run itself would.
std::vector<core::Record> forecast(core::Plan plan, JudgingOptions& options);

}  // namespace attest::cli
