// Trials of mutants: one (implementation, case) is caught, by whichever checks, or equivalent to
// the healthy implementation, or it got away.
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

/// What a trial asks for: fills until one fails, all fills, or all fills and relations between
/// runs, which take most of the time.
enum class Checks { kFirst, kFills, kAll };

/// Whether an implementation has no bug: mutant_none, step_none_t64.
bool is_healthy(const std::string& implementation);
/// The healthy implementation that has the mutant's tile size, by name; empty where the name has
/// none.
std::string twin_of(const std::string& mutant);

/// One case with its inputs and goldens, and what healthy implementations write.
class Trials {
 public:
  /// Throws Error where the healthy implementation, the first one that takes the case, does not
  /// pass. So does run, where the mutant's own twin does not.
  Trials(core::Plugin& plugin, const MutantCase& wanted, Checks checks);

  /// Equivalent: the very bytes of its healthy twin under every fill, or the mutant refuses since
  /// they would be.
  Trial run(const core::Implementation& mutant);

 private:
  const core::Record& healthy(const core::Implementation& twin);
  const core::Record& twin_record(const core::Implementation& mutant);

  core::Plugin& plugin_;
  MutantCase case_;
  core::Problem problem_;
  core::RunOptions options_;
  core::Rates rates_;
  core::CaseRunner runner_;
  std::map<std::string, core::Record> healthy_;  // by implementation
  const core::Implementation* first_;            // that takes the case
};

/// Every check of a record that accuses the implementation. Lack of memory, and errors of goldens,
/// inputs and the tolerance model, accuse nobody.
std::vector<Catch> catches(const core::Record& record);

}  // namespace attest::testing
