// Inputs with few distinct rows: their closed form against the golden that reads every pair and
// against the definition, and bugs that only it sees.
#include "core/operations/softmax_backward/backward_classes.hpp"

#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <mutex>
#include <vector>

#include "core/operations/softmax/problem/geometry.hpp"
#include "core/operations/softmax_backward/testing/backward_cases.hpp"

namespace attest::core::backward {
namespace {

using testing::BackwardCase;
using Shape = testing::BackwardShape;
constexpr int32_t kGradients[] = {ATTEST_DQ, ATTEST_DK, ATTEST_DV};

/// All elements of the gradients, [rows, width] each.
struct Expectation {
  std::map<int32_t, std::vector<double>> value, sigma;
};
Expectation all_of(const BackwardCase& c, const Golden& golden,
                   const BackwardArithmetic& arithmetic) {
  Expectation all;
  for (const int32_t role : kGradients) {
    const auto count = size_t(element_count(c.problem.tensor[size_t(role)]));
    all.value[role].assign(count, NAN);
    all.sigma[role].assign(count, NAN);
  }
  std::mutex lock;
  golden.expect(arithmetic, [&](const Expected& chunk) {
    const std::lock_guard guard(lock);
    if (!chunk.value || !all.value.contains(chunk.role)) return;
    for (size_t r = 0; r < chunk.rows.size(); ++r)
      for (int64_t d = 0; d < chunk.width; ++d) {
        const size_t from = (chunk.shared ? 0 : r * size_t(chunk.width)) + size_t(d),
                     to = size_t(chunk.rows[r] * chunk.width + d);
        EXPECT_TRUE(std::isnan(all.value[chunk.role][to])) << "twice";
        all.value[chunk.role][to] = chunk.value[from];
        all.sigma[chunk.role][to] = chunk.sigma[from];
      }
  });
  return all;
}

double largest(const std::vector<double>& numbers) {
  return std::fabs(std::ranges::max(numbers, {}, [](double x) { return std::fabs(x); }));
}

/// Whether a sequence has no queries, or no keys.
bool has_empty_sequence(const BackwardCase& c) {
  const Geometry geometry(c.problem, c.tensors);
  for (int64_t b = 0; b < c.p().batch; ++b)
    if (geometry.length_q(b) == 0 || geometry.length_kv(b) == 0) return true;
  return false;
}

// Lengths of three padded sequences, or of two packed ones, have an empty one.
TEST(BackwardClasses, HaveTheValuesAndSigmasOfAllPairs) {
  const Shape shapes[] = {{.seq_len_q = 300, .seq_len_kv = 251, .head_dim = 16, .head_dim_v = 8},
                          {.batch = 2,
                           .num_heads = 4,
                           .num_kv_heads = 2,
                           .seq_len_q = 130,
                           .seq_len_kv = 200,
                           .head_dim = 8,
                           .head_dim_v = 16,
                           .softcap = 3,
                           .sinks = true,
                           .seq_lens_q = true,
                           .seq_lens_kv = true},
                          {.batch = 3,
                           .seq_len_q = 100,
                           .seq_len_kv = 140,
                           .sinks = true,
                           .seq_lens_q = true,
                           .seq_lens_kv = true},
                          {.batch = 3,
                           .seq_len_q = 120,
                           .seq_len_kv = 150,
                           .cu_seqlens_q = true,
                           .cu_seqlens_kv = true}};
  const BackwardArithmetic declared[] = {
      {},
      {.score = ATTEST_F16, .product = ATTEST_BF16, .accumulator = ATTEST_F16, .exp_error = 1e-3f},
      {.qk = ATTEST_BF16, .operand = ATTEST_BF16, .delta = ATTEST_BF16}};
  for (const Shape& shape : shapes) {
    const BackwardCase c(shape, ATTEST_F32, {"repeated", 3});
    EXPECT_EQ(has_empty_sequence(c), shape.batch > 2);
    const auto by_classes = golden(c.problem, c.tensors, false, Judged::kClasses),
               by_pairs = golden(c.problem, c.tensors, false, Judged::kAllPairs);
    EXPECT_EQ(by_classes->method(), "closed form, all rows");
    EXPECT_EQ(by_pairs->method(), "float64, all rows");
    for (const BackwardArithmetic& arithmetic : declared) {
      const Expectation one = all_of(c, *by_classes, arithmetic),
                        other = all_of(c, *by_pairs, arithmetic);
      for (const int32_t role : kGradients) {
        const double size = largest(other.value.at(role));
        EXPECT_GT(size, 0.01);
        for (size_t n = 0; n < one.value.at(role).size(); ++n) {
          // Sums over some 300 rows, one after the other, and of products.
          ASSERT_NEAR(one.value.at(role)[n], other.value.at(role)[n], 1e-11 * size) << role;
          ASSERT_NEAR(one.sigma.at(role)[n], other.sigma.at(role)[n],
                      1e-6 * other.sigma.at(role)[n])
              << role << " " << n;
        }
      }
    }
  }
}

// All sequences of "repeated" have the same keys, values, queries and dO, so their roundings are
// the same too.
TEST(BackwardClasses, SequencesShareTheErrorsOfRepeatedRows) {
  const auto independent = [](const char* fill, int32_t role) {
    const BackwardCase c(
        {.batch = 3, .seq_len_q = 40, .seq_len_kv = 50, .head_dim = 2, .head_dim_v = 5}, ATTEST_F32,
        {fill, 1});
    return softmax_backward_operation()
        .golden(c.problem, c.fill, c.tensors)
        ->independent_rows(BackwardArithmetic{.qk = ATTEST_BF16, .operand = ATTEST_BF16}, role);
  };
  const std::pair<const char*, int64_t> sequences[] = {{"random", 3}, {"repeated", 1}};
  for (const auto& [fill, unlike] : sequences) {
    EXPECT_EQ(independent(fill, ATTEST_DQ), unlike * 2);
    EXPECT_EQ(independent(fill, ATTEST_DK), unlike * 2);
    EXPECT_EQ(independent(fill, ATTEST_DV), unlike * 5);
  }
}

/// Rows of one head in long double, from a dense tensor.
std::vector<std::vector<long double>> rows_of(const BackwardCase& c, int32_t role) {
  const Tensor& x = c.tensors[size_t(role)];
  std::vector<std::vector<long double>> rows(size_t(x.spec.dim[2]));
  for (int64_t n = 0; n < x.spec.dim[2]; ++n)
    for (int64_t d = 0; d < x.spec.dim[3]; ++d) rows[size_t(n)].push_back(x.at({0, 0, n, d}));
  return rows;
}

// 128 classes of queries and 64 of keys have fewer pairs than 16 rows of each head.
TEST(BackwardClasses, AreThereForAnyNumberOfHeads) {
  const BackwardCase c({.num_heads = 60, .seq_len_q = 1021, .head_dim = 128}, ATTEST_F32,
                       {"repeated", 1});
  EXPECT_EQ(golden(c.problem, c.tensors)->method(), "closed form, all rows");
}

// A sample takes 1e8 channels of pairs. Of 16 bits a pair of 32 channels counts for 81, not for 64:
// the operands of each sum are rounded.
TEST(BackwardClasses, EndWhereASampleHasFewerPairs) {
  const auto method = [](DType dtype, int64_t classes) {
    const BackwardCase c({.seq_len_q = 1500, .seq_len_kv = 1600, .head_dim = 32}, dtype,
                         {"random", 1});
    for (const int32_t role : {ATTEST_K, ATTEST_V}) {
      const Tensor& x = c.tensors[size_t(role)];
      for (int64_t n = classes * 32; n < element_count(x.spec); ++n)
        store(x.data, dtype, n, load(x.data, dtype, n % (classes * 32)));
    }
    return golden(c.problem, c.tensors)->method();
  };
  constexpr const char *kAll = "closed form, all rows",
                       *kSampleOf32Bits =
                           "float64, 976 of 1500 queries and 1041 of 1600 keys a head",
                       *kSampleOf16Bits =
                           "float64, 770 of 1500 queries and 822 of 1600 keys a head";
  EXPECT_EQ(method(ATTEST_F32, 1000), kAll);
  EXPECT_EQ(method(ATTEST_F32, 1080), kSampleOf32Bits);
  EXPECT_EQ(method(ATTEST_BF16, 800), kAll);
  EXPECT_EQ(method(ATTEST_BF16, 850), kSampleOf16Bits);
}

// By the definition, one pair after the other, in code of its own.
TEST(BackwardClasses, AgreeWithTheDefinitionAt120001Keys) {
  const int64_t keys = 120'001, queries = 50'003;
  const BackwardCase c({.seq_len_q = queries, .seq_len_kv = keys, .head_dim = 16, .head_dim_v = 8},
                       ATTEST_F32, {"repeated", 5});
  const Expectation all = all_of(c, *golden(c.problem, c.tensors), {});
  const auto q = rows_of(c, ATTEST_Q), k = rows_of(c, ATTEST_K), v = rows_of(c, ATTEST_V),
             o = rows_of(c, ATTEST_O), d_o = rows_of(c, ATTEST_DO);
  const auto dot = [](const auto& x, const auto& y) {
    long double sum = 0;
    for (size_t d = 0; d < x.size(); ++d) sum += x[d] * y[d];
    return sum;
  };
  const auto scale = static_cast<long double>(c.p().softmax_scale);
  const auto add_pair = [&](size_t i, size_t j, auto& dq, auto& dk, auto& dv) {
    const long double p = std::exp(
                          scale * dot(q[i], k[j]) -
                          static_cast<long double>(c.tensors[ATTEST_LSE].at({0, 0, int64_t(i)}))),
                      ds = p * (dot(d_o[i], v[j]) - dot(d_o[i], o[i]));
    for (size_t d = 0; d < 16; ++d) {
      dq[d] += scale * ds * k[j][d];
      dk[d] += scale * ds * q[i][d];
    }
    for (size_t d = 0; d < 8; ++d) dv[d] += p * d_o[i][d];
  };
  const auto expect_row = [&](int32_t role, size_t row, const auto& right) {
    const double size = largest(all.value.at(role));
    for (size_t d = 0; d < right.size(); ++d)
      EXPECT_NEAR(all.value.at(role)[row * right.size() + d], double(right[d]), 1e-12 * size)
          << role << " row " << row;
  };
  using Row = std::vector<long double>;
  for (const size_t row : {size_t{0}, size_t{31'007}, size_t{50'002}}) {
    Row dq(16), dk(16), dv(8), other(16), other_v(8);
    for (size_t j = 0; j < size_t(keys); ++j) add_pair(row, j, dq, other, other_v);
    expect_row(ATTEST_DQ, row, dq);
    for (size_t i = 0; i < size_t(queries); ++i) add_pair(i, 2 * row, other, dk, dv);
    expect_row(ATTEST_DK, 2 * row, dk);
    expect_row(ATTEST_DV, 2 * row, dv);
  }
}

// Equal keys have equal values. Equal queries have equal dO but for the sign, which changes from
// one to the next.
TEST(BackwardFill, RepeatedHasFewDistinctRowsWhoseSumCancels) {
  const BackwardCase c({.num_heads = 2, .num_kv_heads = 1, .seq_len_q = 1000}, ATTEST_BF16,
                       {"repeated", 9});
  const auto row = [&](int32_t role, int64_t h, int64_t n) {
    std::vector<double> values;
    for (int64_t d = 0; d < 8; ++d) values.push_back(c.tensors[size_t(role)].at({0, h, n, d}));
    return values;
  };
  std::map<std::vector<double>, std::vector<double>> value_of;
  for (int64_t j = 0; j < 1000; ++j)
    EXPECT_EQ(value_of.try_emplace(row(ATTEST_K, 0, j), row(ATTEST_V, 0, j)).first->second,
              row(ATTEST_V, 0, j));
  EXPECT_LE(value_of.size(), 64u);
  for (int64_t h = 0; h < 2; ++h) {
    std::map<std::vector<double>, std::vector<double>> next;
    for (int64_t i = 0; i < 1000; ++i) {
      std::vector<double> d_o = row(ATTEST_DO, h, i);
      const auto [known, is_new] = next.try_emplace(row(ATTEST_Q, h, i), d_o);
      EXPECT_EQ(known->second, d_o);
      for (double& x : d_o) x = -x;
      known->second = d_o;
    }
    EXPECT_LE(next.size(), 64u);
  }
}

TEST(BackwardFill, RepeatedIsThereWhereOtherInputsAreSampled) {
  const auto fills_of = [](const Shape& shape) {
    return softmax_backward_operation().fills(BackwardCase(shape, ATTEST_F32, {}).problem);
  };
  using ::testing::Contains, ::testing::Not;
  const Shape large{.seq_len_q = 1500, .seq_len_kv = 1600, .head_dim = 32};
  EXPECT_THAT(fills_of(large), Contains("repeated"));
  EXPECT_THAT(fills_of({.seq_len_q = 100, .head_dim = 32}), Not(Contains("repeated")));
  Shape causal = large, masked = large, top_k = large;
  causal.window_right = 0;
  masked.mask = {1, 1, 1, 1600};
  top_k.top_k = 5;
  for (const Shape& shape : {causal, masked, top_k})
    EXPECT_THAT(fills_of(shape), Not(Contains("repeated")));
}

}  // namespace
}  // namespace attest::core::backward
