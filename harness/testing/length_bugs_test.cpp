// Bugs at rare lengths of sequences. No fill has such lengths; the relations that change lengths
// catch each bug.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "testing/bugs_caught.hpp"

namespace attest::testing {
namespace {

const std::vector<Wanted> kProblems = {
    {"softmax batch=5 num_heads=2 seq_len_q=5 seq_len_kv=131 head_dim=8 page_size=24 page_table "
     "seq_lens_kv",
     {}},
    {"softmax dtype=f16 batch=5 num_heads=2 seq_len_q=3 seq_len_kv=197 head_dim=8 page_size=16 "
     "page_table seq_lens_kv lse",
     {}},
    {"softmax batch=6 num_heads=2 seq_len_q=40 seq_len_kv=61 head_dim=8 cu_seqlens_q "
     "cu_seqlens_kv window_left=7 window_right=3",
     {}},
    {"softmax batch=5 num_heads=2 seq_len_q=40 seq_len_kv=131 head_dim=8 seq_lens_q seq_lens_kv "
     "window_left=7 window_right=3",
     {}}};

core::Plugin length_bugs() {
  return open_plugin(ATTEST_BINARY_DIR "/tests/plugins/length_bugs.so");
}

TEST(LengthBugs, AreCaughtByRelations) {
  core::Plugin plugin = length_bugs();
  core::RunOptions options = judged_alone();
  options.relations = core::RelationChoice::kAuto;
  expect_caught(plugin, kProblems, options, "length_none", 6);
}

TEST(LengthBugs, PassEveryFill) {
  core::Plugin plugin = length_bugs();
  const core::RunOptions options = judged_alone();
  core::Rates rates;
  for (const Wanted& wanted : kProblems) {
    const core::Problem problem = core::parse_problem(wanted.spec);
    core::CaseRunner runner(problem, core::print_problem(problem), {"", wanted.spec, "random", ""},
                            nullptr, options, rates);
    for (const core::Implementation& impl : plugin.implementations()) {
      const core::Record record = runner.run(plugin, impl);
      EXPECT_TRUE(catches(record).empty()) << impl.name << ": " << record.outcome.reason;
    }
  }
}

}  // namespace
}  // namespace attest::testing
