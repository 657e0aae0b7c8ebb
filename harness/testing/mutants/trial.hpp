// Trials of mutants: one (implementation, case) is caught, by whichever checks, or equivalent to the healthy implementation, or
// it got away.
#pragma once
#include <map>
#include <string>
#include <vector>

#include "core/run/runner.hpp"
#include "testing/mutants/cases.hpp"

namespace attest::testing {

/// How a check caught something: the inputs it ran on, and what of the judgement said so.
struct Catch {
  std::string check;  // a fill
  std::string by;     // "o", "lse", "sweep" or a code: "crash:canary"
};

struct Trial {
  enum class Outcome { kCaught, kEquivalent, kGotAway };
  std::string mutant, family, dtype;
  int64_t tokens = 0;
  Outcome outcome = Outcome::kGotAway;
  std::vector<Catch> catches;  // one, or all where all checks were asked for
  double worst = 0;            // of both ratios; what got away shows how far it was
  std::string reason;
};

/// One case with its inputs and goldens, and what the healthy implementation writes.
class Trials {
 public:
  /// Throws Error where the healthy implementation, the first one that takes the case, does not pass.
  Trials(core::Plugin& plugin, const MutantCase& wanted, bool all_checks);

  /// Equivalent: the very bytes of the healthy implementation under every fill, or the mutant refuses since they would be.
  Trial run(const core::Implementation& mutant);
  const core::Record& healthy() const { return healthy_; }

 private:
  core::Plugin& plugin_;
  MutantCase case_;
  core::Problem problem_;
  core::RunOptions options_;
  core::Rates rates_;
  core::CaseRunner runner_;
  core::Record healthy_;
};

/// Every check of a record that did not pass.
std::vector<Catch> catches(const core::Record& record);

}  // namespace attest::testing
