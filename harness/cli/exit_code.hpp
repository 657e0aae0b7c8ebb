// The exit codes of attest. --help, the man page and README.md explain them.
#pragma once

namespace attest::cli {

enum ExitCode : int {
  kOk = 0,
  kBad = 1,  // see kExitCodes
  kWorse = 2,
  kInconclusive = 3,
  kNothing = 4,
  kUsage = 64,
  kInterrupted = 130,
};

struct ExitCodeHelp {
  ExitCode code;
  const char* meaning;
};
inline constexpr ExitCodeHelp kExitCodes[] = {
    {kOk, "ok: everything that was judged passed"},
    {kBad,
     "a case failed, is suspect, ended in an error, crashed or timed out; compare, ab: something "
     "no longer passes; gate: a limit on a verdict is broken; choose: for a case no "
     "implementation may be used; list --events: a case misses an event without a reason"},
    {kWorse, "compare, ab: slower, bigger or less accurate; gate: another limit is broken"},
    {kInconclusive,
     "choose: for a case the records cannot tell; with --strict: undecided comparisons or limits, "
     "or declared features and dtypes that no case judged"},
    {kNothing, "the output or the machine failed, or nothing was judged or compared"},
    {kUsage, "a bad argument, suite or token file, or a filter that matches nothing"},
    {kInterrupted, "interrupted"},
};

}  // namespace attest::cli
