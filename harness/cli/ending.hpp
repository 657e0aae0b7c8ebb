// What a run prints below its table.
#pragma once
#include <vector>

#include "cli/judging_options.hpp"
#include "core/session/session.hpp"

namespace attest::cli {

/// How the run spent its time.
void print_shares(const core::Shares& shares);
/// The commands that a user may want next.
void print_next(const std::vector<core::Record>& records, const JudgingOptions& options);
/// Why a run was not completed, and how to complete it.
void print_stop(const JudgingOptions& options);
/// Of a run on vectors: the unsupported ones, counted by reason, and for each implementation the
/// number of records with each verdict.
void print_counts(const std::vector<core::Record>& records);

}  // namespace attest::cli
