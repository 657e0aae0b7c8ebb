// What an implementation may use, settled once for a session: by the command line, an adapter, or a
// test.
#pragma once
#include <cstdint>

namespace attest::core {

struct Limits {
  int32_t threads = 1;    // of each implementation
  double timeout_s = 60;  // of one call into a plugin
  // Resident beside its tensors; a case that needs more, with its tensors, is skipped. 0: nine
  // tenths of what is available
  uint64_t memory_bytes = 0;
  double budget_s = 0.25;    // of timed runs, for each implementation and case
  double case_limit_s = 20;  // a case is skipped where its four least runs would take longer

  double budget_ns() const { return budget_s * 1e9; }
};

}  // namespace attest::core
