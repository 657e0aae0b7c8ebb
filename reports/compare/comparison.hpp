// Compares two builds by their records: what no longer passes, and what got slower, bigger or less
// accurate.
#pragma once
#include <map>
#include <string>
#include <vector>

#include "core/record/results.hpp"
#include "core/statistics/change.hpp"
#include "reports/compare/floors.hpp"

namespace attest::reports {

/// How the verdict changed. Time, memory and errors are only compared if both sides pass.
enum class VerdictChange {
  kSame,
  kRegressed,  // was not bad and is bad now; or passed and is unsupported now
  kFixed,
  kSkipped,  // passed before and is skipped now
};

struct CompareOptions {
  core::ChangeRule rule;
  std::string relative_to;         // times are divided by this implementation's time in the same
                                   // launch, or by that of the roofline (kRooflinePeer); empty:
                                   // times are in nanoseconds
  bool across_machines = false;    // compare times even between machines or kinds of build, but
                                   // never between power modes of a board
  bool in_turns = false;           // before[i] and after[i] were started one after the other; if
                                   // false, the times of their starts tell
  const Floors* floors = nullptr;  // of cases; a case counts with the larger of its own and that
                                   // of the rule; null: there are none
};

/// One (implementation, case, dtype) that both sides have.
struct Compared {
  std::string suite, case_name, dtype, impl;
  core::Verdict before = core::Verdict::kError,
                after = core::Verdict::kError;  // the worst of several launches
  VerdictChange verdict = VerdictChange::kSame;
  double before_ns = 0, after_ns = 0;  // median over launches; 0: not timed
  core::Changed time, memory, error;
  bool same_binary = false;
  bool same_everything = false;  // binary, attest, loaded libraries and environment are the same,
                                 // so a difference in time comes from the machine
};

struct Comparison {
  std::vector<Compared> cases;
  std::vector<std::string> only_before, only_after;  // "vit/a f16 flash_cuda"
  std::vector<std::string> notes;  // differences between the sides; runs that were cut short
};

/// Compares two builds. Each file is one launch of attest, or a part of one; if a file has a record
/// more than once, the samples are combined. If the files of both sides were started in turns, they
/// are paired.
/// The codes of Changed are those of core/statistics/change.hpp and these, all for
/// Change::kInvalid: "not-passed", "other-problem"; for times "not-timed", "timed-once" (on one
/// side only), "bad-times" (a sample is not above zero), "other-machine",
/// "other-power-mode" (of a board, also with across_machines), "other-build", "other-threads",
/// "is-peer" (this is relative_to), "no-peer" (relative_to has no time); for memory "not-measured";
/// for errors "other-inputs", "other-arithmetic".
Comparison compare(const std::vector<core::Results>& before,
                   const std::vector<core::Results>& after, const CompareOptions& options);

/// Whether there was nothing to compare: neither side has a time, one did not pass, or it is the
/// peer.
bool nothing_to_tell(const core::Changed& changed);

/// Whether times were not compared because machine, power mode, kind of build or number of
/// threads differ.
bool is_apart(const core::Changed& time);

/// Whether a case got worse in anything. A difference that comes from the machine does not count.
bool worse(const Compared& one);
/// Whether nothing about a case changed, and nothing was undecided; a time within the floor counts
/// as unchanged.
bool unchanged(const Compared& one);

/// Whether any case no longer passes.
bool regressed(const Comparison& comparison);
/// Whether any case got worse.
bool worse(const Comparison& comparison);
/// Whether times were to be compared, and none could be because all are apart.
bool all_apart(const Comparison& comparison);
/// Whether records are missing after, a case that passed was skipped, or a change was undecided.
bool inconclusive(const Comparison& comparison);

}  // namespace attest::reports
