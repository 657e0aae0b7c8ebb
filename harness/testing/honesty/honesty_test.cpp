// Who declares float32 and computes in less anywhere is failed, whatever the tensors are stored in;
// who says so passes.
#include <gtest/gtest.h>

#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "core/problem/spec.hpp"
#include "core/run/runner.hpp"

namespace attest::core {
namespace {

class Honesty : public ::testing::TestWithParam<const char*> {
 protected:
  Honesty() {
    options_.timed = false;
    options_.diagnosed = false;
    options_.relations = RelationChoice::kNone;
    options_.limits.case_limit_s = 1e6;
  }

  // Judges the implementations of the problem's operation whose names begin with `prefix`, on one
  // problem in the storage dtype of the test, and shows their records to `look`.
  template <class Look>
  void judge(const std::string& words, std::string_view prefix, const Look& look) {
    const std::string spec = words + " dtype=" + GetParam();
    const Problem problem = parse_problem(spec);
    CaseRunner runner(problem, spec, {"honesty", GetParam(), "random", ""}, nullptr, options_,
                      rates_);
    for (const Implementation& implementation : plugin_.implementations())
      if (implementation.operation == problem.operation->number() &&
          implementation.name.starts_with(prefix))
        look(implementation, runner.run(plugin_, implementation));
  }

  // How many liars pass on these fills alone.
  int believed(const std::string& words, std::vector<std::string> fills) {
    options_.fills = std::move(fills);
    int count = 0;
    judge(words, "liar_",
          [&](const Implementation&, const Record& record) { count += record.outcome.passes(); });
    return count;
  }

  // All liars and twins of the operation. `hidden`: the liars that cannot be told from their twins
  // in this storage dtype.
  void expect_honesty(const std::string& words, int pairs,
                      const std::set<std::string>& hidden = {}) {
    int liars = 0, twins = 0;
    judge(words, "", [&](const Implementation& implementation, const Record& record) {
      const bool lies = implementation.name.starts_with("liar_"),
                 fails = lies && !hidden.contains(implementation.name);
      EXPECT_EQ(record.outcome.verdict(), fails ? Verdict::kFail : Verdict::kPass)
          << implementation.name << " in " << GetParam() << ": " << record.outcome.code << " "
          << record.outcome.reason << "; largest " << record.max_ratio << ", rms "
          << record.rms_ratio;
      EXPECT_EQ(record.outcome.code, fails ? ReasonCode::kFailTolerance : ReasonCode::kPass)
          << implementation.name << ": " << record.outcome.reason;
      ++(lies ? liars : twins);
    });
    EXPECT_EQ(liars, pairs);
    EXPECT_EQ(twins, pairs);
  }

  RunOptions options_;
  Rates rates_;
  Plugin plugin_{
      ATTEST_BINARY_DIR "/tests/plugins/liars.so",
      {.executable = find_worker(), .cpus = "", .limits = {.threads = 1, .timeout_s = 60}}};
};

// head_dim 72: softmax's scale is no power of two, so that scaled queries are rounded even where
// they are stored in the operand's dtype.
constexpr const char *kSoftmax =
                         "softmax num_heads=2 seq_len_q=197 seq_len_kv=1021 head_dim=72 lse",
                     *kLinear = "linear num_heads=2 seq_len_q=197 seq_len_kv=1021 head_dim=72",
                     *kDeformable =
                         "deformable seq_len_q=61 head_dim_v=8 num_points=4 "
                         "level_height_0=50 level_width_0=84 level_height_1=25 level_width_1=42";

TEST_P(Honesty, LiarsFailAndTheirTwinsPass) { expect_honesty(kSoftmax, 18); }

// Relations run a kernel dozens of times. Smaller problems show as well that they hold.
TEST_P(Honesty, TwinsHoldRelations) {
  options_.relations = RelationChoice::kAll;
  const std::pair<std::string, int> counts[] = {
      {"softmax num_heads=2 seq_len_q=37 seq_len_kv=150 head_dim=24 lse", 18},
      {"linear num_heads=2 seq_len_q=37 seq_len_kv=150 head_dim=24", 12}};
  for (const auto& [words, all] : counts) {
    SCOPED_TRACE(words);
    int twins = 0;
    judge(words, "twin_", [&](const Implementation& implementation, const Record& record) {
      EXPECT_EQ(record.outcome.verdict(), Verdict::kPass)
          << implementation.name << ": " << record.outcome.reason;
      EXPECT_GT(record.relations.size(), 5u) << implementation.name;
      ++twins;
    });
    EXPECT_EQ(twins, all);
  }
}

// Without an lse only the output's own rounding tells, which a normaliser of half precision doubles
// where that is f16. One of f16 adds less than a hundredth to what bf16 does, and hides there.
TEST_P(Honesty, NormalisersInHalfPrecisionFailWithoutAnLse) {
  const std::string storage = GetParam(),
                    spec = "softmax num_heads=2 seq_len_q=197 seq_len_kv=1021 head_dim=72 dtype=" +
                           storage;
  const Problem problem = parse_problem(spec);
  CaseRunner runner(problem, spec, {"honesty", storage, "random", ""}, nullptr, options_, rates_);
  int judged = 0;
  for (const Implementation& implementation : plugin_.implementations()) {
    const bool lies = implementation.name.starts_with("liar_normaliser");
    if (!lies && !implementation.name.starts_with("twin_normaliser")) continue;
    if (storage == "bf16" && implementation.name != "liar_normaliser_bf16") continue;
    const Record record = runner.run(plugin_, implementation);
    EXPECT_EQ(record.outcome.verdict(), lies ? Verdict::kFail : Verdict::kPass)
        << implementation.name << ": " << record.outcome.reason << "; largest " << record.max_ratio
        << ", rms " << record.rms_ratio;
    ++judged;
  }
  EXPECT_EQ(judged, storage == "bf16" ? 1 : 6);
}

TEST_P(Honesty, LiarsOfLinearAttentionFailAndTheirTwinsPass) { expect_honesty(kLinear, 12); }

TEST_P(Honesty, LiarsOfDeformableAttentionFailAndTheirTwinsPass) {
  expect_honesty(kDeformable, 12);
}

// On bf16, two in tf32 cannot be told from their twins. Numbers of bf16 are exact as operands in
// tf32: no bit changes. A delta in tf32 errs by 2^-11 of its products, but O is stored in bf16, and
// a kernel may know it better, by 2^-8: liar and twin both read 0.45 of the gate, and 0.96 of that
// of the root mean square, which is the rounding of the gradients.
TEST_P(Honesty, LiarsOfGradientsFailAndTheirTwinsPass) {
  std::set<std::string> hidden;
  if (std::string(GetParam()) == "bf16")
    hidden = {"liar_backward_operand_tf32", "liar_backward_delta_tf32"};
  expect_honesty(
      "softmax_backward num_heads=2 num_kv_heads=1 seq_len_q=61 seq_len_kv=197 head_dim=24", 21,
      hidden);
}

// An output that is stored in half precision hides them, but where it happens to be nearly 0. Of 16
// numbers none is.
TEST_P(Honesty, CancellingValuesTellLiarsOfFewRows) {
  if (std::string(GetParam()) == "f32") GTEST_SKIP() << "float32 outputs hide nothing";
  const std::string few = "linear seq_len_q=2 seq_len_kv=197 head_dim=32 head_dim_v=8";
  EXPECT_GT(believed(few, {"random", "faint"}), 0);
  EXPECT_EQ(believed(few, {"cancelling"}), 0);
}

INSTANTIATE_TEST_SUITE_P(Storage, Honesty, ::testing::Values("f32", "f16", "bf16"),
                         [](const auto& name) { return name.param; });

}  // namespace
}  // namespace attest::core
