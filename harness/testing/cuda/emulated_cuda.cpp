#include "testing/cuda/emulated_cuda.hpp"

#include "testing/named.hpp"

namespace attest::testing {

const core::RunOptions kAllFills{.relations = core::RelationChoice::kNone, .all_checks = true};

core::RunOptions only_relation(const std::string& name) {
  return {.relations = core::RelationChoice::kAll, .only_relation = name};
}

core::Record run_emulated(const std::string& implementation, const std::string& spec,
                          core::RunOptions options) {
  setenv("ATTEST_CUDA_DRIVER", ATTEST_BINARY_DIR "/tests/fake_cuda.so", 1);
  core::Plugin plugin(
      ATTEST_BINARY_DIR "/tests/plugins/" + implementation + "_on_host.so",
      {.executable = core::find_worker(), .cpus = "", .limits = {.threads = 1, .timeout_s = 300}});
  options.timed = false;
  options.diagnosed = false;
  return run_named(plugin, implementation, spec, options);
}

}  // namespace attest::testing
