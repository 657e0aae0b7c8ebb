// Verdicts: what the harness says of one implementation on one case. The table of verdicts and reason codes has its only home
// here.
#pragma once
#include <string_view>

namespace attest::core {

/// One per record, with a reason code `verdict:detail` and a sentence.
///  pass         within the tolerance everywhere it was judged
///  fail         fail:tolerance, fail:nan (a NaN or infinity where none belongs), fail:unwritten (poison left), fail:range
///  (outside
///               the values it may average), fail:environment
///  suspect      suspect:zeros, suspect:constant: mostly one value where the golden varies; never passes
///  unsupported  refused before it ran; the sentence says by whom and why
///  skipped      does not fit the time or memory at hand; the sentence gives the figures
///  error        error:declaration (arithmetic that cannot be judged by), error:runtime, error:memory (the implementation said so), error:protocol, error:golden
///  crash        crash:signal, crash:exit, crash:input-written, crash:canary
///  timeout      timeout:run
enum class Verdict { kPass, kFail, kSuspect, kUnsupported, kSkipped, kError, kCrash, kTimeout };

constexpr std::string_view kVerdictNames[] = {"pass", "fail", "suspect", "unsupported", "skipped", "error", "crash", "timeout"};
constexpr std::string_view name(Verdict verdict) { return kVerdictNames[int(verdict)]; }
/// Whether it makes a run exit with 1. An error counts: an implementation that claims a case and cannot do it is not right.
constexpr bool is_bad(Verdict verdict) {
  return verdict == Verdict::kFail || verdict == Verdict::kSuspect || verdict == Verdict::kError || verdict == Verdict::kCrash ||
         verdict == Verdict::kTimeout;
}

}  // namespace attest::core
