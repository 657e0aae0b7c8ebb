// Honest float32 chains of numbers that are nearly equal, as those of flat images are, pass at up
// to 120,000 additions, and a lost tile does not. Without the term of addends that round alike
// these chains fail at 3 to 20 gates. Values that cancel over nearly equal weights have a term of
// their own.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <vector>

#include "core/judge/check.hpp"
#include "core/judge/testing/emulated_outputs.hpp"
#include "core/judge/testing/term_trial.hpp"
#include "core/operations/softmax/sigma/emulate.hpp"
#include "core/operations/softmax/sigma/sigma.hpp"
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

/// What is done to the sums of gradients.
struct Lost {
  int64_t queries = 0;  // the last of them, which a kernel forgets
  bool in_dk = true, in_dv = true;
};

/// The judgement of a kernel that adds the queries one after the other in float32. DQ is the
/// golden's.
Judgement judged_chain(const testing::BackwardCase& c, const Lost& lost = {}) {
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
  const EmulationSink to = testing::store_into(c.tensors);
  const auto emulate = [&](bool dk, bool dv) {
    backward::emulate(c.problem, c.tensors, {}, 0, keys,
                      [&](int32_t role, int64_t row, std::span<const double> values) {
                        if ((role == ATTEST_DK && dk) || (role == ATTEST_DV && dv))
                          to(role, row, values);
                      });
  };
  emulate(true, true);
  if (lost.queries > 0) {  // a query without a dO adds 0 to both sums
    const Tensor& d_o = c.tensors[ATTEST_DO];
    std::vector<double> kept(size_t(lost.queries * kWidth));
    const int64_t first = element_count(d_o.spec) - int64_t(kept.size());
    for (size_t n = 0; n < kept.size(); ++n) {
      kept[n] = load(d_o.data, d_o.spec.dtype, first + int64_t(n));
      store(d_o.data, d_o.spec.dtype, first + int64_t(n), 0);
    }
    emulate(lost.in_dk, lost.in_dv);
    for (size_t n = 0; n < kept.size(); ++n)
      store(d_o.data, d_o.spec.dtype, first + int64_t(n), kept[n]);
  }
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
  const testing::BackwardCase c = flat_queries(20'000, 1e-4);
  for (const Lost& lost :
       {Lost{.queries = 64}, {.queries = 64, .in_dv = false}, {.queries = 64, .in_dk = false}}) {
    const Judgement judgement = judged_chain(c, lost);
    EXPECT_FALSE(judgement.outcome.passes()) << lost.in_dk << lost.in_dv;
    EXPECT_GT(judgement.max_ratio, 2) << lost.in_dk << lost.in_dv;
  }
}

// --- A gradient that all queries share ---

/// A share of all queries are nearly equal, and so is what they add to the gradient of the sink.
testing::BackwardCase partly_flat(int64_t queries, double share) {
  testing::BackwardCase c({.seq_len_q = queries,
                           .seq_len_kv = kKeys,
                           .head_dim = kWidth,
                           .head_dim_v = kWidth,
                           .sinks = true,
                           .dsinks = true},
                          ATTEST_F32, {"cancelling", 1});
  const auto is_flat = [share](int64_t i) {
    return double(random_uniform(5, uint64_t(i))) < share;
  };
  testing::edit(c, ATTEST_Q,
                [&](int64_t i, int64_t d, double) { return 1e-6 * (1 + 0.1 * noise(i, d)); });
  testing::edit(c, ATTEST_DO, [&](int64_t i, int64_t d, double) {
    return is_flat(i) ? 0.9031 * (1 + 1e-6 * noise(i, d + 4)) : 1 + 0.3 * noise(i, d + 8);
  });
  backward::write_forward(c.problem, c.tensors);
  return c;
}

TEST(AlikeAddends, ChainsOfASharedGradientPass) {
  for (const double share : {0.1, 0.2, 0.3}) {
    const testing::BackwardCase c = partly_flat(120'000, share);
    double chain = 0;
    const int64_t head = 0;
    backward::emulate(c.problem, c.tensors, {}, 0, {&head, 1},
                      [&](int32_t role, int64_t, std::span<const double> values) {
                        if (role == ATTEST_DSINKS) chain = values[0];
                      });
    double value = 0, sigma = 0;
    softmax_backward_operation()
        .golden(c.problem, {}, c.tensors)
        ->expect(BackwardArithmetic{}, [&](const Expected& chunk) {
          if (chunk.role != ATTEST_DSINKS) return;
          value = chunk.value[0];
          sigma = chunk.sigma[0];
        });
    EXPECT_GT(sigma, 0);
    EXPECT_LT(std::fabs(chain - value), 6 * sigma) << share;
  }
}

// --- Softmax: sums over keys ---

/// Weights that differ by `spread`, and values that are nearly 1.
testing::Case flat_rows(int64_t keys, double spread) {
  testing::Case c = testing::make_case(
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
  return c;
}

/// Leaves the outputs of a kernel that adds the weights one after the other in float32.
void emulate_rows(const testing::Case& c, const SoftmaxArithmetic& arithmetic) {
  emulate_softmax(c.problem, c.tensors, arithmetic, {}, testing::all_rows(c.tensors[ATTEST_O]),
                  testing::store_into(c.tensors));
}

double element(const testing::Case& c, int32_t role, int64_t n) {
  const Tensor& x = c.tensors[size_t(role)];
  return load(x.data, x.spec.dtype, n);
}

Judgement judgement_of(const testing::Case& c, const SoftmaxArithmetic& arithmetic) {
  return judge(c.problem, *softmax_operation().golden(c.problem, {}, c.tensors), arithmetic,
               c.tensors);
}

Judgement judged_flat_rows(int64_t keys, double spread, const SoftmaxArithmetic& arithmetic = {}) {
  const testing::Case c = flat_rows(keys, spread);
  emulate_rows(c, arithmetic);
  return judgement_of(c, arithmetic);
}

/// The same of a kernel that forgets the last `lost` keys in its sum of weights, in its sums of
/// products, or in both. The lse is that of its weights, or right.
struct LostKeys {
  int64_t keys = 0;
  bool in_weights = true, in_products = true, in_lse = true;
};
Judgement judged_lost_keys(int64_t keys, double spread, const LostKeys& lost,
                           const SoftmaxArithmetic& arithmetic = {}) {
  const testing::Case all = flat_rows(keys, spread), kept = flat_rows(keys - lost.keys, spread);
  emulate_rows(all, arithmetic);
  emulate_rows(kept, arithmetic);
  const Tensor &o = all.tensors[ATTEST_O], &lse = all.tensors[ATTEST_LSE];
  for (int64_t i = 0; i < element_count(lse.spec); ++i) {
    const double of_all = element(all, ATTEST_LSE, i), of_kept = element(kept, ATTEST_LSE, i);
    for (int64_t n = i * kWidth; n < (i + 1) * kWidth; ++n) {
      const double products = lost.in_products
                                  ? element(kept, ATTEST_O, n) * std::exp(of_kept - of_all)
                                  : element(all, ATTEST_O, n);
      store(o.data, o.spec.dtype, n,
            lost.in_weights ? products * std::exp(of_all - of_kept) : products);
    }
    if (lost.in_lse && lost.in_weights) store(lse.data, lse.spec.dtype, i, of_kept);
  }
  return judgement_of(all, arithmetic);
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
  const auto fails_in = [](const LostKeys& lost) {
    const Judgement judgement = judged_lost_keys(32'771, 1e-4, lost);
    EXPECT_FALSE(judgement.outcome.passes());
    EXPECT_GT(judgement.max_ratio, 2);
    return judgement.worst ? judgement.worst->tensor : "";
  };
  // The mean of nearly equal values is what it was, so only the lse tells of keys in neither sum.
  EXPECT_EQ(fails_in({.keys = 256}), "lse");
  EXPECT_EQ(fails_in({.keys = 256, .in_weights = false}), "o");
  EXPECT_EQ(fails_in({.keys = 256, .in_products = false, .in_lse = false}), "o");
}

// The ulp of parts of 384 keys is finer than that of all keys, so that their weights lie anywhere
// in it.
TEST(AlikeAddends, ALostKeyOfNearlyEqualWeightsFailsWhereChainsAreShort) {
  constexpr int64_t kAll = 32'768;
  const SoftmaxArithmetic in_parts{.sum_chain = 384};
  const Judgement honest = judged_flat_rows(kAll, 1e-4, in_parts),
                  lost = judged_lost_keys(kAll, 1e-4, {.keys = 1}, in_parts);
  EXPECT_TRUE(honest.outcome.passes()) << honest.outcome.reason;
  EXPECT_FALSE(lost.outcome.passes());
  EXPECT_GT(lost.max_ratio, 2);
  ASSERT_TRUE(lost.worst);
  EXPECT_EQ(lost.worst->tensor, "lse");
}

// The sum of the part with that key is in its ulp from then on.
TEST(AlikeAddends, ShortChainsBesideAHeavyKeyPass) {
  constexpr int64_t kAll = 32'768;
  constexpr SoftmaxArithmetic kInParts{.sum_chain = 4096};
  const testing::Case c = flat_rows(kAll, 0);
  testing::edit(c, ATTEST_Q, [](int64_t, int64_t d, double) { return d == 0 ? 2 : 0; });
  testing::edit(c, ATTEST_K, [](int64_t j, int64_t d, double) {
    return j == 0 || d > 0 ? 0 : std::log(256.3 * 0x1p-23) * (1 + 1e-5 * noise(j, d));
  });
  emulate_rows(c, kInParts);
  const Judgement judgement = judgement_of(c, kInParts);
  EXPECT_TRUE(judgement.outcome.passes()) << judgement.outcome.reason;
}

// --- Softmax: products that cancel over the row ---

using ValueOfKey = std::function<double(int64_t key, int64_t channel)>;

/// Weights that differ by `spread`, and the given values.
testing::Case valued_rows(int64_t keys, double spread, const ValueOfKey& value) {
  testing::Case c = flat_rows(keys, spread);
  testing::edit(c, ATTEST_V, [&](int64_t j, int64_t d, double) { return value(j, d); });
  return c;
}
/// One value in the first eighth of the keys, and what cancels it in the rest.
ValueOfKey eighth_of(int64_t keys) {
  return [keys](int64_t j, int64_t) { return j < keys / 8 ? 3.0093 : -3.0093 / 7; };
}
ValueOfKey halves_of(int64_t keys) {
  return [keys](int64_t j, int64_t) { return j < keys / 2 ? 1.0031 : -1.0031; };
}
/// Random codes of 8 bits.
double code(int64_t key, int64_t channel) {
  return double(random_bits(9, uint64_t(key * kWidth + channel)) % 256) / 256 - 0.498;
}

/// The judgement of a chain of `length` keys; 0: of all keys.
Judgement judged_valued_rows(int64_t keys, double spread, int64_t length, const ValueOfKey& value) {
  const SoftmaxArithmetic arithmetic{.sum_chain = length};
  const testing::Case c = valued_rows(keys, spread, value);
  emulate_rows(c, arithmetic);
  return judgement_of(c, arithmetic);
}

TEST(AlikeAddends, ChainsOfProductsThatCancelPass) {
  for (const int64_t keys : {4099, 32'768, 65'536})
    for (const double spread : {0.0, 1e-4, 1e-3})
      for (const int64_t length : {int64_t{0}, keys / 4, keys / 64 + 64}) {
        const Judgement judgement = judged_valued_rows(keys, spread, length, eighth_of(keys));
        EXPECT_TRUE(judgement.outcome.passes()) << judgement.outcome.reason;
        EXPECT_LT(std::max(judgement.max_ratio, judgement.rms_ratio), 0.5)
            << keys << " keys, " << spread << ", chains of " << length;
      }
}

// Parts of 4,160 keys, each of which is one chain
TEST(AlikeAddends, ChainsOfProductsWithCodesPass) {
  const Judgement judgement = judged_valued_rows(262'147, 0, 4160, code);
  EXPECT_TRUE(judgement.outcome.passes()) << judgement.outcome.reason;
}

// If the weights of both halves differ by 0.01 %, their products do not err by the same.
TEST(AlikeAddends, ChainsOfProductsWithTwoWeightsPass) {
  constexpr int64_t kAll = 65'536;
  const testing::Case c = valued_rows(kAll, 0, halves_of(kAll));
  testing::edit(c, ATTEST_K, [](int64_t j, int64_t, double) { return j < kAll / 2 ? 0.5e-4 : 0; });
  emulate_rows(c, {});
  const Judgement judgement = judgement_of(c, {});
  EXPECT_TRUE(judgement.outcome.passes()) << judgement.outcome.reason;
  const ScopedTermFactor without(SigmaTerm::kAlikeProducts, 0);
  EXPECT_GT(judgement_of(c, {}).max_ratio, 1);
}

TEST(AlikeAddends, ChainsOfProductsWouldFailWithoutTheTerm) {
  const ScopedTermFactor without(SigmaTerm::kAlikeProducts, 0);
  const auto ratio = [](int64_t keys, double spread, int64_t length) {
    return judged_valued_rows(keys, spread, length, eighth_of(keys)).max_ratio;
  };
  EXPECT_GT(ratio(32'768, 1e-4, 0), 2);
  EXPECT_GT(ratio(65'536, 1e-3, 0), 1);
  EXPECT_GT(ratio(32'768, 1e-4, 8192), 2);
  EXPECT_GT(ratio(32'768, 0, 576), 1);
  EXPECT_GT(judged_valued_rows(262'147, 0, 4160, code).max_ratio, 1);
}

/// The judgement of a kernel that forgets the last keys in its sums of products, where values
/// cancel. Its weights and its lse are right.
Judgement judged_lost_products(int64_t keys, int64_t lost, int64_t length) {
  const SoftmaxArithmetic arithmetic{.sum_chain = length};
  const testing::Case c = valued_rows(keys, 1e-4, eighth_of(keys)),
                      without = valued_rows(keys, 1e-4, [&](int64_t j, int64_t d) {
                        return j < keys - lost ? eighth_of(keys)(j, d) : 0;
                      });
  emulate_rows(c, arithmetic);
  emulate_rows(without, arithmetic);
  const Tensor& o = c.tensors[ATTEST_O];
  for (int64_t n = 0; n < element_count(o.spec); ++n)
    store(o.data, o.spec.dtype, n, element(without, ATTEST_O, n));
  return judgement_of(c, arithmetic);
}

TEST(AlikeAddends, LostProductsThatCancelFail) {
  const Judgement tile = judged_lost_products(32'768, 256, 0),
                  key = judged_lost_products(32'768, 1, 384);
  EXPECT_FALSE(tile.outcome.passes());
  EXPECT_GT(tile.max_ratio, 2);
  EXPECT_FALSE(key.outcome.passes());
  EXPECT_GT(key.max_ratio, 1);
}

}  // namespace
}  // namespace attest::core
