// Q, K and V in 8 bits: what they stand for, factors that are none, and inputs whose codes show
// every decoder that errs.
#include "core/operations/softmax/problem/dequantised.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <map>
#include <mutex>
#include <numeric>
#include <set>
#include <utility>

#include "core/operations/softmax/sigma/sigma.hpp"
#include "core/operations/softmax/testing/make_case.hpp"
#include "core/tensor/error.hpp"

namespace attest::core {
namespace {

using testing::Case;
using testing::make_case;
using Params = attest_softmax_params;

const std::vector<int32_t> kFactors{ATTEST_Q_DESCALE, ATTEST_K_DESCALE, ATTEST_V_DESCALE};

Case blocks(DType f8 = ATTEST_F8E4M3) {
  return make_case(
      "blocks",
      [](Params& p) {
        p.batch = 2;
        p.num_heads = 4;
        p.num_kv_heads = 2;
        p.seq_len_kv = 23;
        p.descale_block_q = 8;
        p.descale_block_kv = 10;
      },
      kFactors, ATTEST_F16, f8);
}

TEST(Dequantised, IsEachNumberTimesItsFactor) {
  const Case c = blocks();
  const Dequantised wide(c.problem, c.tensors);
  EXPECT_EQ(wide.problem().as<Params>().descale_block_kv, 0);
  for (const auto& [role, factors] : kStoredRoles) {
    EXPECT_FALSE(wide.problem().has(factors));
    const Tensor &stored = c.tensors[size_t(role)], &number = wide.tensors()[size_t(role)];
    EXPECT_EQ(number.spec.dtype, ATTEST_F64);
    const int64_t block = role == ATTEST_Q ? 8 : 10;
    for (int64_t b = 0; b < 2; ++b)
      for (int64_t h = 0; h < stored.spec.dim[1]; ++h)
        for (int64_t i = 0; i < stored.spec.dim[2]; ++i)
          for (int64_t d = 0; d < stored.spec.dim[3]; ++d)
            ASSERT_EQ(number.at({b, h, i, d}),
                      stored.at({b, h, i, d}) * c.tensors[size_t(factors)].at({b, h, i / block}));
  }
}

TEST(Dequantised, HasOneFactorForAllWhereOneIsGiven) {
  Case c = testing::broadcast(blocks(), ATTEST_K_DESCALE, {0, 1, 2});
  const float seven = 7;
  std::memcpy(c.memory[ATTEST_K_DESCALE].data(), &seven, 4);
  const Dequantised wide(c.problem, c.tensors);
  EXPECT_EQ(wide.tensors()[ATTEST_K].at({1, 1, 22, 7}), 7 * c.tensors[ATTEST_K].at({1, 1, 22, 7}));
}

// A factor of 0 loses the tensor, and one that is NaN or infinite makes outputs NaN.
TEST(Dequantised, RefusesFactorsThatAreNone) {
  for (const int32_t role : kFactors)
    for (const double factor : {0.0, -1.0, double(NAN), double(INFINITY)}) {
      const Case c = blocks();
      const Tensor& factors = c.tensors[size_t(role)];
      const auto& dim = factors.spec.dim;
      store(factors.data, ATTEST_F32, (dim[1] + 1) * dim[2] + 1, factor);
      const std::string name = find_role(*c.problem.operation, role)->name;
      try {
        softmax_operation().golden(c.problem, {"random", 1}, c.tensors);
        ADD_FAILURE() << name << ": " << factor << " is taken";
      } catch (const Error& error) {
        EXPECT_THAT(error.what(), ::testing::HasSubstr(name + "[1,1,1]: "));
        EXPECT_THAT(error.what(), ::testing::HasSubstr("must be finite and above 0"));
        EXPECT_THAT(error.what(), ::testing::HasSubstr("leave " + name + " out where it is 1"));
      }
    }
}

// Neighbours differ by much more than any rounding, and so do the factors of K and V.
TEST(F8Fills, FactorsOfNeighboursDiffer) {
  const Case c = blocks();
  softmax_operation().fill(c.problem, {"f8_bands", 1}, c.tensors, false);
  const auto apart = [](double a, double b) { return std::fabs(std::log2(a / b)) > 0.09; };
  for (const int32_t role : kFactors) {
    const Tensor& factors = c.tensors[size_t(role)];
    for (int64_t h = 0; h < factors.spec.dim[1]; ++h)
      for (int64_t n = 0; n + 1 < factors.spec.dim[2]; ++n) {
        EXPECT_TRUE(apart(factors.at({0, h, n}), factors.at({0, h, n + 1}))) << role;
        EXPECT_TRUE(apart(factors.at({0, h, n}), factors.at({1, h, n}))) << role;
        EXPECT_TRUE(apart(factors.at({0, h, n}), factors.at({0, (h + 1) % 2, n}))) << role;
        EXPECT_TRUE(factors.at({0, h, n}) > 0.5 && factors.at({0, h, n}) < 1.6);
        EXPECT_TRUE(apart(factors.at({0, h, n}), 1)) << factors.at({0, h, n});
      }
  }
  EXPECT_TRUE(
      apart(c.tensors[ATTEST_K_DESCALE].at({0, 0, 0}), c.tensors[ATTEST_V_DESCALE].at({0, 0, 0})));
}

// "random" stores what scaling by the largest number makes: numbers up to the largest code, with
// every mantissa, and factors that are small. They stand for normal numbers.
TEST(F8Fills, RandomHasTheCodesAndFactorsOfScaling) {
  for (const DType f8 : {ATTEST_F8E4M3, ATTEST_F8E5M2}) {
    const Case c = blocks(f8);
    const Dequantised wide(c.problem, c.tensors);
    for (const StoredRole& stored : kStoredRoles) {
      const Tensor &codes = c.tensors[size_t(stored.role)],
                   &numbers = wide.tensors()[size_t(stored.role)];
      double largest = 0, squares = 0;
      std::set<double> mantissas;
      for (int64_t n = 0; n < element_count(codes.spec); ++n) {
        const double code = std::fabs(load(codes.data, f8, n));
        largest = std::max(largest, code);
        int exponent = 0;
        if (code > 1) mantissas.insert(std::frexp(code, &exponent));
        squares += std::pow(load(numbers.data, ATTEST_F64, n), 2);
      }
      EXPECT_GT(largest, largest_finite(f8) / 2);
      EXPECT_EQ(mantissas.size(), f8 == ATTEST_F8E4M3 ? 8u : 4u);
      EXPECT_NEAR(std::sqrt(squares / double(element_count(codes.spec))), 1, 0.5);
      const double factor = c.tensors[size_t(stored.factors)].at({0, 0, 0}) * largest_finite(f8);
      EXPECT_TRUE(factor > 0.5 * 3.5 && factor < 1.6 * 3.5) << factor;
    }
  }
}

// Hidden keys that a stored -10,000 would show are in "random" alone, whose factors are small.
TEST(F8Events, NeedTheFactorsOfScaling) {
  for (const DType f8 : {ATTEST_F8E4M3, ATTEST_F8E5M2}) {
    std::vector<int32_t> roles(kFactors.begin(), kFactors.end());
    roles.push_back(ATTEST_MASK);
    const Case c = make_case(
        "",
        [](Params& p) {
          p.seq_len_q = p.seq_len_kv = 61;
          p.head_dim = 16;
        },
        roles, ATTEST_F16, f8);
    const std::vector<bool> all(size_t(row_count(c.problem.tensor[ATTEST_O], 3)), true);
    std::set<std::string> listed;
    for (const NumericEvent& event : softmax_operation().events(c.problem)) {
      EXPECT_EQ(event.why_not, "");
      listed.insert(event.name);
    }
    EXPECT_EQ(listed.size(), 3u);
    for (const std::string& fill : softmax_operation().fills(c.problem)) {
      softmax_operation().fill(c.problem, {fill, 1}, c.tensors, false);
      const auto found = softmax_operation().count_events(c.problem, c.tensors, all);
      if (fill == "random")
        EXPECT_EQ(found, listed);
      else
        EXPECT_FALSE(found.contains("f8/hidden/-10000")) << fill;
    }
  }
}

// The largest error of an lse, in sigmas, of a kernel that multiplies all of Q and K by `factor`
// and rounds the products to bf16, where every stored number is 1.25.
double error_of_lse(DType f8, float factor) {
  const Case c = make_case(
      "",
      [](Params& p) {
        p.seq_len_q = 3;
        p.head_dim = 64;
      },
      {ATTEST_Q_DESCALE, ATTEST_K_DESCALE, ATTEST_LSE}, ATTEST_F32, f8);
  for (const int32_t role : {ATTEST_Q, ATTEST_K}) {
    const Tensor &numbers = c.tensors[size_t(role)],
                 &factors =
                     c.tensors[size_t(role == ATTEST_Q ? ATTEST_Q_DESCALE : ATTEST_K_DESCALE)];
    for (int64_t n = 0; n < element_count(numbers.spec); ++n) store(numbers.data, f8, n, 1.25);
    for (int64_t n = 0; n < element_count(factors.spec); ++n)
      store(factors.data, ATTEST_F32, n, double(factor));
  }
  const Arithmetic brain = SoftmaxArithmetic{.qk = ATTEST_BF16};
  std::vector<int64_t> rows(6);
  std::iota(rows.begin(), rows.end(), int64_t{0});
  std::map<int64_t, double> got;
  softmax_operation().emulate(c.problem, c.tensors, brain, 0, rows,
                              [&](int32_t role, int64_t row, std::span<const double> values) {
                                if (role == ATTEST_LSE) got[row] = values[0];
                              });
  double largest = 0;
  softmax_operation()
      .golden(c.problem, {"tokens", 1}, c.tensors)
      ->expect(brain, [&](const Expected& e) {
        for (size_t r = 0; e.role == ATTEST_LSE && r < e.rows.size(); ++r)
          largest = std::max(largest, std::fabs(got.at(e.rows[r]) - e.value[r]) / e.sigma[r]);
      });
  return largest;
}

// All products with a factor round alike: sigma needs a term for that, and no larger one.
TEST(F8Sigma, CoversRoundingsThatRepeatInEveryChannel) {
  double with = 0, without = 0;
  for (const DType f8 : {ATTEST_F8E4M3, ATTEST_F8E5M2})
    for (float factor = 1.001f; factor < 2; factor += 0.03f) {
      with = std::max(with, error_of_lse(f8, factor));
      const ScopedTermFactor<SigmaTerm> dropped(SigmaTerm::kFoldedScale, 0);
      without = std::max(without, error_of_lse(f8, factor));
    }
  EXPECT_LT(with, SigmaModel::kGate);
  EXPECT_GT(with, 0.2 * SigmaModel::kGate);
  EXPECT_GT(without, SigmaModel::kGate);
}

// The sigma of each element of O and LSE, by role and index.
std::map<std::pair<int32_t, int64_t>, double> sigmas(const Case& c, DType qk) {
  std::map<std::pair<int32_t, int64_t>, double> all;
  std::mutex mutex;
  softmax_operation()
      .golden(c.problem, {"random", 1}, c.tensors)
      ->expect(SoftmaxArithmetic{.qk = qk}, [&](const Expected& e) {
        const std::lock_guard lock(mutex);
        for (size_t r = 0; e.value && r < e.rows.size(); ++r)
          for (int64_t d = 0; d < e.width; ++d)
            all[{e.role, e.rows[r] * e.width + d}] = e.sigma[int64_t(r) * e.width + d];
      });
  return all;
}

// Products of stored numbers are exact: a QK in their 8 bits is judged as float32, with factors and
// without. In the other 8 bits numbers are rounded.
TEST(F8Sigma, OfStoredOperandsIsThatOfFloat32) {
  for (const bool factors : {true, false}) {
    std::vector<int32_t> roles{ATTEST_LSE};
    if (factors) roles.insert(roles.end(), kFactors.begin(), kFactors.end());
    const Case c =
        make_case("", [](Params& p) { p.seq_len_q = 7; }, roles, ATTEST_F32, ATTEST_F8E4M3);
    const auto single = sigmas(c, ATTEST_F32), coarse = sigmas(c, ATTEST_F8E5M2);
    EXPECT_EQ(sigmas(c, ATTEST_F8E4M3), single);
    EXPECT_FALSE(single.empty());
    for (const auto& [element, sigma] : single) EXPECT_GT(coarse.at(element), 100 * sigma);
    EXPECT_EQ(softmax_operation().kernels(c.problem, SoftmaxArithmetic{.qk = ATTEST_F8E4M3}), 1);
  }
}

std::set<int> codes_of(const Tensor& tensor) {
  std::set<int> codes;
  const auto* bytes = static_cast<const uint8_t*>(tensor.data);
  for (int64_t n = 0; n < element_count(tensor.spec); ++n) codes.insert(bytes[n]);
  return codes;
}

// All 256 but those that are no numbers, and -0; values stay below what an output in f16 holds.
TEST(F8Fills, BandsHaveEveryCode) {
  for (const DType f8 : {ATTEST_F8E4M3, ATTEST_F8E5M2}) {
    // One key of a sequence has the largest values of a head.
    const Case c = make_case(
        "",
        [](Params& p) {
          p.batch = 40;
          p.seq_len_q = 60;
          p.head_dim = 32;
        },
        {}, ATTEST_F32, f8);
    softmax_operation().fill(c.problem, {"f8_bands", 1}, c.tensors, false);
    const size_t numbers = f8 == ATTEST_F8E4M3 ? 254 : 248;
    EXPECT_GE(codes_of(c.tensors[ATTEST_K]).size(), numbers);
    EXPECT_GE(codes_of(c.tensors[ATTEST_V]).size(), numbers);
    EXPECT_GE(codes_of(c.tensors[ATTEST_Q]).size(), numbers - 20);
  }
}

// A kernel may multiply by factors and sum in f16, with weights of up to 1.
TEST(F8Fills, BandsStayInTheRangeOfF16) {
  for (const DType f8 : {ATTEST_F8E4M3, ATTEST_F8E5M2})
    for (const int64_t keys : {1, 61, 1021, 16411})
      for (const bool factors : {true, false}) {
        const Case c = make_case(
            "",
            [=](Params& p) {
              p.seq_len_q = p.seq_len_kv = keys;
              p.head_dim = 32;
            },
            factors ? kFactors : std::vector<int32_t>{}, ATTEST_F32, f8);
        softmax_operation().fill(c.problem, {"f8_bands", 1}, c.tensors, false);
        const double largest = factors ? 1.6 : 1;
        for (const int32_t role : {ATTEST_Q, ATTEST_K, ATTEST_V}) {
          const Tensor& tensor = c.tensors[size_t(role)];
          for (int64_t d = 0; d < 32; ++d) {
            double sum = 0, most = 0;
            for (int64_t j = 0; j < keys; ++j) {
              const double x = std::fabs(tensor.at({0, 0, j, d})) * largest;
              sum += x;
              most = std::max(most, x);
            }
            EXPECT_LE(role == ATTEST_V ? sum : most, 65504) << keys << " keys, channel " << d;
          }
        }
      }
}

// Scores are of size 1 in any format, so that every key counts.
TEST(F8Fills, BandsHaveModerateScores) {
  for (const DType f8 : {ATTEST_F8E4M3, ATTEST_F8E5M2})
    for (const int64_t head_dim : {1, 8, 32, 64}) {
      const Case c = make_case(
          "",
          [=](Params& p) {
            p.seq_len_q = 100;
            p.head_dim = head_dim;
          },
          {}, ATTEST_F16, f8);
      softmax_operation().fill(c.problem, {"f8_bands", 1}, c.tensors, false);
      double sum = 0;
      for (int64_t i = 0; i < 100; ++i) {
        double score = 0;
        for (int64_t d = 0; d < head_dim; ++d)
          score += c.tensors[ATTEST_Q].at({0, 1, i, d}) * c.tensors[ATTEST_K].at({0, 1, 99 - i, d});
        score *= double(c.params().softmax_scale);
        EXPECT_LT(std::fabs(score), 12);
        sum += score * score;
      }
      EXPECT_GT(sum / 100, head_dim == 1 ? 0.1 : 0.5);
    }
}

}  // namespace
}  // namespace attest::core
