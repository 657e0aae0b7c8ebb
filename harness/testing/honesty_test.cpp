// Who declares float32 and computes in less anywhere is failed, whatever the tensors are stored in; who says so passes.
#include <gtest/gtest.h>

#include "core/problem/spec.hpp"
#include "core/run/runner.hpp"

namespace attest::core {
namespace {

class Honesty : public ::testing::TestWithParam<const char*> {
 protected:
  Honesty() { options_.timed = false, options_.case_limit_s = 1e6; }

  RunOptions options_;
  Rates rates_;
  Plugin plugin_{ATTEST_BINARY_DIR "/tests/plugins/liars.so",
                 {.executable = find_worker(), .cpus = "", .threads = 1, .timeout_s = 60}};
};

// head_dim 72: its scale is no power of two, so that scaled queries are rounded even where they are stored in the operand's
// dtype.
TEST_P(Honesty, LiarsFailAndTheirTwinsPass) {
  const std::string spec = std::string("softmax dtype=") + GetParam() + " num_heads=2 seq_len_q=197 seq_len_kv=1021 head_dim=72";
  const Problem problem = parse_problem(spec);
  CaseRunner runner(problem, spec, {"honesty", GetParam(), "random", ""}, nullptr, options_, rates_);
  int liars = 0, twins = 0;
  for (const Implementation& implementation : plugin_.implementations()) {
    const Record record = runner.run(plugin_, implementation);
    const bool lies = implementation.name.starts_with("liar_");
    EXPECT_EQ(record.verdict, lies ? Verdict::kFail : Verdict::kPass)
        << implementation.name << " in " << GetParam() << ": " << record.code << " " << record.reason << "; largest "
        << record.max_ratio << ", rms " << record.rms_ratio;
    EXPECT_EQ(record.code, lies ? "fail:tolerance" : "") << implementation.name << ": " << record.reason;
    ++(lies ? liars : twins);
  }
  EXPECT_EQ(liars, 15);
  EXPECT_EQ(twins, 15);
}

INSTANTIATE_TEST_SUITE_P(Storage, Honesty, ::testing::Values("f32", "f16", "bf16"), [](const auto& name) { return name.param; });

}  // namespace
}  // namespace attest::core
