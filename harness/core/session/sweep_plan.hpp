// Plans of sweeps: a job for each size.
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "core/problem/sweep.hpp"
#include "core/session/plan.hpp"

namespace attest::core {

/// Selects entries of the section `scaling` of suites.
struct SweepFilter {
  std::vector<std::string> names, dtypes;  // globs; empty: all
  bool quick = false;                      // only those that a suite marks as quick
};

/// The entries that pass the filter, with the dtypes that pass it. Throws Error: a suite that
/// cannot be read or has no section `scaling`, a glob that matches nothing, or nothing is left.
std::vector<Scaling> read_scalings(const std::vector<std::string>& suites,
                                   const SweepFilter& filter);
/// Sets entries of one suite apart that share a name: "softmax", "softmax-2".
void number_names(std::vector<Scaling>& scalings);

struct PointOptions {
  double budget_s = 0;             // seconds of timed runs; 0: the session's budget
  std::vector<std::string> fills;  // judge only on these; empty: on those of the entry
  int32_t threads = 0;             // named in the cases' names; 0: is not
};

/// Adds a job for one size of the sweep, in each of its dtypes.
void add_point(const Sweep& sweep, int64_t value, const PointOptions& options, Plan& plan);
/// A job for every size of every sweep, and for the smallest problem of each, which comes first.
/// Throws Error: a fill that a sweep does not have.
Plan plan_sweeps(std::span<const Sweep> sweeps, const PointOptions& options);

}  // namespace attest::core
