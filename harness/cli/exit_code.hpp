// Exit codes: what a CI job reads.
#pragma once

namespace attest::cli {

enum ExitCode : int {
  kOk = 0,
  kBad = 1,           // a fail, suspect, error, crash or timeout
  // 2 (worse than what it is compared with) and 3 (inconclusive) are kept for comparisons.
  kNothing = 4,       // output or machine failure, or nothing was measured
  kUsage = 64,        // bad argument, suite, token file, or a filter that matches nothing
  kInterrupted = 130,
};

}  // namespace attest::cli
