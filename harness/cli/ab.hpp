// Compares two builds in turns: which launches there are, which cases each of them runs, and when a
// case needs no more of them.
//
// A round is one launch of either side, and the side that comes first changes from round to round
// (ABBA). Each launch of a round runs its cases in one order, which is drawn from the seed. A case
// that cannot be compared is left out after the first round. One whose verdict is certain is left
// out before the last: its interval at 99.9 % says the same, and so does a sign test at a tenth of
// the error. Looks that strict leave the error of the last look as it is (Haybittle 1971, Peto et
// al. 1976). Cases that are slower are measured once more, by launches of their own.
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

/// One launch that is to be made.
struct AbLaunch {
  AbSide side = AbSide::kBefore;
  size_t number = 0;  // from 1, of all launches
  size_t round = 0;   // from 1
  size_t most_rounds = 0;
  bool confirms = false;             // it measures cases again that were slower
  std::vector<std::string> records;  // "SUITE/CASE DTYPE IMPL", in their order
};

/// Makes a launch. Nothing: it was interrupted.
using AbLauncher = std::function<std::optional<core::Results>(const AbLaunch&)>;
/// Called after each round with the launches of this round and the number of cases that go on.
using AbObserver = std::function<void(const AbLaunch& last, size_t cases_left)>;

struct AbOptions {
  size_t rounds = core::kLeastLaunches;
  uint64_t seed = 0;
  bool self_check = false;         // both sides are one build: nothing stops early, and nothing is
                                   // measured once more
  std::vector<std::string> cases;  // "SUITE/CASE DTYPE"
  reports::CompareOptions compare;
};

struct AbOutcome {
  reports::Comparison comparison;
  std::vector<core::Results> before, after;  // of whole rounds, without those that confirm
  size_t launches = 0;
  size_t stopped_early = 0;              // cases whose verdict was certain before the last round
  size_t slower = 0, not_confirmed = 0;  // cases that were measured again, and were not slower then
  bool interrupted = false;
};

/// The fewest rounds after which one case among `cases` can be slower by Holm's correction, and at
/// least kLeastLaunches.
size_t rounds_for(size_t cases, const core::ChangeRule& rule);

/// Runs all launches. If one is interrupted, the rounds before it are compared.
AbOutcome run_ab(const AbOptions& options, const AbLauncher& launch, const AbObserver& observe);

}  // namespace attest::cli
