// Honest float32 chains of numbers that are nearly equal, as those of flat images are, pass at up
// to 120,000 additions, and a lost tile does not. Without the term of addends that round alike
// these chains fail at 3 to 20 gates.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <vector>

#include "core/judge/check.hpp"
#include "core/judge/testing/emulated_outputs.hpp"
#include "core/judge/testing/term_trial.hpp"
#include "core/operations/softmax/sigma/emulate.hpp"
#include "core/operations/softmax/testing/make_case.hpp"
#include "core/operations/softmax_backward/backward_terms.hpp"
#include "core/operations/softmax_backward/testing/backward_cases.hpp"
#include "core/tensor/random.hpp"

namespace attest::core {
namespace {

double noise(int64_t row, int64_t channel) {
  return double(random_normal(7, uint64_t(row * 16 + channel)));
}

// --- Gradients: sums over queries ---

constexpr int64_t kKeys = 12, kWidth = 4;

/// All queries are nearly equal, and so are all rows of dO but every `odd` one: they differ by
/// `spread`.
testing::BackwardCase flat_queries(int64_t queries, double spread, int64_t odd = 0) {
  testing::BackwardCase c(
      {.seq_len_q = queries, .seq_len_kv = kKeys, .head_dim = kWidth, .head_dim_v = kWidth},
      ATTEST_F32, {"cancelling", 1});
  testing::edit(c, ATTEST_Q,
                [&](int64_t i, int64_t d, double) { return 1e-3 * (1 + spread * noise(i, d)); });
  testing::edit(c, ATTEST_V, [](int64_t, int64_t, double x) { return x - 8; });
  testing::edit(c, ATTEST_DO, [&](int64_t i, int64_t d, double) {
    return odd > 0 && i % odd == 0 ? noise(i, d + 8) : 1.0031 * (1 + spread * noise(i, d + 4));
  });
  backward::write_forward(c.problem, c.tensors);
  return c;
}

/// The judgement of a kernel that adds the queries one after the other in float32. Each element of
/// DK and DV is `times` what it should be. DQ is the golden's.
Judgement judged_chain(const testing::BackwardCase& c, double times = 1) {
  const auto golden = softmax_backward_operation().golden(c.problem, {}, c.tensors);
  golden->expect(BackwardArithmetic{}, [&](const Expected& chunk) {
    if (chunk.role != ATTEST_DQ) return;
    const Tensor& to = c.tensors[ATTEST_DQ];
    for (size_t n = 0; n < chunk.rows.size() * size_t(kWidth); ++n)
      store(to.data, to.spec.dtype, chunk.rows[n / size_t(kWidth)] * kWidth + int64_t(n) % kWidth,
            chunk.value ? chunk.value[chunk.shared ? n % size_t(kWidth) : n] : 0);
  });
  std::vector<int64_t> keys;
  for (int64_t j = 0; j < kKeys; ++j) keys.push_back(j);
  const EmulationSink to =
      testing::store_into(c.tensors, [times](int32_t, double value) { return times * value; });
  backward::emulate(c.problem, c.tensors, {}, 0, keys,
                    [&](int32_t role, int64_t row, std::span<const double> values) {
                      if (role != ATTEST_DQ) to(role, row, values);
                    });
  return judge(c.problem, *golden, BackwardArithmetic{}, c.tensors);
}

TEST(AlikeAddends, ChainsOverNearlyEqualQueriesPass) {
  for (const int64_t queries : {4099, 20'000, 120'000})
    for (const double spread : {1e-6, 1e-4, 3e-4}) {
      const Judgement judgement = judged_chain(flat_queries(queries, spread));
      EXPECT_TRUE(judgement.outcome.passes())
          << queries << " queries, " << spread << ": " << judgement.outcome.reason;
    }
}

TEST(AlikeAddends, ChainsOverQueriesThatAreMostlyNearlyEqualPass) {
  for (const int64_t queries : {20'000, 120'000}) {
    const Judgement judgement = judged_chain(flat_queries(queries, 1e-5, 4));
    EXPECT_TRUE(judgement.outcome.passes()) << queries << ": " << judgement.outcome.reason;
  }
}

// Without the term these inputs are no harder than others.
TEST(AlikeAddends, ChainsWouldFailWithoutTheTerm) {
  const ScopedTermFactor without(backward::Term::kAlikeAddends, 0);
  for (const auto& [queries, spread] : {std::pair(4099, 1e-6), {20'000, 1e-4}, {120'000, 3e-4}})
    EXPECT_GT(judged_chain(flat_queries(queries, spread)).max_ratio, 2) << queries;
}

TEST(AlikeAddends, ALostTileOfNearlyEqualQueriesFails) {
  constexpr double kQueries = 20'000, kTile = 64;
  const Judgement judgement =
      judged_chain(flat_queries(int64_t(kQueries), 1e-4), 1 - kTile / kQueries);
  EXPECT_FALSE(judgement.outcome.passes());
  EXPECT_GT(judgement.max_ratio, 2);
}

// --- Softmax: sums over keys ---

/// The judgement of a kernel that adds nearly equal weights one after the other in float32. Values
/// are nearly 1. O is `times` what it should be.
Judgement judged_flat_rows(int64_t keys, double spread, double times = 1) {
  const testing::Case c = testing::make_case(
      "",
      [&](attest_softmax_params& p) {
        p.num_heads = 1;
        p.seq_len_q = 4;
        p.seq_len_kv = keys;
        p.head_dim = p.head_dim_v = kWidth;
      },
      {int32_t{ATTEST_LSE}}, ATTEST_F32);
  testing::edit(c, ATTEST_Q, [](int64_t i, int64_t, double) { return 1 + 0.3 * double(i); });
  testing::edit(c, ATTEST_K, [&](int64_t j, int64_t d, double) { return spread * noise(j, d); });
  testing::edit(c, ATTEST_V,
                [](int64_t j, int64_t d, double) { return 1.0031 * (1 + 1e-4 * noise(j, d + 4)); });
  emulate_softmax(c.problem, c.tensors, {}, {}, testing::all_rows(c.tensors[ATTEST_O]),
                  testing::store_into(c.tensors, [times](int32_t role, double value) {
                    return role == ATTEST_O ? times * value : value;
                  }));
  return judge(c.problem, *softmax_operation().golden(c.problem, {}, c.tensors),
               SoftmaxArithmetic{}, c.tensors);
}

TEST(AlikeAddends, ChainsOfNearlyEqualWeightsPass) {
  for (const int64_t keys : {4099, 32'771, 131'101, 262'147})
    for (const double spread : {0.0, 1e-6, 1e-4, 1e-3}) {
      const Judgement judgement = judged_flat_rows(keys, spread);
      EXPECT_TRUE(judgement.outcome.passes())
          << keys << " keys, " << spread << ": " << judgement.outcome.reason;
    }
}

TEST(AlikeAddends, ALostTileOfNearlyEqualWeightsFails) {
  constexpr double kKeysOfRow = 32'771, kTile = 256;
  EXPECT_FALSE(
      judged_flat_rows(int64_t(kKeysOfRow), 1e-4, 1 - kTile / kKeysOfRow).outcome.passes());
}

}  // namespace
}  // namespace attest::core
