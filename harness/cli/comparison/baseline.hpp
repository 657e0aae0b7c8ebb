// Makes the baseline of a gate from results, and says in its header where they come from.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "core/record/results.hpp"

namespace attest::cli {

/// Throws Error if the results cannot be one baseline: a run was cut short, two files are of one
/// launch and have one case, records of a case are of two builds, a time is no time, or the files,
/// or the old baseline and they, are of different machines or kinds of build.
void require_one_baseline(const std::optional<core::Results>& old,
                          const std::vector<core::Results>& fresh);

/// The records that are bad: "results.jsonl: vit/a f16 naive: fail".
std::vector<std::string> bad_records(const std::vector<core::Results>& results);

/// The cases whose launches in `old` are replaced by fewer ones:
/// "8 launches by 1 in 3 cases (vit/a f16 naive and 2 more)".
std::vector<std::string> lost_launches(const core::Results& old,
                                       const std::vector<core::Results>& fresh);

/// The records of `fresh`, of which each file is one launch, and those of `old` whose case, dtype
/// and implementation `fresh` lacks. Each record says of which launch it is. The header has the
/// facts that all sources share, and a group "baseline": `now`, the files with their commits, the
/// number of launches, and what is kept of `old`.
core::Results updated_baseline(const std::optional<core::Results>& old,
                               const std::vector<core::Results>& fresh, const std::string& now);

/// Replaces the file in one step. Throws MachineError.
void write_baseline(const std::string& path, const core::Results& baseline);

}  // namespace attest::cli
