// What an implementation may use, settled once for a session: by the command line, an adapter, or a
// test.
#pragma once
#include <cstdint>

namespace attest::core {

struct Limits {
  int32_t threads = 1;        // of each implementation
  double timeout_s = 60;      // of one call into a plugin
  uint64_t memory_bytes = 0;  // resident beside its tensors; 0: nine tenths of what is available
  double budget_s = 0.25;     // of timed runs, for each implementation and case
  double case_limit_s = 20;   // a case is skipped where its four least runs would take longer
};

}  // namespace attest::core
