// Bugs in softmax over the top_k keys of a row: each is caught at 61, 1,021 and 4,099 keys. What is
// right passes, in whichever order and arithmetic it chooses its keys.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "testing/bugs_caught.hpp"

namespace attest::testing {
namespace {

// The problems of one size.
std::vector<Wanted> problems(int64_t keys) {
  const bool large = keys > 100;
  const std::string sizes = fmt::format("softmax seq_len_q={} seq_len_kv={} head_dim=8 top_k={} ",
                                        large ? 67 : 61, keys, large ? 32 : 7),
                    pairs = fmt::format("[1,1,{},{}] ", large ? 67 : 61, keys);
  return {{sizes + "lse", {}},
          {sizes + "top_k_ties=1", {"top_k_none", "top_k_first_ties", "top_k_half_of_ties"}},
          {sizes + "bias=" + pairs + "softcap=2.5",
           {"top_k_none", "top_k_before_terms", "top_k_before_softcap", "top_k_before_scale"}},
          {sizes + "mask=" + pairs, {"top_k_none", "top_k_masked_count", "top_k_just_enough"}},
          {sizes + "window_right=0", {"top_k_none", "top_k_others_count", "top_k_few_see_nothing"}},
          {sizes + "num_heads=4 num_kv_heads=2",
           {"top_k_none", "top_k_over_heads", "top_k_first_head", "top_k_half_scores",
            "top_k_nan_dropped"}}};
}

class TopKBugs : public ::testing::TestWithParam<int64_t> {};

TEST_P(TopKBugs, AreCaught) {
  core::Plugin plugin = open_plugin(ATTEST_BINARY_DIR "/tests/plugins/top_k_bugs.so");
  expect_caught(plugin, problems(GetParam()), judged_alone(), "top_k_none", 31);
}

INSTANTIATE_TEST_SUITE_P(Keys, TopKBugs, ::testing::Values(61, 1021, 4099),
                         ::testing::PrintToStringParamName());

// Bugs in flash_cpu's own kernel, which keeps a list of keys for each row. At 61 keys the lists of
// the small plugin are cut; flash_cpu's own are cut only from more keys on.
struct Lists {
  const char* plugin;
  int64_t keys;
  std::vector<int64_t> top_k;  // one problem of each and either rule for ties
};

class FlashTopKBugs : public ::testing::TestWithParam<Lists> {};

TEST_P(FlashTopKBugs, AreCaught) {
  const Lists& lists = GetParam();
  std::vector<Wanted> problems;
  for (const int64_t top_k : lists.top_k)
    for (const int ties : {ATTEST_TOP_K_FIRST, ATTEST_TOP_K_ALL_TIES})
      problems.push_back({fmt::format("softmax num_heads=3 seq_len_q=61 seq_len_kv={} head_dim=8 "
                                      "top_k={} top_k_ties={} lse",
                                      lists.keys, top_k, ties),
                          {}});
  core::Plugin plugin =
      open_plugin(fmt::format("{}/tests/plugins/{}.so", ATTEST_BINARY_DIR, lists.plugin));
  expect_caught(plugin, problems, judged_alone(), "flash_top_k_none", 15);
}

INSTANTIATE_TEST_SUITE_P(Keys, FlashTopKBugs,
                         ::testing::Values(Lists{"flash_top_k_small", 61, {7}},
                                           Lists{"flash_top_k_small", 1021, {9, 32}},
                                           Lists{"flash_top_k_planted", 1021, {9, 32}},
                                           Lists{"flash_top_k_planted", 4099, {64, 200}}),
                         [](const auto& each) {
                           return fmt::format("{}_{}", each.param.plugin, each.param.keys);
                         });

// Kernels that sum products in other orders, from the last key to the first, or in f16 or bf16.
TEST(TopK, HonestKernelsPass) {
  core::Plugin plugin = open_plugin(ATTEST_BINARY_DIR "/tests/plugins/honest.so");
  const core::RunOptions options = judged_alone();
  core::Rates rates;
  int judged = 0;
  for (const char* spec :
       {"softmax batch=2 num_heads=2 seq_len_q=61 head_dim=64 top_k=9 lse",
        "softmax num_heads=2 seq_len_q=40 seq_len_kv=1021 head_dim=32 top_k=64 top_k_ties=1 lse",
        "softmax dtype=bf16 num_heads=2 seq_len_q=61 seq_len_kv=300 head_dim=24 top_k=16 "
        "alibi_slopes softcap=4 lse",
        "softmax dtype=f16 seq_len_q=61 head_dim=16 top_k=1 top_k_ties=1 bias lse"}) {
    const core::Problem problem = core::parse_problem(spec);
    core::CaseRunner runner(problem, core::print_problem(problem), {"", spec, "random", ""},
                            nullptr, options, rates);
    for (const core::Implementation& impl : plugin.implementations()) {
      const core::Record record = runner.run(plugin, impl);
      if (record.outcome.verdict() == core::Verdict::kUnsupported) continue;
      ++judged;
      EXPECT_TRUE(record.outcome.passes()) << impl.name << " " << spec << record.outcome.reason;
    }
  }
  EXPECT_GE(judged, 32);
}

}  // namespace
}  // namespace attest::testing
