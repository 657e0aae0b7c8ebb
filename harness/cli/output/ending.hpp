// What a run prints below its table.
#pragma once
#include <map>
#include <string>
#include <vector>

#include "cli/options/judging_options.hpp"
#include "core/record/races.hpp"
#include "core/session/session.hpp"

namespace attest::cli {

/// How the run spent its time.
void print_shares(const core::Shares& shares);
/// Whose passes in the table above are none, because a later case showed a race.
void print_overruled(const std::map<std::string, core::Overruled>& overruled);
/// How many times are noisy. Prints nothing if none is.
void print_noise(const std::vector<core::Record>& records);
/// Warns of times that are shorter than the limits of the machine allow: attest is wrong then.
/// Prints nothing if none is.
void print_excess(const std::vector<core::Record>& records);
/// The commands that a user may want next.
void print_next(const std::vector<core::Record>& records, const JudgingOptions& options);
/// Why a run was not completed, and how to complete it.
void print_stop(const JudgingOptions& options);
/// Of a run on vectors: the unsupported ones, counted by reason, and for each implementation the
/// number of records with each verdict.
void print_counts(const std::vector<core::Record>& records);

}  // namespace attest::cli
