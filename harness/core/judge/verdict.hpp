// Verdicts: the results of one implementation on one case. The table of all verdicts and reason
// codes is here.
#pragma once
#include <cstddef>
#include <iterator>
#include <ostream>
#include <string>
#include <string_view>
#include <type_traits>

namespace attest::core {

/// Each record has one verdict, which follows from its reason code.
enum class Verdict { kPass, kFail, kSuspect, kUnsupported, kSkipped, kError, kCrash, kTimeout };

constexpr std::string_view kVerdictNames[] = {"pass",    "fail",  "suspect", "unsupported",
                                              "skipped", "error", "crash",   "timeout"};
constexpr std::string_view name(Verdict verdict) { return kVerdictNames[int(verdict)]; }
/// Whether a verdict makes a run exit with 1. An error does: an implementation that claims to
/// support a case must be able to run it.
constexpr bool is_bad(Verdict verdict) {
  return verdict == Verdict::kFail || verdict == Verdict::kSuspect || verdict == Verdict::kError ||
         verdict == Verdict::kCrash || verdict == Verdict::kTimeout;
}

/// Everything that can happen to one implementation on one case. kReasons gives the meanings.
enum class ReasonCode {
  kPass,
  kFailTolerance,
  kFailOneSided,
  kFailNan,
  kFailUnwritten,
  kFailRange,
  kFailRepetition,
  kFailChangedTensor,
  kFailPlanReuse,
  kFailKeyPermutation,
  kFailQueryPermutation,
  kFailBatchRepetition,
  kFailHeadRepetition,
  kFailCommonShift,
  kFailRowSum,
  kFailValueScale,
  kFailHiddenValues,
  kFailHiddenNan,
  kFailSplitMerge,
  kFailEnvironment,
  kFailThreads,
  kFailDescriptors,
  kFailChildren,
  kFailStaleOutput,
  kFailLateOutput,
  kSuspectZeros,
  kSuspectConstant,
  kSuspectRace,
  kUnsupportedTable,
  kUnsupportedKernel,
  kUnsupportedQuery,
  kUnsupportedArithmetic,
  kUnsupportedPlans,
  kUnsupportedVector,
  kSkippedMemory,
  kSkippedTime,
  kSkippedFill,
  kErrorDeclaration,
  kErrorRuntime,
  kErrorMemory,
  kErrorProtocol,
  kErrorWorker,
  kErrorToleranceModel,
  kErrorGolden,
  kErrorReference,
  kErrorInputs,
  kErrorVector,
  kCrashSignal,
  kCrashStackOverflow,
  kCrashException,
  kCrashExit,
  kCrashOom,
  kCrashInputWritten,
  kCrashCanary,
  kCrashLateWrite,
  kCrashDevice,
  kTimeoutRun,
};

/// A row of the table of reason codes.
struct Reason {
  ReasonCode code;
  std::string_view name;  // "fail:tolerance"; it starts with its verdict's name. Empty for a pass
  std::string_view meaning;
};

/// All reason codes, in the order of ReasonCode. harness/core/run/README.md shows this table; a
/// test compares the two.
constexpr Reason kReasons[] = {
    {ReasonCode::kPass, "", "within the tolerance everywhere it was judged"},
    {ReasonCode::kFailTolerance, "fail:tolerance",
     "an element is further from the golden than the declared arithmetic explains"},
    {ReasonCode::kFailOneSided, "fail:one-sided",
     "an output is cut, not rounded: every error is small, and all point the same way"},
    {ReasonCode::kFailNan, "fail:nan",
     "a NaN or an infinity where none belongs, or none where one does"},
    {ReasonCode::kFailUnwritten, "fail:unwritten", "the poison of an output was left"},
    {ReasonCode::kFailRange, "fail:range", "a value outside of the values that it may average"},
    {ReasonCode::kFailRepetition, "fail:repetition",
     "a later run of the same plan, or a run with something else in its workspace, gave other bits "
     "or numbers"},
    {ReasonCode::kFailChangedTensor, "fail:changed-tensor",
     "a plan that has run before gave a wrong output after one of its tensors alone had changed"},
    {ReasonCode::kFailPlanReuse, "fail:plan-reuse",
     "beside a problem of the same shape that differs in one thing, it gives another output than "
     "in a process of its own"},
    {ReasonCode::kFailKeyPermutation, "fail:key-permutation",
     "the output changed when keys that the same queries see changed places"},
    {ReasonCode::kFailQueryPermutation, "fail:query-permutation",
     "the output of a query changed when queries that see the same keys changed places"},
    {ReasonCode::kFailBatchRepetition, "fail:batch-repetition",
     "the same data as further sequences of the batch gave another output"},
    {ReasonCode::kFailHeadRepetition, "fail:head-repetition",
     "the same data as further heads gave another output"},
    {ReasonCode::kFailCommonShift, "fail:common-shift",
     "the output changed when all logits of a row grew by the same amount"},
    {ReasonCode::kFailRowSum, "fail:row-sum", "a channel of ones did not stay one"},
    {ReasonCode::kFailValueScale, "fail:value-scale",
     "V times 16, 8, 4 or 2 was not the output times as much"},
    {ReasonCode::kFailHiddenValues, "fail:hidden-values",
     "numbers that no row may see changed a row"},
    {ReasonCode::kFailHiddenNan, "fail:hidden-nan",
     "a NaN or an infinity that no row may see changed a row"},
    {ReasonCode::kFailSplitMerge, "fail:split-merge",
     "attention to two parts of the keys does not merge to attention to all"},
    {ReasonCode::kFailEnvironment, "fail:environment",
     "run changed rounding, flush-to-zero, trapped exceptions, signal mask or affinity of its "
     "thread"},
    {ReasonCode::kFailThreads, "fail:threads", "each run leaves one more thread"},
    {ReasonCode::kFailDescriptors, "fail:descriptors", "one more open file after each run"},
    {ReasonCode::kFailChildren, "fail:children", "run left processes behind; they were ended"},
    {ReasonCode::kFailStaleOutput, "fail:stale-output",
     "outputs of a timed run, checked at random, do not belong to its inputs: they were cached, or "
     "the work was not done"},
    {ReasonCode::kFailLateOutput, "fail:late-output", "outputs changed after run had returned"},
    {ReasonCode::kSuspectZeros, "suspect:zeros",
     "mostly zero where the golden is not; never passes"},
    {ReasonCode::kSuspectConstant, "suspect:constant",
     "mostly one value where the golden varies; never passes"},
    {ReasonCode::kSuspectRace, "suspect:race",
     "passes, but a rerun of another case of the same run gave other outputs"},
    {ReasonCode::kUnsupportedTable, "unsupported:table",
     "the table of the implementation does not list what the case needs"},
    {ReasonCode::kUnsupportedKernel, "unsupported:kernel",
     "the plugin has no kernel for the device at hand; the reason names those that it has"},
    {ReasonCode::kUnsupportedQuery, "unsupported:query",
     "query refused the case; its reason is passed on"},
    {ReasonCode::kUnsupportedArithmetic, "unsupported:arithmetic",
     "declares less than --min-arithmetic asks for"},
    {ReasonCode::kUnsupportedPlans, "unsupported:plans",
     "create refused a second plan while one is alive; its reason is passed on"},
    {ReasonCode::kUnsupportedVector, "unsupported:vector",
     "the vector has an operation, attribute or parameter that attest has no word for"},
    {ReasonCode::kSkippedMemory, "skipped:memory",
     "does not fit the memory at hand; the reason has the figures"},
    {ReasonCode::kSkippedTime, "skipped:time",
     "estimated to take too long; the reason has the figures"},
    {ReasonCode::kSkippedFill, "skipped:fill",
     "the case has none of the inputs that --fill asks for"},
    {ReasonCode::kErrorDeclaration, "error:declaration",
     "the declared arithmetic is invalid, so there is no tolerance"},
    {ReasonCode::kErrorRuntime, "error:runtime",
     "a call returned an error status; last_error is passed on"},
    {ReasonCode::kErrorMemory, "error:memory", "a call returned ATTEST_OUT_OF_MEMORY"},
    {ReasonCode::kErrorProtocol, "error:protocol",
     "the worker's answer is malformed: the plugin wrote into its connection"},
    {ReasonCode::kErrorWorker, "error:worker",
     "the library loaded at first and does not load again"},
    {ReasonCode::kErrorToleranceModel, "error:tolerance-model",
     "the declared arithmetic, emulated, exceeds the gate itself: a fault of the harness"},
    {ReasonCode::kErrorGolden, "error:golden",
     "the golden judged no element: a fault of the harness"},
    {ReasonCode::kErrorReference, "error:reference",
     "the reference differs from the vector's outputs; one of the two is wrong"},
    {ReasonCode::kErrorInputs, "error:inputs",
     "the inputs of the case cannot be made: no memory for them, or a file that cannot be read"},
    {ReasonCode::kErrorVector, "error:vector",
     "a vector's files are damaged or contradict each other"},
    {ReasonCode::kCrashSignal, "crash:signal",
     "a signal ended the worker: SIGSEGV, SIGFPE, SIGILL, SIGABRT ..."},
    {ReasonCode::kCrashStackOverflow, "crash:stack-overflow",
     "the stack of the calling thread ran out"},
    {ReasonCode::kCrashException, "crash:exception", "an exception left a call, or a thread"},
    {ReasonCode::kCrashExit, "crash:exit",
     "the process was left by exit, or its connection closed"},
    {ReasonCode::kCrashOom, "crash:oom", "took more memory than there is to be had, and was ended"},
    {ReasonCode::kCrashInputWritten, "crash:input-written", "an input was written"},
    {ReasonCode::kCrashCanary, "crash:canary",
     "memory beside an output or the workspace was written"},
    {ReasonCode::kCrashLateWrite, "crash:late-write",
     "a thread used the tensors after run had returned"},
    {ReasonCode::kCrashDevice, "crash:device",
     "the device reported a fault: an illegal address, a launch that failed; its words are passed "
     "on"},
    {ReasonCode::kTimeoutRun, "timeout:run", "one call took longer than --timeout"},
};

static_assert(std::size(kReasons) == size_t(ReasonCode::kTimeoutRun) + 1);

/// Whether a results file had this code, which the table lacks: a newer attest wrote it.
constexpr bool is_newer(ReasonCode code) { return size_t(code) >= std::size(kReasons); }
/// The row of such a code. Its meaning is not known here.
const Reason& newer_reason(ReasonCode code);
constexpr const Reason& reason_of(ReasonCode code) {
  return is_newer(code) ? newer_reason(code) : kReasons[size_t(code)];
}
/// "fail:tolerance"; empty for a pass.
constexpr std::string_view name(ReasonCode code) { return reason_of(code).name; }
/// The verdict that the code's name starts with.
constexpr Verdict verdict_of(ReasonCode code) {
  const std::string_view start = name(code).substr(0, name(code).find(':'));
  for (size_t i = 0; i < std::size(kVerdictNames); ++i)
    if (start == kVerdictNames[i]) return Verdict(i);
  return Verdict::kPass;
}
/// The row with that name; null: there is none.
constexpr const Reason* find_reason(std::string_view name) {
  for (const Reason& reason : kReasons)
    if (reason.name == name) return &reason;
  return nullptr;
}
inline std::ostream& operator<<(std::ostream& out, ReasonCode code) { return out << name(code); }

/// A reason code and its explanation. The default is a pass.
struct Outcome {
  ReasonCode code = ReasonCode::kPass;
  std::string reason;  // one sentence; empty for a pass

  constexpr Verdict verdict() const { return verdict_of(code); }
  constexpr bool passes() const { return code == ReasonCode::kPass; }
  constexpr bool is_bad() const { return core::is_bad(verdict()); }
};

/// The reason code of that name. One that the table lacks is kept by its name and verdict, as those
/// of a newer attest. Throws Error: a name that begins with another verdict, or none.
ReasonCode read_reason_code(std::string_view name, std::string_view verdict);

/// As tensor/walk.hpp says. The verdict is written for readers; it follows from the code.
template <class Visit>
void walk(Outcome& outcome, Visit&& visit) {
  std::string code(name(outcome.code));
  std::string verdict(name(outcome.verdict()));
  visit("code", code);
  visit("verdict", verdict);
  visit("reason", outcome.reason);
  if constexpr (std::remove_cvref_t<Visit>::kReads) outcome.code = read_reason_code(code, verdict);
}

}  // namespace attest::core
