// Runs of CUDA implementations whose kernels are emulated on the host.
#pragma once
#include <cstdlib>
#include <string>

#include "core/problem/spec.hpp"
#include "core/run/runner.hpp"
#include "testing/named.hpp"

namespace attest::testing {

inline const core::RunOptions kAllFills{.relations = core::RelationChoice::kNone, .all_checks = true};

/// Makes the emulated device one of that compute capability, times 10, as long as it lives.
struct EmulatedDevice {
  explicit EmulatedDevice(const char* capability) { setenv("ATTEST_CUDA_CAPABILITY", capability, 1); }
  ~EmulatedDevice() { unsetenv("ATTEST_CUDA_CAPABILITY"); }
};

/// The record of `implementation`, judged on a problem and not timed.
inline core::Record run_emulated(const std::string& implementation, const std::string& spec, core::RunOptions options) {
  setenv("ATTEST_CUDA_DRIVER", ATTEST_BINARY_DIR "/tests/fake_cuda.so", 1);
  core::Plugin plugin(ATTEST_BINARY_DIR "/tests/plugins/" + implementation + "_on_host.so",
                      {.executable = core::find_worker(), .cpus = "", .threads = 1, .timeout_s = 300});
  options.timed = false;
  return run_named(plugin, implementation, spec, options);
}

}  // namespace attest::testing
