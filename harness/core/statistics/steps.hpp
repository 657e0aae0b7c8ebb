// Steps in a series: where the values of a quantity, in order of time, go over to another level.
//
//   const Steps steps = find_steps(medians_ns);
//   for (const Step& step : steps.steps) print(step.at, step.before, step.after);
//
// The method is E-divisive (Matteson and James, "A nonparametric approach for multiple change point
// analysis of multivariate data", JASA 109, 2014), which Apache Otava uses too: the energy distance
// of two neighbouring segments is maximised, and a seeded permutation test decides whether it is
// larger than chance gives. It assumes no distribution, but that values of one level could have
// come in any order: a machine that heats up all day breaks that.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace attest::core {

struct StepRule {
  size_t least_segment = 3;   // values that a level has at least: a single spike is no step
  double level = 0.005;       // chance of a false step in a series without any
  size_t permutations = 999;  // of the test of one step
  double band = 0.01;         // relative changes up to this do not matter
  uint64_t seed = 1;          // of the permutations
};

/// A change of the level, between the values [from, at) and [at, to).
struct Step {
  size_t from = 0, at = 0, to = 0;
  double before = 0, after = 0;  // medians of both sides
  double p = 1;                  // of the permutation test
  /// A line fits the values from `from` to `to` better than levels do: they drifted, and no single
  /// one of them stands at a step.
  bool drift = false;
  /// One side reaches an end of the series, and has fewer than twice least_segment values: the
  /// next values may move the step or take it back.
  bool uncertain = false;
};

struct Steps {
  std::vector<Step> steps;  // by place
  /// So many values at each end cannot show a step yet.
  size_t unseen = 0;
  bool long_enough = false;  // at least least_values()
};

/// The fewest values of which some order is so rare that a step can be significant.
size_t least_values(const StepRule& rule = {});

/// Finds the steps of `values`, which are finite and in order of time. Values farther than three
/// interquartile ranges from the quartiles count as if they were there, so that a spike hides no
/// step. Takes O(permutations n^2) time where there is a step, and about O(10 n^2) where none is.
Steps find_steps(std::span<const double> values, const StepRule& rule = {});

}  // namespace attest::core
