// A plan's way through a session: records to a file and a screen, and an exit code.
#pragma once
#include <functional>
#include <vector>

#include "cli/judging_options.hpp"
#include "core/session/session.hpp"

namespace attest::cli {

/// Prints what a command has to say of the records beside their table.
using PrintRecords = std::function<void(const std::vector<core::Record>&)>;

/// Runs the plan and prints the table, row by row as records come if progress is shown. A command
/// that has more to show gives `after`, or `before` if it shows no progress. Returns an ExitCode.
/// Throws Error for options that make no sense.
int judge_plan(core::Plan plan, JudgingOptions& options, const PrintRecords& before = {},
               const PrintRecords& after = {});

/// The counts of verdicts that a run of vectors ends with, and what attest has no word for.
void print_counts(const std::vector<core::Record>& records);

}  // namespace attest::cli
