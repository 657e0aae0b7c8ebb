// The fill "wild": what is NaN or infinite is seen by rows, and by no more of them than has to be.
#include <gtest/gtest.h>

#include <cmath>

#include "core/operations/softmax/codebook_trials.hpp"

namespace attest::core {
namespace {

using namespace codebook_trials;

struct Counts {
  int64_t finite = 0, nan = 0, infinite = 0;
};

Counts count_expected(const Case& c) {
  Counts counts;
  const auto golden = softmax_golden(c.problem, c.tensors);
  const Expectations expected(*golden, {}, ATTEST_O);
  for (const auto& [row, values] : expected.value)
    for (size_t e = 0; e < values.size(); ++e) {
      ++(std::isnan(values[e]) ? counts.nan : std::isinf(values[e]) ? counts.infinite : counts.finite);
      EXPECT_TRUE(!std::isfinite(values[e]) || std::isfinite(expected.sigma.at(row)[e])) << row << " " << e;
    }
  return counts;
}

bool has_nan(const Case& c, size_t role, int64_t outer, int64_t head, int64_t row) {
  const std::vector<double> values = c.row(role, outer, head, row);
  return std::any_of(values.begin(), values.end(), [](double x) { return std::isnan(x); });
}

TEST(WildFill, SomeRowsAreNanSomeInfiniteAndMostFinite) {
  const std::function<void(Params&)> changes[] = {
      [](Params& p) { p.num_heads = 2, p.seq_len_q = 61, p.head_dim = 16; },
      [](Params& p) { p.seq_len_q = 61, p.head_dim = 16, p.window_right = 0; },
      [](Params& p) { p.num_heads = 2, p.seq_len_q = 61, p.head_dim = 16, p.softcap = 15; },
      [](Params& p) { p.num_heads = 4, p.num_kv_heads = 2, p.seq_len_q = 40, p.seq_len_kv = 130, p.head_dim = 32; }};
  for (const auto& change : changes)
    for (const DType dtype : {ATTEST_F32, ATTEST_F16, ATTEST_BF16}) {
      const Counts counts = count_expected(Case(dtype, {"wild", 7}, change, {ATTEST_LSE}));
      EXPECT_GT(counts.nan, 0);
      EXPECT_GT(counts.infinite, 0);
      EXPECT_GT(counts.finite, counts.infinite);
    }
}

// One NaN key would leave nothing to see where every row has it.
TEST(WildFill, NoKeyIsNanWhereAllRowsWouldBe) {
  const Case alone(ATTEST_F32, {"wild", 7}, [](Params& p) { p.seq_len_q = 61, p.head_dim = 16; });
  const Case causal(ATTEST_F32, {"wild", 7}, [](Params& p) { p.seq_len_q = 61, p.head_dim = 16, p.window_right = 0; });
  EXPECT_FALSE(has_nan(alone, ATTEST_K, 0, 0, 45));
  EXPECT_TRUE(has_nan(causal, ATTEST_K, 0, 0, 45));
}

TEST(WildFill, JudgesByDefaultWhereAllRowsAreCheap) {
  auto judges = [](int64_t tokens) {
    const Case c(ATTEST_F16, {"wild", 1}, [&](Params& p) { p.seq_len_q = 64, p.seq_len_kv = tokens, p.head_dim = 64; });
    const std::vector<std::string> fills = c.problem.operation->fills(c.problem);
    return std::find(fills.begin(), fills.end(), "wild") != fills.end();
  };
  EXPECT_TRUE(judges(1021));
  EXPECT_FALSE(judges(262'147));
}

}  // namespace
}  // namespace attest::core
