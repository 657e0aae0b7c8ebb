// Exit codes: what a CI job reads.
#pragma once

namespace attest::cli {

enum ExitCode : int {
  kOk = 0,
  kBad = 1,           // a fail, suspect, error, crash or timeout
  kWorse = 2,         // slower, bigger or less accurate than what it is compared with
  kInconclusive = 3,  // on request: of comparisons, or where something declared was not judged
  kNothing = 4,       // output or machine failure, or nothing was measured or compared
  kUsage = 64,        // bad argument, suite, token file, or a filter that matches nothing
  kInterrupted = 130,
};

}  // namespace attest::cli
