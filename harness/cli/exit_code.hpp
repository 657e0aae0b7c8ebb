// The exit codes of attest. README.md explains them.
#pragma once

namespace attest::cli {

enum ExitCode : int {
  kOk = 0,
  kBad = 1,    // a fail, suspect, error, crash or timeout; compare: something no longer passes;
               // list --events: a missed event without a reason
  kWorse = 2,  // compare: slower, bigger or less accurate
  kInconclusive = 3,  // with --strict: undecided comparisons, or declared features never judged
  kNothing = 4,       // output or machine failed, or nothing was judged or compared
  kUsage = 64,        // bad argument, suite or token file, or a filter that matches nothing
  kInterrupted = 130,
};

}  // namespace attest::cli
