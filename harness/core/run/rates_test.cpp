#include "core/run/rates.hpp"

#include <gtest/gtest.h>

#include "core/problem/spec.hpp"

namespace attest::core {
namespace {

TEST(Rates, KeepTheBestOfAKindAndOfAll) {
  Rates rates;
  const Rates::Kind half{"f16", "CAUSAL"}, single{"f32", ""};
  EXPECT_EQ(rates.of("flash", half), 0);
  rates.note("flash", half, 4e7, 1e7);
  rates.note("flash", half, 2e7, 1e7);
  rates.note("flash", single, 1e7, 1e7);
  EXPECT_EQ(rates.of("flash", half), 4);
  EXPECT_EQ(rates.of("flash", single), 1);
  EXPECT_EQ(rates.of("flash", {"bf16", ""}), 4) << "no such kind was seen: the best of any";
  EXPECT_EQ(rates.of("naive", half), 0);
}

TEST(Rates, TinyRunsSayNothing) {
  Rates rates;
  rates.note("flash", {"f32", ""}, 9e6, 1);
  rates.note("flash", {"f32", ""}, 1e9, 0);
  EXPECT_EQ(rates.of("flash", {"f32", ""}), 0);
}

// A record that was kept answers for the problem that it is of.
TEST(Rates, TheKindOfARecordIsThatOfItsProblem) {
  const Problem problem = parse_problem(
      "softmax dtype=f16 num_heads=1 seq_len_q=8 seq_len_kv=8 head_dim=8 window_right=0 lse");
  Record record;
  record.dtype = dtype_name(problem.dtype);
  record.features = print_features(problem.features);
  Rates rates;
  rates.note("flash", Rates::kind_of(record), 3e7, 1e7);
  rates.note("flash", {"f32", ""}, 9e7, 1e7);
  EXPECT_EQ(rates.of("flash", Rates::kind_of(problem)), 3);
}

}  // namespace
}  // namespace attest::core
