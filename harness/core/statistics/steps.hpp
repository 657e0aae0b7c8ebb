// Finds steps in a series: places where the values of a quantity change to another level.
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
  size_t least_segment = 3;     // the fewest values of a level, so that a single spike is no step
  double significance = 0.005;  // the chance of a false step in a series without steps
  size_t permutations = 999;    // in the test of one step
  double band = 0.01;           // a smaller relative change is no step
  uint64_t seed = 1;            // of the permutations
};

/// A change of the level, between the values [from, at) and [at, to).
struct Step {
  size_t from = 0, at = 0, to = 0;
  /// The medians of both sides; of a drift, the ends of the line that fits its values.
  double before = 0, after = 0;
  double p = 1;  // the p-value of the permutation test
  /// The values from `from` to `to` fit a line better than levels. They drifted, so no single value
  /// begins a new level.
  bool drift = false;
  /// One side reaches an end of the series and has fewer than twice least_segment values. Further
  /// values may move the step or take it back. A drift is uncertain if each of its steps is.
  bool uncertain = false;
};

struct Steps {
  std::vector<Step> steps;  // in order of place
  /// The number of values at each end that cannot show a step yet.
  size_t unseen = 0;
  bool long_enough = false;  // at least least_values()
};

/// Returns the fewest values that a series needs before any step can be significant.
size_t least_values(const StepRule& rule = {});

/// Finds the steps of `values`, which are finite and in order of time. In each part that is
/// divided, a value that is more than three interquartile ranges beyond a quartile of the part is
/// moved to that limit, so that a spike hides no step. The function takes O(permutations n^2) time
/// if there is a step, else about O(10 n^2).
Steps find_steps(std::span<const double> values, const StepRule& rule = {});

}  // namespace attest::core
