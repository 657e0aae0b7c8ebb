// Two builds by their records: what passed and does no more, what got slower, bigger or less
// accurate.
#pragma once
#include <map>
#include <string>
#include <vector>

#include "core/record/results.hpp"
#include "core/statistics/change.hpp"

namespace attest::reports {

/// Of the records that both sides have. Only a pass is compared further.
enum class VerdictChange {
  kSame,
  kRegressed,  // was not bad, and is; or passed, and is unsupported
  kFixed,
  kSkipped,  // passed, and was not tried
};

struct CompareOptions {
  core::ChangeRule rule;
  std::string relative_to;  // times are shares of what this implementation took in the same launch;
                            // empty: nanoseconds
  bool across_machines = false;  // times of different machines and builds too
};

/// One (implementation, case, dtype) in both.
struct Compared {
  std::string suite, case_name, dtype, impl;
  core::Verdict before = core::Verdict::kError,
                after = core::Verdict::kError;  // the worst of several launches
  VerdictChange verdict = VerdictChange::kSame;
  double before_ns = 0, after_ns = 0;  // median over launches; 0: not timed
  core::Changed time, memory, error;
  bool same_binary = false;
  bool same_everything = false;  // binary, attest, loaded libraries, environment: a difference of
                                 // time is the machine's
};

struct Comparison {
  std::vector<Compared> cases;
  std::vector<std::string> only_before, only_after;  // "vit/a f16 flash_cuda"
  std::vector<std::string> notes;  // what sets the sides apart, what was cut short
};

/// Each file is one launch of attest, or a part of one. Of records that a file has more than once,
/// samples are taken together. Files of both sides whose starts took turns are paired. Codes beside
/// those of core/measure/change.hpp, all of them invalid: "not-passed", "other-problem"; of times
/// "not-timed", "timed-once" (on one side alone), "other-machine", "other-build", "other-threads",
/// "is-peer", "no-peer" (relative_to has no time there); of memory "not-measured"; of errors
/// "other-inputs", "other-arithmetic".
Comparison compare(const std::vector<core::Results>& before,
                   const std::vector<core::Results>& after, const CompareOptions& options);

/// Of a quantity that nobody asks about: neither side has a time, one did not pass, or it is the
/// peer.
bool nothing_to_tell(const core::Changed& changed);

/// Whether a case is worse in anything, by more than the machine's doing; whether nothing about it
/// changed or could not be told.
bool worse(const Compared& one);
bool unchanged(const Compared& one);

/// Whether anything passes no more; whether anything else is worse; whether anything could not be
/// told.
bool regressed(const Comparison& comparison);
bool worse(const Comparison& comparison);
bool inconclusive(const Comparison& comparison);

}  // namespace attest::reports
