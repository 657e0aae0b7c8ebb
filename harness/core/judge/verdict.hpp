// Verdicts: what the harness says of one implementation on one case. The table of verdicts and
// reason codes has its only home here.
#pragma once
#include <string_view>

namespace attest::core {

/// One per record, with a reason code and a sentence. `kEvents` says which codes there are.
enum class Verdict { kPass, kFail, kSuspect, kUnsupported, kSkipped, kError, kCrash, kTimeout };

constexpr std::string_view kVerdictNames[] = {"pass",    "fail",  "suspect", "unsupported",
                                              "skipped", "error", "crash",   "timeout"};
constexpr std::string_view name(Verdict verdict) { return kVerdictNames[int(verdict)]; }
/// Whether it makes a run exit with 1. An error counts: an implementation that claims a case and
/// cannot do it is not right.
constexpr bool is_bad(Verdict verdict) {
  return verdict == Verdict::kFail || verdict == Verdict::kSuspect || verdict == Verdict::kError ||
         verdict == Verdict::kCrash || verdict == Verdict::kTimeout;
}

/// What can happen to one implementation on one case. The code starts with its verdict's name; a
/// pass has none.
struct Event {
  Verdict verdict;
  std::string_view code, meaning;
};

/// Every event there is. harness/core/run/README.md shows this table, and a test holds every code
/// in the sources against it.
constexpr Event kEvents[] = {
    {Verdict::kPass, "", "within the tolerance everywhere it was judged"},
    {Verdict::kFail, "fail:tolerance",
     "an element is further from the golden than the declared arithmetic explains"},
    {Verdict::kFail, "fail:one-sided",
     "an output is cut, not rounded: every error is small, and all point the same way"},
    {Verdict::kFail, "fail:nan", "a NaN or an infinity where none belongs, or none where one does"},
    {Verdict::kFail, "fail:unwritten", "the poison of an output was left"},
    {Verdict::kFail, "fail:range", "a value outside of the values that it may average"},
    {Verdict::kFail, "fail:repetition",
     "a later run of the same plan, or a run with something else in its workspace, gave other bits "
     "or numbers"},
    {Verdict::kFail, "fail:plan-reuse",
     "right in a process of its own, wrong beside a problem of the same shape that differs in one "
     "thing"},
    {Verdict::kFail, "fail:key-permutation",
     "the output changed when keys that the same queries see changed places"},
    {Verdict::kFail, "fail:query-permutation",
     "the output of a query changed when queries that see the same keys changed places"},
    {Verdict::kFail, "fail:batch-repetition",
     "the same data as further sequences of the batch gave another output"},
    {Verdict::kFail, "fail:head-repetition", "the same data as further heads gave another output"},
    {Verdict::kFail, "fail:common-shift",
     "the output changed when all logits of a row grew by the same amount"},
    {Verdict::kFail, "fail:row-sum", "a channel of ones did not stay one"},
    {Verdict::kFail, "fail:value-scale", "V times 16 was not the output times 16"},
    {Verdict::kFail, "fail:hidden-values", "numbers that no row may see changed a row"},
    {Verdict::kFail, "fail:hidden-nan", "a NaN or an infinity that no row may see changed a row"},
    {Verdict::kFail, "fail:split-merge",
     "attention to two parts of the keys does not merge to attention to all"},
    {Verdict::kFail, "fail:environment",
     "run changed rounding, flush-to-zero, trapped exceptions, signal mask or affinity of its "
     "thread"},
    {Verdict::kFail, "fail:threads", "one more thread after each run"},
    {Verdict::kFail, "fail:descriptors", "one more open file after each run"},
    {Verdict::kFail, "fail:children", "run left processes behind; they were ended"},
    {Verdict::kFail, "fail:stale-output",
     "a timed run, checked at random, left or returned what does not belong to its inputs: cached, "
     "or not done"},
    {Verdict::kFail, "fail:late-output", "outputs changed after run had returned"},
    {Verdict::kSuspect, "suspect:zeros", "mostly zero where the golden is not; never passes"},
    {Verdict::kSuspect, "suspect:constant",
     "mostly one value where the golden varies; never passes"},
    {Verdict::kUnsupported, "unsupported:table",
     "the table of the implementation does not list what the case needs"},
    {Verdict::kUnsupported, "unsupported:query", "query refused the case; its reason is passed on"},
    {Verdict::kUnsupported, "unsupported:arithmetic",
     "declares less than --min-arithmetic asks for"},
    {Verdict::kUnsupported, "unsupported:plans",
     "create refused a second plan while one is alive; its reason is passed on"},
    {Verdict::kUnsupported, "unsupported:vector",
     "the vector has an operation, attribute or parameter that attest has no word for"},
    {Verdict::kSkipped, "skipped:memory",
     "does not fit the memory at hand; the reason has the figures"},
    {Verdict::kSkipped, "skipped:time", "estimated to take too long; the reason has the figures"},
    {Verdict::kSkipped, "skipped:fill", "the case has none of the inputs that --fill asks for"},
    {Verdict::kError, "error:declaration", "declares arithmetic that cannot be judged by"},
    {Verdict::kError, "error:runtime", "a call returned an error status; last_error is passed on"},
    {Verdict::kError, "error:memory", "a call returned ATTEST_OUT_OF_MEMORY"},
    {Verdict::kError, "error:protocol",
     "the worker's answer is malformed: the plugin wrote into its connection"},
    {Verdict::kError, "error:worker", "the library loaded at first and does not load again"},
    {Verdict::kError, "error:tolerance-model",
     "the declared arithmetic, emulated, exceeds the gate itself: a fault of the harness"},
    {Verdict::kError, "error:golden", "the golden judged no element: a fault of the harness"},
    {Verdict::kError, "error:reference",
     "the reference itself is not what a vector has: the one or the other is wrong"},
    {Verdict::kError, "error:inputs",
     "the inputs of the case cannot be made: no memory for them, or a file that cannot be read"},
    {Verdict::kError, "error:vector", "a vector's files are damaged or contradict each other"},
    {Verdict::kCrash, "crash:signal",
     "a signal ended the worker: SIGSEGV, SIGFPE, SIGILL, SIGABRT ..."},
    {Verdict::kCrash, "crash:stack-overflow", "the stack of the calling thread ran out"},
    {Verdict::kCrash, "crash:exception", "an exception left a call, or a thread"},
    {Verdict::kCrash, "crash:exit", "the process was left by exit, or its connection closed"},
    {Verdict::kCrash, "crash:oom", "took more memory than there is to be had, and was ended"},
    {Verdict::kCrash, "crash:input-written", "an input was written"},
    {Verdict::kCrash, "crash:canary", "memory beside an output or the workspace was written"},
    {Verdict::kCrash, "crash:late-write", "a thread used the tensors after run had returned"},
    {Verdict::kCrash, "crash:device",
     "the device reported a fault: an illegal address, a launch that failed; its words are passed "
     "on"},
    {Verdict::kTimeout, "timeout:run", "one call took longer than --timeout"},
};

/// The event of a code, or null where the table has none.
constexpr const Event* find_event(std::string_view code) {
  for (const Event& event : kEvents)
    if (event.code == code) return &event;
  return nullptr;
}

}  // namespace attest::core
