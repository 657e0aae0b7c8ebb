// Queries that the gradients of one tile of keys lose, at 120,001 keys: the fill "repeated" shows
// them, since its golden has all keys, and a sample of the keys does not.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "core/judge/check.hpp"
#include "core/operations/softmax_backward/testing/backward_cases.hpp"

namespace attest::core::backward {
namespace {

using testing::BackwardCase;

constexpr int64_t kKeys = 120'001, kFirstKey = 60'017, kTileKeys = 16, kFirstQuery = 41'600,
                  kLostQueries = 16;

/// Outputs as a kernel without errors stores them; 0 where the golden has bounds alone.
void store_expected(const BackwardCase& c, const Golden& golden) {
  golden.expect(BackwardArithmetic{}, [&](const Expected& chunk) {
    const Tensor& to = c.tensors[size_t(chunk.role)];
    for (size_t r = 0; r < chunk.rows.size(); ++r)
      for (int64_t d = 0; d < chunk.width; ++d) {
        const size_t from = (chunk.shared ? 0 : r * size_t(chunk.width)) + size_t(d);
        store(to.data, to.spec.dtype, chunk.rows[r] * chunk.width + d,
              chunk.value ? chunk.value[from] : 0);
      }
  });
}

/// Row `row` of a dense input.
std::vector<double> row_of(const BackwardCase& c, int32_t role, int64_t row) {
  const Tensor& x = c.tensors[size_t(role)];
  std::vector<double> values(size_t(x.spec.dim[3]));
  load_row(x.data, x.spec.dtype, row * x.spec.dim[3], x.spec.dim[3], 1, values.data());
  return values;
}
double dot(const std::vector<double>& x, const std::vector<double>& y) {
  double sum = 0;
  for (size_t d = 0; d < x.size(); ++d) sum += x[d] * y[d];
  return sum;
}

/// Takes from dK and dV of one tile of keys what 16 queries add.
void lose_queries(const BackwardCase& c) {
  const auto scale = double(c.p().softmax_scale);
  const auto add = [&](int32_t role, int64_t row, double factor, const std::vector<double>& x) {
    const Tensor& to = c.tensors[size_t(role)];
    for (size_t d = 0; d < x.size(); ++d) {
      const int64_t at = row * int64_t(x.size()) + int64_t(d);
      store(to.data, to.spec.dtype, at, load(to.data, to.spec.dtype, at) + factor * x[d]);
    }
  };
  for (int64_t j = kFirstKey; j < kFirstKey + kTileKeys; ++j) {
    const std::vector<double> k = row_of(c, ATTEST_K, j), v = row_of(c, ATTEST_V, j);
    std::vector<double> of_k(k.size()), of_v(v.size());
    for (int64_t i = kFirstQuery; i < kFirstQuery + kLostQueries; ++i) {
      const std::vector<double> q = row_of(c, ATTEST_Q, i), d_o = row_of(c, ATTEST_DO, i);
      const double p = std::exp(scale * dot(q, k) - c.tensors[ATTEST_LSE].at({0, 0, i})),
                   ds = p * (dot(d_o, v) - dot(d_o, row_of(c, ATTEST_O, i)));
      for (size_t d = 0; d < q.size(); ++d) of_k[d] += ds * q[d];
      for (size_t d = 0; d < d_o.size(); ++d) of_v[d] += p * d_o[d];
    }
    add(ATTEST_DK, j, -scale, of_k);
    add(ATTEST_DV, j, -1, of_v);
  }
}

/// What judges say of outputs without errors, and of those whose tile of keys has lost queries.
struct Judged {
  Judgement whole, lost;
};
Judged judged(const char* fill, DType dtype, BackwardArithmetic arithmetic) {
  const BackwardCase c({.seq_len_q = kKeys, .head_dim = 16}, dtype, {fill, 7});
  const auto golden = softmax_backward_operation().golden(c.problem, c.fill, c.tensors);
  arithmetic.output = dtype;
  Judged of;
  store_expected(c, *golden);
  of.whole = judge(c.problem, *golden, arithmetic, c.tensors);
  lose_queries(c);
  of.lost = judge(c.problem, *golden, arithmetic, c.tensors);
  return of;
}

TEST(BackwardLostQueries, AreSeenInEveryArithmetic) {
  struct Trial {
    DType dtype;
    BackwardArithmetic declared;
    double least_ratio;  // of the largest error to its gate
  };
  const Trial trials[] = {{ATTEST_F32, {}, 20},
                          {ATTEST_F16, {}, 20},
                          {ATTEST_BF16, {}, 20},
                          {ATTEST_F16, {.product = ATTEST_F16}, 5},
                          {ATTEST_BF16, {.product = ATTEST_BF16}, 1.5}};
  for (const auto& [dtype, declared, least_ratio] : trials) {
    const Judged of = judged("repeated", dtype, declared);
    EXPECT_EQ(of.whole.method, "closed form, all rows");
    EXPECT_EQ(of.whole.outcome.verdict(), Verdict::kPass) << dtype_name(dtype);
    EXPECT_EQ(of.lost.outcome.verdict(), Verdict::kFail) << dtype_name(dtype);
    EXPECT_GT(of.lost.max_ratio, least_ratio) << dtype_name(dtype);
  }
}

TEST(BackwardLostQueries, AreNotInASample) {
  const Judged of = judged("codebook", ATTEST_F32, {});
  EXPECT_EQ(of.whole.method, "float64, 26 of 120001 queries and 26 of 120001 keys a head");
  EXPECT_EQ(of.lost.outcome.verdict(), Verdict::kPass) << of.lost.outcome.reason;
}

}  // namespace
}  // namespace attest::core::backward
