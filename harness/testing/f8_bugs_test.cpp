// Bugs in attention to Q, K and V in 8 bits: each is caught at 61, 1,021 and 4,099 keys. What is
// right passes, whether it multiplies numbers or scores and outputs by the factors.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

#include "testing/bugs_caught.hpp"
#include "testing/named.hpp"

namespace attest::testing {
namespace {

std::string stored(const char* dtype) { return fmt::format("q={0} k={0} v={0} ", dtype); }

// The problems of one size.
std::vector<Wanted> problems(int64_t keys) {
  const int64_t queries = keys > 100 ? 67 : 61;
  const std::string sizes = fmt::format("seq_len_q={} seq_len_kv={} head_dim=8 ", queries, keys),
                    pairs = fmt::format("[1,1,{},{}] ", queries, keys),
                    one = "q_descale=[1,1,1] k_descale=[1,1,1] v_descale=[1,1,1] ",
                    blocks = "descale_block_q=9 descale_block_kv=10 q_descale k_descale v_descale ";
  return {
      {"softmax dtype=f16 " + sizes + stored("f8e4m3") + "lse",
       {"f8_none", "f8_bias_of_8", "f8_other_format", "f8_flushes", "f8_no_nan", "f8_top_exponent",
        "f8_clips_at_240", "f8_no_sign", "f8_rounds_p"}},
      {"softmax " + sizes + stored("f8e5m2") + "lse", {"f8_none", "f8_no_infinity"}},
      {"softmax dtype=bf16 " + sizes + stored("f8e4m3") + one,
       {"f8_none", "f8_no_q_factor", "f8_no_k_factor", "f8_no_v_factor", "f8_k_factor_for_v",
        "f8_reciprocal", "f8_factor_twice", "f8_rounds_q"}},
      {"softmax num_heads=4 num_kv_heads=2 batch=2 " + sizes + stored("f8e4m3") + blocks + "lse",
       {"f8_none", "f8_next_block", "f8_first_of_tile", "f8_last_v_factor", "f8_first_block",
        "f8_factors_of_head_0", "f8_factors_modulo", "f8_factors_of_sequence_0", "f8_half_scores",
        "f8_cuts_stored", "f8_max_of_stored"}},
      {"softmax dtype=f16 batch=3 " + sizes + stored("f8e5m2") + blocks +
           "cu_seqlens_q cu_seqlens_kv",
       {"f8_none", "f8_blocks_of_rows"}},
      {"softmax dtype=f16 softcap=2.5 bias=" + pairs + "mask=" + pairs + sizes + stored("f8e4m3") +
           one,
       {"f8_none", "f8_factors_after_softcap", "f8_factors_on_bias", "f8_times_zero"}},
      {"softmax dtype=f16 mask=" + fmt::format("[1,1,1,{}] ", keys) + sizes + stored("f8e4m3") +
           one,
       {"f8_none", "f8_hides_stored"}}};
}

class F8Bugs : public ::testing::TestWithParam<int64_t> {};

TEST_P(F8Bugs, AreCaught) {
  core::Plugin plugin = open_plugin(ATTEST_BINARY_DIR "/tests/plugins/f8_bugs.so");
  expect_caught(plugin, problems(GetParam()), judged_alone(), "f8_none", 32);
}

// The declaration that Q and K are multiplied as they are stored excuses none of them.
TEST_P(F8Bugs, AreCaughtWhereStoredNumbersAreMultiplied) {
  core::Plugin plugin = open_plugin(ATTEST_BINARY_DIR "/tests/plugins/f8_operand_bugs.so");
  expect_caught(plugin, problems(GetParam()), judged_alone(), "f8_none", 32);
}

// Without factors, row-sum and value-scale hold in 8 bits, too. Each alone finds a bug, beside the
// fill random.
TEST(F8Relations, FindABugEach) {
  core::Plugin plugin = open_plugin(ATTEST_BINARY_DIR "/tests/plugins/f8_bugs.so");
  core::RunOptions options = judged_alone();
  options.all_checks = true;
  options.relations = core::RelationChoice::kAuto;
  options.fills = {"random"};
  const auto broken = [&](const char* name) {
    const core::Record record = run_named(
        plugin, name, "softmax num_heads=2 seq_len_q=61 head_dim=16 " + stored("f8e4m3"), options);
    std::set<std::string> found;
    for (const Catch& one : catches(record)) found.insert(one.check);
    found.erase("relation plan-reuse");  // it judges variants of the problem by their goldens
    return found;
  };
  EXPECT_EQ(broken("f8_none"), std::set<std::string>());
  EXPECT_EQ(broken("f8_normaliser_off"), std::set<std::string>{"relation row-sum"});
  EXPECT_EQ(broken("f8_values_cut"), std::set<std::string>{"relation value-scale"});
}

INSTANTIATE_TEST_SUITE_P(Keys, F8Bugs, ::testing::Values(61, 1021, 4099),
                         ::testing::PrintToStringParamName());

}  // namespace
}  // namespace attest::testing
