// Runs of CUDA implementations whose kernels are emulated on the host.
#pragma once
#include <cstdlib>
#include <string>

#include "core/run/runner.hpp"

namespace attest::testing {

/// Every fill, and no comparisons of runs.
extern const core::RunOptions kAllFills;

/// The default fills and one of the comparisons of runs (RunOptions::only_relation).
core::RunOptions only_relation(const std::string& name);

/// Makes the emulated device one of that compute capability, times 10, as long as it lives.
struct EmulatedDevice {
  explicit EmulatedDevice(const char* capability) {
    setenv("ATTEST_CUDA_CAPABILITY", capability, 1);
  }
  ~EmulatedDevice() { unsetenv("ATTEST_CUDA_CAPABILITY"); }
};

/// Plants a bug in emulated kernels, by its number in cuda::Bug, as long as it lives.
struct PlantedBug {
  explicit PlantedBug(int bug) { setenv("ATTEST_CUDA_BUG", std::to_string(bug).c_str(), 1); }
  ~PlantedBug() { unsetenv("ATTEST_CUDA_BUG"); }
};

/// The record of `implementation`, judged on a problem and not timed.
core::Record run_emulated(const std::string& implementation, const std::string& spec,
                          core::RunOptions options);

}  // namespace attest::testing
