// Bugs in block masks and global tokens: each is caught at 61 and at 1,021 tokens, and what is
// right passes. Hidden blocks are never touched: a kernel that multiplies them by 0 is caught by
// the relations that poison them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fmt/format.h>

#include <map>
#include <set>
#include <string>
#include <vector>

#include "core/problem/spec.hpp"
#include "core/run/runner.hpp"
#include "testing/mutants/trial.hpp"

namespace attest::testing {
namespace {

using core::CaseRunner, core::Plugin, core::Record;

// The problems of one size, each with the bugs that only show there; none: all that the problem has
// room for.
struct Wanted {
  std::string spec;
  std::set<std::string> only;
};

std::vector<Wanted> problems(int64_t tokens) {
  const bool large = tokens > 100;
  const std::string sizes = fmt::format("softmax seq_len_q={} head_dim=8 ", tokens),
                    blocks = large ? "block_q=64 block_kv=32 " : "block_q=16 block_kv=8 ",
                    mask = fmt::format("mask=[1,1,{0},{0}] ", tokens),
                    band =
                        large ? "window_left=40 window_right=20 " : "window_left=7 window_right=3 ";
  return {{sizes + "block_mask lse " + blocks, {}},
          {sizes + "global_tokens=5 " + band, {}},
          {sizes + "block_mask " + mask + blocks, {"block_none", "block_by_mask_of_first"}},
          {sizes + "block_mask window_right=0 " + blocks, {"block_none", "block_diagonal_seen"}},
          {sizes + "batch=2 num_heads=2 block_mask " + blocks,
           {"block_none", "block_head_zero", "block_head_as_sequence", "block_sequence_zero"}}};
}

class BlockBugs : public ::testing::TestWithParam<int64_t> {};

TEST_P(BlockBugs, AreCaught) {
  Plugin plugin(
      ATTEST_BINARY_DIR "/tests/plugins/block_bugs.so",
      {.executable = core::find_worker(), .cpus = "", .limits = {.threads = 2, .timeout_s = 120}});
  core::RunOptions options;
  options.limits.threads = 2;
  options.timed = options.diagnosed = false;
  options.relations = core::RelationChoice::kNone;
  if (GetParam() > 100) options.fills = {"random"};  // it shows all of them
  core::Rates rates;
  std::map<std::string, bool> caught;
  for (const Wanted& wanted : problems(GetParam())) {
    const core::Problem problem = core::parse_problem(wanted.spec);
    CaseRunner runner(problem, core::print_problem(problem), {"", wanted.spec, "random", ""},
                      nullptr, options, rates);
    for (const core::Implementation& impl : plugin.implementations()) {
      if (!wanted.only.empty() && !wanted.only.contains(impl.name)) continue;
      if (caught[impl.name]) continue;
      const Record record = runner.run(plugin, impl);
      caught[impl.name] = !catches(record).empty();
      if (impl.name == "block_none") {
        EXPECT_TRUE(record.outcome.passes()) << wanted.spec << record.outcome.reason;
      }
    }
  }
  EXPECT_EQ(caught.size(), 22u);
  for (const auto& [name, is_caught] : caught) EXPECT_EQ(is_caught, name != "block_none") << name;
}

INSTANTIATE_TEST_SUITE_P(Tokens, BlockBugs, ::testing::Values(61, 1021));

}  // namespace
}  // namespace attest::testing
