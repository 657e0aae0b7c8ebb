// Whether a quantity got worse from one build to another, by its values in one or more launches of
// the program on either side.
//
// Samples of one launch share a machine state, so their interval says nothing about another launch:
// it is launches that count. Where launches of both sides took turns, each is paired with its
// neighbour and the interval is that of the median of the paired ratios. Else the comparison is
// weak: it needs an A/A floor, by how much launches of one and the same build differ.
#pragma once
#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace attest::core {

enum class Change { kSame, kBetter, kWorse, kInconclusive, kInvalid };

/// A quantity of which less is better, in one launch.
struct Launch {
  double median = 0, low = 0, high = 0;  // with the interval of the median
  double resolution = 0;                 // differences of no more than that are no differences
  double clock = 0;                      // of what counts cycles; 0: not known

  /// In units of what another took in the same launch.
  Launch relative_to(const Launch& other) const;
};

struct ChangeRule {
  double band = 0.01;           // relative differences within it do not matter
  std::optional<double> floor;  // A/A floor, as far as it is known from elsewhere
  double coverage = 0.99;       // of a paired interval
  double family_error = 0.05;   // of calling any of several cases worse that is not
};

/// What is said of one quantity. Codes, and the change that they go with:
///   same, better, worse: "paired" (the interval of paired ratios), "floor" (weak: against an A/A
///   floor), "exact" (compare_exact) inconclusive: "wide" (the interval reaches across the band's
///   edge), "no-floor" (weak, and no floor is known), "clocks" (cycles say otherwise: the clock
///   changed), "resolution" (of the timer), "many-cases" (too unlikely only for one of so many)
///   invalid: "no-launches", or what the caller says
struct Changed {
  Change change = Change::kInvalid;
  std::string code = "no-launches";
  double ratio = 0, low = 0, high = 0;  // after / before, with its interval
  double band = 0;                      // the floor included
  size_t launches_before = 0, launches_after = 0;
  bool paired = false;
  double p = 1;  // paired: of so many ratios beyond the band where there is no difference
};

/// The fewest pairs whose extremes cover 99 % (2 / 2^8 = 0.8 %), and the fewest launches that make
/// a floor of their own.
inline constexpr size_t kLeastLaunches = 8;

/// `paired`: before[i] and after[i] ran one after the other. Fewer than kLeastLaunches pairs are
/// compared as if they were not.
Changed compare_launches(std::span<const Launch> before, std::span<const Launch> after, bool paired,
                         const ChangeRule& rule);

/// Makes those inconclusive that are better or worse only when looked at alone.
void account_for_family(std::vector<Changed*> family, const ChangeRule& rule);

/// A quantity without noise but for `band` and an `absolute` amount: worse where every value after
/// is beyond every one before.
Changed compare_exact(std::span<const double> before, std::span<const double> after, double band,
                      double absolute);

}  // namespace attest::core
