// Softmax over the top_k keys of a row: ties as brute force counts them; keys that honest rounding
// swaps at the edge pass, and wrong keys do not.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <map>
#include <mutex>
#include <numeric>

#include "core/operations/softmax/sigma/emulate.hpp"
#include "core/operations/softmax/sigma/sigma.hpp"
#include "core/operations/softmax/testing/brute_force.hpp"
#include "core/operations/unsure.hpp"
#include "core/tensor/error.hpp"

namespace attest::core {
namespace {

using testing::Brute;
using testing::BruteRow;
using testing::Case;
using testing::make_case;
using Params = attest_softmax_params;

constexpr double kLargestGate = 6, kRmsGate = 1.5;

Case filled(Case c, const char* fill) {
  softmax_operation().fill(c.problem, {fill, 1}, c.tensors, false);
  return c;
}

Case dense(const char* fill, int64_t keys, int64_t top_k, int32_t ties, DType dtype = ATTEST_F32) {
  return filled(make_case(
                    fill,
                    [&](Params& p) {
                      p.num_heads = 2;
                      p.seq_len_q = 61;
                      p.seq_len_kv = keys;
                      p.head_dim = 32;
                      p.top_k = top_k;
                      p.top_k_ties = ties;
                    },
                    {ATTEST_LSE}, dtype),
                fill);
}

TEST(TopK, CountsTiesAsBruteForceDoes) {
  for (const int32_t ties : {ATTEST_TOP_K_FIRST, ATTEST_TOP_K_ALL_TIES}) {
    const Case c = filled(make_case("",
                                    [&](Params& p) {
                                      p.num_heads = 4;
                                      p.num_kv_heads = 2;
                                      p.seq_len_kv = 150;
                                      p.top_k = 11;
                                      p.top_k_ties = ties;
                                    },
                                    {ATTEST_LSE, ATTEST_MASK, ATTEST_BIAS}),
                          "top_k_levels");
    const Brute brute(c);
    const std::map<int64_t, BruteRow> rows = brute.rows();
    int64_t more = 0;  // rows in which more than top_k keys count
    for (const auto& [at, row] : rows) more += int64_t(row.scores.size()) > c.params().top_k;
    EXPECT_EQ(more > 20, ties == ATTEST_TOP_K_ALL_TIES);
    const auto golden = softmax_operation().golden(c.problem, {"top_k_levels", 1}, c.tensors);
    golden->expect({}, [&](const Expected& e) {
      for (size_t r = 0; r < e.rows.size(); ++r) {
        const BruteRow& row = rows.at(e.rows[r]);
        const std::vector<long double> o = brute.o(row, e.rows[r] / c.params().seq_len_q % 4);
        for (int64_t d = 0; d < e.width; ++d) {
          const double expected = double(e.role == ATTEST_O ? o[size_t(d)] : brute.lse(row)),
                       got = e.value[(e.shared ? 0 : r * size_t(e.width)) + size_t(d)];
          if (std::isfinite(expected))
            ASSERT_NEAR(got, expected, 1e-12) << "row " << e.rows[r];
          else
            ASSERT_EQ(got, expected);
        }
      }
    });
  }
}

struct Ratio {
  double largest = 0, rms = 0;
  bool within() const { return largest <= kLargestGate && rms <= kRmsGate; }
};
std::ostream& operator<<(std::ostream& to, const Ratio& r) {
  return to << r.largest << " sigmas, root mean square " << r.rms;
}

// The errors of O and LSE in sigmas where a kernel takes the problem for `wrong`.
Ratio ratio(const Case& c, const SoftmaxArithmetic& arithmetic, const EmulationStyle& style,
            const Problem& wrong) {
  const Arithmetic declared = arithmetic;
  const auto golden = softmax_operation().golden(c.problem, {c.name, 1}, c.tensors);
  const Params& p = c.params();
  std::vector<int64_t> rows(size_t(p.batch * p.num_heads * p.seq_len_q));
  std::iota(rows.begin(), rows.end(), int64_t(0));
  std::map<std::pair<int32_t, int64_t>, std::vector<double>> got;
  emulate_softmax(wrong, c.tensors, arithmetic, style, rows,
                  [&](int32_t role, int64_t row, std::span<const double> values) {
                    got[{role, row}].assign(values.begin(), values.end());
                  });
  Ratio found;
  double squares = 0, count = 0;
  golden->expect(declared, [&](const Expected& e) {
    for (size_t r = 0; r < e.rows.size(); ++r)
      for (size_t d = 0; d < size_t(e.width); ++d) {
        const size_t at = (e.shared ? 0 : r * size_t(e.width)) + d;
        const double error = got.at({e.role, e.rows[r]})[d] - e.value[at];
        found.largest = std::max(found.largest, std::fabs(error) / e.sigma[at]);
        squares += error * error / (e.sigma[at] * e.sigma[at]);
        ++count;
      }
  });
  found.rms = std::sqrt(squares / count);
  return found;
}

SoftmaxArithmetic f32() { return {}; }
SoftmaxArithmetic brain_operands() { return {.qk = ATTEST_BF16}; }
SoftmaxArithmetic half_scores() { return {.score = ATTEST_F16}; }

TEST(TopK, KeysThatRoundingSwapsPass) {
  for (const int32_t ties : {ATTEST_TOP_K_FIRST, ATTEST_TOP_K_ALL_TIES})
    for (const char* fill : {"random", "top_k_levels", "top_k_close"})
      for (const SoftmaxArithmetic& arithmetic : {f32(), brain_operands(), half_scores()}) {
        const Case c = dense(fill, 300, 16, ties);
        for (const EmulationStyle& style :
             {EmulationStyle{}, EmulationStyle{.reversed = true, .mixed_orders = true},
              EmulationStyle{.scale = ScalePlace::kQueriesBase2}}) {
          const Ratio r = ratio(c, arithmetic, style, c.problem);
          EXPECT_TRUE(r.within()) << fill << " ties " << ties << ": " << r;
        }
      }
}

// Under a softcap, coarse rounding makes the level of the edge and the next level equal: the key at
// the edge may go, too, though equal logits are equal in every kernel.
TEST(TopK, KeysOfCloseLevelsSwap) {
  for (const int64_t keys : {8, 40}) {
    const Case c = filled(make_case(
                              "top_k_levels",
                              [&](Params& p) {
                                p.num_heads = 4;
                                p.seq_len_q = 61;
                                p.seq_len_kv = keys;
                                p.head_dim = 32;
                                p.top_k = 1;
                                p.softcap = 0.6f;
                              },
                              {ATTEST_LSE, ATTEST_BIAS}, ATTEST_F32),
                          "top_k_levels");
    const Ratio r = ratio(c, half_scores(), {}, c.problem);
    EXPECT_TRUE(r.within()) << keys << ": " << r;
  }
}

// Without the term a swap fails, and swaps happen: the products of top_k_close are summed in
// another order.
TEST(TopK, SwapsNeedTheirTerm) {
  for (const int32_t ties : {ATTEST_TOP_K_FIRST, ATTEST_TOP_K_ALL_TIES}) {
    const Case c = dense("top_k_close", 300, 14, ties);
    const ScopedTermFactor without(SigmaTerm::kSwapped, 0);
    const Ratio r = ratio(c, f32(), {.mixed_orders = true}, c.problem);
    EXPECT_GT(r.largest, 100) << "ties " << ties;
  }
}

// Even with eight times the term, where edges are clear, and whatever scores are rounded to.
TEST(TopK, WrongKeysFail) {
  const ScopedTermFactor larger(SigmaTerm::kSwapped, 8);
  for (const DType dtype : {ATTEST_F32, ATTEST_F16, ATTEST_BF16})
    for (const auto& [keys, top_k] : {std::pair<int64_t, int64_t>(61, 7), {515, 32}})
      for (const SoftmaxArithmetic& arithmetic : {f32(), brain_operands(), half_scores()}) {
        const Case c = dense("top_k_levels", keys, top_k, ATTEST_TOP_K_FIRST, dtype);
        for (const int64_t off : {-1, 1}) {
          Problem wrong = c.problem;
          wrong.as<Params>().top_k += off;
          SoftmaxArithmetic stored = arithmetic;
          stored.output = dtype;
          const Ratio r = ratio(c, stored, {}, wrong);
          EXPECT_FALSE(r.within()) << dtype_name(dtype) << " " << keys << " top_k off by " << off;
        }
        Problem wrong = c.problem;
        wrong.as<Params>().top_k_ties = ATTEST_TOP_K_ALL_TIES;
        EXPECT_FALSE(ratio(c, arithmetic, {}, wrong).within()) << dtype_name(dtype) << " " << keys;
      }
}

// A row with a NaN among its logits is NaN, whichever keys would count.
TEST(TopK, NaNIsTheLargest) {
  const Case c = dense("random", 61, 5, ATTEST_TOP_K_FIRST);
  store(c.tensors[ATTEST_K].data, ATTEST_F32, 3, std::numeric_limits<double>::quiet_NaN());
  const auto golden = softmax_operation().golden(c.problem, {"random", 1}, c.tensors);
  int64_t rows = 0;
  golden->expect({}, [&](const Expected& e) {
    for (size_t r = 0; e.value && r < e.rows.size(); ++r) {
      if (e.role != ATTEST_O || e.rows[r] >= 61) continue;  // of the first head
      ++rows;
      EXPECT_TRUE(std::isnan(e.value[r * size_t(e.width)]));
    }
  });
  EXPECT_EQ(rows, 61);
}

// NaN and infinities in V show in the rows alone in which their keys count; all rows of the other
// head see a key that is NaN.
TEST(TopK, WildValuesOfOtherKeysDoNotLeak) {
  const Case c = dense("top_k_wild", 61, 9, ATTEST_TOP_K_FIRST);
  int64_t wild = 0, calm = 0;
  softmax_operation()
      .golden(c.problem, {"top_k_wild", 1}, c.tensors)
      ->expect({}, [&](const Expected& e) {
        for (size_t r = 0; e.role == ATTEST_O && r < e.rows.size(); ++r) {
          bool is_wild = false;
          for (size_t d = 0; d < size_t(e.width); ++d)
            is_wild |= !std::isfinite(e.value[r * size_t(e.width) + d]);
          ++(is_wild ? wild : calm);
        }
      });
  EXPECT_GT(wild, 61 + 20);
  EXPECT_GT(calm, 10);
}

struct NotNumbers {
  // Elements that may be NaN, the same of channels without one, and elements that must be NaN
  int64_t unsure = 0, unsure_of_other_channels = 0, sure = 0;
  int64_t differing = 0;  // elements that a kernel makes NaN although they are numbers, or reverse
};

// Keys come in groups of four whose scores differ by rounding alone. One of four has a NaN in one
// channel of head 0.
NotNumbers not_numbers(int64_t top_k, double term) {
  const Case c = dense("top_k_close", 300, top_k, ATTEST_TOP_K_FIRST);
  const Tensor& v = c.tensors[ATTEST_V];
  for (int64_t key = 0; key < 300; key += 4)
    store(v.data, ATTEST_F32, key * v.spec.stride[2] + 2, std::numeric_limits<double>::quiet_NaN());
  const ScopedTermFactor factor(SigmaTerm::kSwapped, term);
  std::vector<int64_t> rows(2 * 61);
  std::iota(rows.begin(), rows.end(), int64_t(0));
  std::map<int64_t, std::vector<double>> got;
  emulate_softmax(c.problem, c.tensors, f32(), {.mixed_orders = true}, rows,
                  [&](int32_t role, int64_t row, std::span<const double> values) {
                    if (role == ATTEST_O) got[row].assign(values.begin(), values.end());
                  });
  NotNumbers found;
  const auto golden = softmax_operation().golden(c.problem, {c.name, 1}, c.tensors);
  golden->expect(Arithmetic(f32()), [&](const Expected& e) {
    for (size_t n = 0; e.role == ATTEST_O && n < e.rows.size() * size_t(e.width); ++n) {
      const auto row = e.rows[n / size_t(e.width)];
      const size_t channel = n % size_t(e.width);
      const bool unsure = e.sigma[n] == kUnsure, nan = std::isnan(e.value[n]);
      found.unsure += unsure;
      found.unsure_of_other_channels += unsure && (channel != 2 || row >= 61);
      found.sure += !unsure && nan;
      found.differing += !unsure && nan != std::isnan(got.at(row)[channel]);
    }
  });
  return found;
}

// Rounding decides which two of four keys count, and whether the NaN does.
TEST(TopK, ANaNNearTheEdgeMayComeOrGo) {
  const NotNumbers with = not_numbers(2, 1), without = not_numbers(2, 0);
  EXPECT_EQ(with.unsure, 61);
  EXPECT_EQ(with.unsure_of_other_channels, 0);
  EXPECT_EQ(with.differing, 0);
  EXPECT_EQ(without.unsure, 0);
  EXPECT_GT(without.differing, 0);
}

// Four of six keys count in any case, and one of them has a NaN.
TEST(TopK, ANaNThatCountsInAnyCaseIsNotExcusedByOneNearTheEdge) {
  const NotNumbers found = not_numbers(6, 1);
  EXPECT_EQ(found.unsure, 0);
  EXPECT_EQ(found.sure, 61);
  EXPECT_EQ(found.differing, 0);
}

TEST(TopK, FillsAreRefusedWithoutTopK) {
  const Case c = make_case("", [](Params&) {});
  EXPECT_THAT([&] { softmax_operation().fill(c.problem, {"top_k_levels", 1}, c.tensors, false); },
              ::testing::ThrowsMessage<Error>(::testing::HasSubstr("give top_k")));
}

}  // namespace
}  // namespace attest::core
