// Compares two builds in turns. This decides which launches are made, which cases each of them
// runs, and when a case needs no more launches.
//
// A round has one launch of each side, and the side that comes first changes from round to round
// (ABBA). Both launches of a round run their cases in the same order, which is drawn from the seed.
// A case that cannot be compared is left out after the first round. A case is also left out as soon
// as its verdict is certain: an interval at 99.9 % and a sign test at a tenth of the error both say
// so. Looks that strict hardly change the error of the last look (Haybittle 1971, Peto et al.
// 1976). Cases that turn out slower are measured a second time, by further launches.
#pragma once
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "core/record/results.hpp"
#include "reports/compare/comparison.hpp"

namespace attest::cli {

enum class AbSide { kBefore, kAfter };

/// Describes a launch that is to be made.
struct AbLaunch {
  AbSide side = AbSide::kBefore;
  size_t number = 0;  // from 1, of all launches
  size_t round = 0;   // from 1
  size_t most_rounds = 0;
  bool confirms = false;             // the launch measures slower cases a second time
  std::vector<std::string> records;  // what it runs, in this order: "SUITE/CASE DTYPE IMPL"
};

/// Makes a launch and returns its results, or nothing if it was interrupted.
using AbLauncher = std::function<std::optional<core::Results>(const AbLaunch&)>;
/// Says how far the rounds have come.
struct AbProgress {
  size_t records_left = 0;  // how many records the next round runs
  size_t compared = 0;      // how many pairs of a case and an implementation have times to compare
  size_t most_rounds = 0;   // AbLaunch::most_rounds of the next round; it may grow after the first
};
/// Called after each round with the round's last launch.
using AbObserver = std::function<void(const AbLaunch& last, const AbProgress& now)>;

struct AbOptions {
  // If this is 0, the number follows from the times to compare, which the first round shows.
  size_t rounds = 0;
  uint64_t seed = 0;
  // Both sides are the same build. No case stops early, and none is measured a second time.
  bool self_check = false;
  std::vector<std::string> cases;  // "SUITE/CASE DTYPE"
  reports::CompareOptions compare;
};

struct AbOutcome {
  reports::Comparison comparison;
  // The launches of all whole rounds. Second measurements are not among them.
  std::vector<core::Results> before, after;
  size_t launches = 0;
  size_t rounds = 0;         // how many were planned, without second measurements
  size_t stopped_early = 0;  // cases whose verdict was certain before the last round
  size_t slower = 0;         // cases that were slower at first, and were measured a second time
  size_t not_confirmed = 0;  // those among them that were not slower the second time
  bool interrupted = false;
};

/// Returns how many rounds it takes before Holm's correction can call one time among `compared`
/// slower by a statistic that has this share of the chance of a false alarm: kFastShare if all runs
/// slow down, kMedianShare if only some do. The result is at least kLeastLaunches.
size_t rounds_for(size_t compared, const core::ChangeRule& rule, double share);

/// As many rounds as find what slows only some of the runs.
size_t default_rounds(size_t compared, const core::ChangeRule& rule);

/// Runs all launches. If one is interrupted, the rounds before it are compared.
AbOutcome run_ab(const AbOptions& options, const AbLauncher& launch, const AbObserver& observe);

}  // namespace attest::cli
