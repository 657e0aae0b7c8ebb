// The contract from the outside: a C plugin built by one cc line, plugins of an older and of a
// newer header, each loaded, judged and timed by this host; and a feature that an old one does not
// know is refused by name.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/problem/spec.hpp"
#include "core/run/runner.hpp"

namespace attest::core {
namespace {

using ::testing::HasSubstr;

Record run_only(const std::string& plugin_name, const std::string& spec) {
  Plugin plugin(
      ATTEST_BINARY_DIR "/tests/plugins/" + plugin_name + ".so",
      {.executable = find_worker(), .cpus = "", .limits = {.threads = 1, .timeout_s = 20}});
  const Problem problem = parse_problem(spec);
  RunOptions options;
  options.limits.budget_s = 0.05;
  Rates rates;
  CaseRunner runner(problem, print_problem(problem), {"contract", spec, "random", ""}, nullptr,
                    options, rates);
  return runner.run(plugin, plugin.implementations().at(0));
}

class Contract : public ::testing::TestWithParam<const char*> {};

TEST_P(Contract, IsLoadedJudgedAndTimed) {
  const std::string spec = "softmax num_heads=2 seq_len_q=61 head_dim=64 window_right=0";
  const Record record = run_only(GetParam(), spec);
  EXPECT_EQ(record.outcome.verdict(), Verdict::kPass) << record.outcome.reason;
  EXPECT_EQ(record.fills.size(), default_fills(parse_problem(spec), false).size());
  ASSERT_TRUE(record.time);
  EXPECT_GE(record.time->samples_ns.size(), 2u);
}

TEST_P(Contract, IsRefusedByNameWhatItsTableDoesNotList) {
  const Record record =
      run_only(GetParam(), "softmax seq_len_q=64 head_dim=16 patch_size=16 order");
  EXPECT_EQ(record.outcome.code, ReasonCode::kUnsupportedTable);
  EXPECT_EQ(record.outcome.reason, "does not support ORDER+PATCHES");
  const Record younger =
      run_only(GetParam(), "softmax num_heads=2 seq_len_q=64 head_dim=16 alibi_slopes");
  EXPECT_EQ(younger.outcome.code, ReasonCode::kUnsupportedTable);
  EXPECT_EQ(younger.outcome.reason, "does not support ALIBI");
  EXPECT_EQ(
      run_only(GetParam(), "softmax num_heads=2 seq_len_q=64 head_dim=16 sinks").outcome.reason,
      "does not support SINKS");
}

INSTANTIATE_TEST_SUITE_P(Plugins, Contract,
                         ::testing::Values("plugin_c", "older_header", "newer_header"));

TEST(ContractTemplate, TheTemplateOfANewImplementationPasses) {
  for (const char* spec :
       {"softmax dtype=bf16 num_heads=4 num_kv_heads=2 seq_len_q=50 head_dim=24 head_dim_v=40 lse",
        "softmax batch=3 seq_len_q=40 head_dim=16 seq_lens_q seq_lens_kv lse",
        "softmax grid_height=14 grid_width=14 window_height=7 window_width=7 shift_y=3 shift_x=3 "
        "shift_bias=-100 seq_len_q=196 num_heads=3 head_dim=32 rel_bias"}) {
    const Record record = run_only("naive_minimal", spec);
    EXPECT_EQ(record.outcome.verdict(), Verdict::kPass) << spec << ": " << record.outcome.reason;
  }
}

}  // namespace
}  // namespace attest::core
