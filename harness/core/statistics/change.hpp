// Decides whether a quantity got worse from one build to another, from its values in one or more
// launches of each build.
//
// Samples of one launch share a machine state, so their interval says nothing about other launches;
// a launch counts as one measurement. If launches of both builds took turns, neighbours are paired,
// and the interval is that of the median of the paired ratios. Otherwise the comparison is weak: it
// needs an A/A floor, by which launches of one build differ from one another.
//
// What disturbs a run makes it longer, never shorter, so on a shared machine the fastest runs of a
// launch vary far less than its median (Chen and Revels, "Robust benchmarking in noisy
// environments", arXiv:1608.04295): on a virtual machine by half as much. Pairs are therefore
// compared twice: by the time that a tenth of the runs beat, with 90 % of the chance of a false
// alarm (kFastShare), and by the median, with 10 %. The median finds what slows only some of the
// runs, and needs more launches for that.
#pragma once
#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace attest::core {

enum class Change { kSame, kBetter, kWorse, kInconclusive, kInvalid };

/// The value of a quantity in one launch. Less is better.
struct Launch {
  double median = 0, low = 0, high = 0;  // the median with its interval; infinite: not known
  double resolution = 0;                 // smaller differences do not count
  double clock = 0;                      // the clock rate of the device; 0: not known
  double fast = 0;                       // the value that a tenth of the samples beat; 0: not known

  /// Divided by the value of `other` in the same launch.
  Launch relative_to(const Launch& other) const;
};

struct ChangeRule {
  double band = 0.01;                  // relative differences up to this do not matter
  std::optional<double> floor;         // A/A floor, if it was measured before
  std::optional<double> paired_floor;  // that of the paired ratios of medians; nothing: `floor`
  std::optional<double> fast_floor;  // that of the paired ratios of Launch::fast; nothing: `floor`
  double coverage = 0.99;            // of the intervals of paired ratios, both together
  double family_error = 0.05;        // chance of calling any unchanged case worse, over all cases
};

/// The change of one quantity. The codes:
///
/// - same, better, worse: "paired" (interval of paired ratios of medians), "paired-fast" (the same
///   of Launch::fast), "floor" (weak, with an A/A floor), "exact" (compare_exact).
/// - inconclusive: "wide" (the interval contains the edge of the band), "within-floor" (it lies
///   within the floor, but not within the band), "one-sample" (weak, and a launch has no interval),
///   "no-floor" (weak, without a floor), "clocks" (the clock rate changed, and cycles contradict
///   the time), "resolution" (below the timer's resolution), "many-cases" (significant alone, but
///   not among this many cases), "median-alone" (the medians differ at `coverage`, but not at the
///   higher one that they need where the fastest runs do not differ: more launches would tell),
///   "two-ways" (the fastest runs got faster and the medians slower, or the other way round).
/// - invalid: "no-launches", or a code of the caller.
struct Changed {
  Change change = Change::kInvalid;
  std::string code = "no-launches";
  double ratio = 0, low = 0, high = 0;  // after / before, with its interval
  double band = 0;                      // the floor included
  size_t launches_before = 0, launches_after = 0;
  bool paired = false;
  bool of_fastest = false;  // the ratio is of Launch::fast, not of medians
  double p = 1;  // if paired: the least p-value of the sign tests against the edge of the band,
                 // each divided by its share
};

/// The shares of the chance of a false alarm that the fastest runs and the medians have.
inline constexpr double kFastShare = 0.9, kMedianShare = 0.1;

/// The fewest pairs whose extremes are a 99 % interval (2 / 2^8 = 0.8 %), and the fewest launches
/// that give a floor by themselves.
inline constexpr size_t kLeastLaunches = 8;

/// Compares the launches of two builds. `paired`: before[i] and after[i] ran one after the other.
/// Fewer than kLeastLaunches pairs are compared as unpaired.
Changed compare_launches(std::span<const Launch> before, std::span<const Launch> after, bool paired,
                         const ChangeRule& rule);

/// Applies Holm's correction: a change that is significant alone, but not among all of `family`,
/// becomes inconclusive.
void account_for_family(std::vector<Changed*> family, const ChangeRule& rule);

/// Compares a quantity without noise. It is worse if every value after exceeds every value before
/// by more than `band` and by more than the amount `absolute`.
Changed compare_exact(std::span<const double> before, std::span<const double> after, double band,
                      double absolute);

}  // namespace attest::core
