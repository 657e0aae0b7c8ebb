// Bugs in block masks and global tokens: each is caught at 61, 1,021 and 4,099 keys, and what is
// right passes. Hidden blocks are never touched: a kernel that multiplies them by 0 is caught by
// the relations that poison them.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "testing/bugs_caught.hpp"

namespace attest::testing {
namespace {

// The problems of one size. Above 4,000 keys those of block masks have fewer queries, so that they
// take seconds; queries and keys of global tokens are the same tokens.
std::vector<Wanted> problems(int64_t keys) {
  const bool large = keys > 100;
  const int64_t queries = keys > 4000 ? 301 : keys;
  const std::string sizes = fmt::format("softmax seq_len_q={} seq_len_kv={} head_dim=8 ", queries,
                                        keys),
                    blocks = large ? "block_q=64 block_kv=32 " : "block_q=16 block_kv=8 ",
                    mask = fmt::format("mask=[1,1,{},{}] ", queries, keys),
                    band =
                        large ? "window_left=40 window_right=20 " : "window_left=7 window_right=3 ";
  return {{sizes + "block_mask lse " + blocks, {}},
          {fmt::format("softmax seq_len_q={} head_dim=8 global_tokens=5 ", keys) + band, {}},
          {sizes + "block_mask " + mask + blocks, {"block_none", "block_by_mask_of_first"}},
          {sizes + "block_mask window_right=0 " + blocks, {"block_none", "block_diagonal_seen"}},
          {sizes + "batch=2 num_heads=2 block_mask " + blocks,
           {"block_none", "block_head_zero", "block_head_as_sequence", "block_sequence_zero"}}};
}

class BlockBugs : public ::testing::TestWithParam<int64_t> {};

TEST_P(BlockBugs, AreCaught) {
  core::Plugin plugin = open_plugin(ATTEST_BINARY_DIR "/tests/plugins/block_bugs.so");
  core::RunOptions options = judged_alone();
  if (GetParam() > 100) options.fills = {"random"};  // it shows all of them
  expect_caught(plugin, problems(GetParam()), options, "block_none", 22);
}

INSTANTIATE_TEST_SUITE_P(Keys, BlockBugs, ::testing::Values(61, 1021, 4099),
                         ::testing::PrintToStringParamName());

}  // namespace
}  // namespace attest::testing
