// Judges results by the limits of a rules file: on verdicts, times, memory, errors, deadlines and
// energy. Waivers excuse what is known.
#pragma once
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "core/record/case_key.hpp"
#include "core/record/results.hpp"
#include "reports/compare/floors.hpp"

namespace attest::reports {

/// The limits that are numbers. Those with a baseline limit growth, as `compare` judges it.
enum class Limit {
  kSlowerThan,  // times, with this as the A/A floor
  kBiggerThan,  // memory
  kMaxRatio,    // the largest error as a share of its gate
  kRmsRatio,    // the root mean square of errors as a share of its gate
  kLargerThan,  // errors
  kMissed,      // share of the frames of one policy that missed the deadline
  kRunJoules,   // of one run, by each sensor
  kMoreThan,    // joules of one run, by each sensor, with this as the A/A floor
};

/// How a rules file writes a limit: {"time": {"slower_than": "3 %"}}.
struct LimitName {
  Limit limit;
  const char *group, *key;
  bool is_percent;
  double least, most;  // that a rule may ask for
  bool needs_baseline;
};
inline constexpr LimitName kLimits[] = {
    {Limit::kSlowerThan, "time", "slower_than", true, 0.01, 10, true},
    {Limit::kBiggerThan, "memory", "bigger_than", true, 0, 10, true},
    {Limit::kMaxRatio, "error", "max_ratio", false, 0, 1, false},
    {Limit::kRmsRatio, "error", "rms_ratio", false, 0, 1, false},
    {Limit::kLargerThan, "error", "larger_than", true, 0, 10, true},
    {Limit::kMissed, "deadline", "missed", true, 0, 1, false},
    {Limit::kRunJoules, "energy", "run_joules", false, 0, 1e9, false},
    {Limit::kMoreThan, "energy", "more_than", true, 0.01, 10, true},
};
const LimitName& name_of(Limit limit);

/// Which verdicts a rule allows.
enum class AllowedVerdict {
  kPass,      // pass alone
  kNotBad,    // pass, unsupported and skipped
  kNotWorse,  // as good as in the baseline
};
inline constexpr const char* kAllowedVerdicts[] = {"pass", "not_bad", "not_worse"};

/// Whether a rule or a waiver is about a case.
using Scope = std::function<bool(const core::CaseKey&)>;

/// Of several rules about one case, the last that sets a limit decides that limit.
struct GateRule {
  std::string name;  // "rule 2"
  Scope scope;
  std::optional<AllowedVerdict> verdict;
  std::map<Limit, double> limits;  // 0.03 is 3 %
};

struct GateWaiver {
  std::string name;  // "waiver 1"
  Scope scope;
  std::vector<std::string> groups;  // of limits: "verdict", "time" ...; empty: of all
  std::string reason;
  std::string expires;  // the last day on which it holds: "2026-12-31", UTC
};

struct GateRules {
  std::vector<GateRule> rules;
  std::vector<GateWaiver> waivers;

  /// "rule 2: time.slower_than": the first limit that needs a baseline; empty: none does.
  std::string needs_baseline() const;
};

struct GateOptions {
  std::string today;               // "2026-12-31", UTC
  std::string relative_to;         // as in CompareOptions
  bool across_machines = false;    // as in CompareOptions
  const Floors* floors = nullptr;  // as in CompareOptions
};

/// One limit of one case that was broken or could not be judged.
struct GateFinding {
  core::CaseKey key;
  std::string group;   // "verdict", "time" ...
  std::string what;    // "slower x1.100 [1.090 1.110]; rule 1 allows 3 %"
  std::string code;    // why it could not be judged: a code of Compared, or of gate
  std::string repro;   // the command that repeats the case
  std::string waiver;  // if it is waived: "waived until 2026-12-31: known bug"
  int rank = 0;        // findings of a lower rank are worse
  double excess = 0;   // among one rank, those with more are worse
};

struct Gated {
  size_t cases = 0, limits = 0;                        // under a rule; judged
  std::vector<GateFinding> broken, waived, undecided;  // broken: the worst first
  std::vector<std::string> missing;    // cases of the baseline under a rule, not in the results
  std::vector<std::string> added;      // cases under a rule, not in the baseline
  std::vector<std::string> unmatched;  // rules that no case matches
  std::vector<std::string> notes;      // expired and unused waivers; notes of the comparison
  std::string
      unable;  // why a kind of limit could be judged nowhere; empty: each could be somewhere
};

/// Judges `after` by the rules; `before` is the baseline, and may be empty. Each file is one
/// launch, as for compare. A case that does not pass is judged by its verdict alone; without a
/// limit on its verdict its other limits are undecided. Codes of undecided limits beside those of
/// Compared: "not-passed", "no-frames", "no-energy".
Gated gate(const std::vector<core::Results>& before, const std::vector<core::Results>& after,
           const GateRules& rules, const GateOptions& options);

/// Whether a limit on a verdict is broken.
bool verdict_broken(const Gated& gated);
/// Whether a limit could not be judged, a case is missing, or a rule matches no case.
bool undecided(const Gated& gated);

}  // namespace attest::reports
