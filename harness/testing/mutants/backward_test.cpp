// Bugs planted in gradients of softmax attention never pass, at 61 and at 1,021 keys, and the
// healthy kernel that they are planted in does.
#include <gtest/gtest.h>

#include <string>

#include "core/problem/spec.hpp"
#include "core/run/runner.hpp"

namespace attest::testing {
namespace {

/// Where a bug is one: in a band of grouped heads, or under a mask of pairs.
constexpr const char *kBand = "num_heads=4 num_kv_heads=2 head_dim=24 causal=bottom_right",
                     *kMask = "num_heads=2 head_dim=24 mask";

const char* features_of(const std::string& bug) {
  return bug == "backward_mask_ignored_in_dv" || bug == "backward_hidden_leaks" ? kMask : kBand;
}

void try_bugs(const std::string& dtype, const std::string& tokens) {
  core::Plugin plugin(
      ATTEST_BINARY_DIR "/tests/plugins/backward_bugs.so",
      {.executable = core::find_worker(), .cpus = "", .limits = {.threads = 2, .timeout_s = 120}});
  core::RunOptions options;
  options.limits.threads = 2;
  options.timed = false;
  options.diagnosed = false;
  options.relations = core::RelationChoice::kNone;
  core::Rates rates;
  int caught = 0, healthy = 0;
  for (const char* features : {kBand, kMask}) {
    const core::Problem problem =
        core::parse_problem("softmax_backward dtype=" + dtype + " " + tokens + " " + features);
    core::CaseRunner runner(problem, core::print_problem(problem), {"", "case", "random", ""},
                            nullptr, options, rates);
    for (const core::Implementation& one : plugin.implementations()) {
      const bool is_healthy = one.name == "backward_none";
      if (!is_healthy && features != features_of(one.name)) continue;
      // f16 and bf16 outputs hide what such a rounding does to float32.
      const bool rounds = one.name.ends_with("_f16");
      if (rounds && dtype != "f32") continue;
      const core::Record record = runner.run(plugin, one);
      EXPECT_EQ(record.outcome.passes(), is_healthy)
          << one.name << ", " << features << ": " << record.outcome.reason;
      ++(is_healthy ? healthy : caught);
    }
  }
  EXPECT_EQ(healthy, 2);
  EXPECT_EQ(caught, dtype == "f32" ? 19 : 16);
}

TEST(BackwardBugs, NeverPassAt61Keys) {
  for (const char* dtype : {"f32", "f16"}) try_bugs(dtype, "seq_len_q=61");
}
TEST(BackwardBugs, NeverPassAt1021Keys) { try_bugs("bf16", "seq_len_q=35 seq_len_kv=1021"); }

}  // namespace
}  // namespace attest::testing
