// The golden against brute force in long double on problems that use every feature; coverage; NaN;
// decoys.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <mutex>

#include "core/operations/softmax/golden/row_plan.hpp"
#include "core/operations/softmax/testing/all_cases.hpp"
#include "core/operations/softmax/testing/brute_force.hpp"
#include "core/tensor/dtype.hpp"
#include "core/tensor/random.hpp"

namespace attest::core {
namespace {

using testing::Brute;
using testing::BruteRow;
using testing::Case;
using testing::make_case;
using Params = attest_softmax_params;

// What a golden said, by role and output row.
struct Said {
  struct Row {
    std::vector<double> value, sigma, low, high;
  };
  std::map<int64_t, Row> exact[2], swept[2];  // O, LSE
  int repeated = 0;

  Said(const Golden& golden, const SoftmaxArithmetic& arithmetic) {
    std::mutex lock;
    golden.expect(arithmetic, [&](const Expected& e) {
      const std::lock_guard guard(lock);
      for (size_t r = 0; r < e.rows.size(); ++r) {
        const size_t at = e.shared ? 0 : r * size_t(e.width);
        auto slice = [&](const double* x) {
          return x ? std::vector<double>(x + at, x + at + e.width) : std::vector<double>();
        };
        auto& table = (e.value ? exact : swept)[e.role == ATTEST_LSE];
        repeated +=
            !table
                 .insert({e.rows[r], {slice(e.value), slice(e.sigma), slice(e.low), slice(e.high)}})
                 .second;
      }
    });
  }
};

std::unique_ptr<Golden> golden_of(const Case& c) {
  return softmax_operation().golden(c.problem, {"random", 1}, c.tensors);
}

// Scores that biases bring to -40,960 lose 13 bits of float64.
double tolerance(const Case& c) { return c.tensors[ATTEST_BIAS] ? 2e-11 : 1e-12; }

bool agree(double a, long double b, double tolerance) {
  if (std::isinf(b)) return a == double(b);
  return std::fabs(a - double(b)) <= tolerance * std::max(1.0, std::fabs(double(b)));
}

TEST(SoftmaxGolden, AgreesWithBruteForceOnEveryFeature) {
  for (const Case& c : testing::all_cases()) {
    const Brute brute(c);
    const auto golden = golden_of(c);
    EXPECT_EQ(golden->method(), "float64, all rows") << c.name;
    const Said said(*golden, {});
    const std::map<int64_t, BruteRow> rows = brute.rows();
    ASSERT_EQ(said.exact[0].size(), rows.size()) << c.name;
    EXPECT_EQ(said.repeated, 0) << c.name;
    const int64_t places = c.problem.tensor[ATTEST_Q].dim[2];
    for (const auto& [row, expected] : rows) {
      const Said::Row& got = said.exact[0].at(row);
      const std::vector<long double> o = brute.o(expected, row / places % c.params().num_heads);
      for (int64_t d = 0; d < c.params().head_dim_v; ++d) {
        ASSERT_TRUE(agree(got.value[size_t(d)], o[size_t(d)], tolerance(c)))
            << c.name << " row " << row << " channel " << d;
        ASSERT_GT(got.sigma[size_t(d)], 0) << c.name;
      }
      if (!c.tensors[ATTEST_LSE]) continue;
      ASSERT_TRUE(agree(said.exact[1].at(row).value[0], brute.lse(expected), tolerance(c)))
          << c.name << " row " << row;
    }
  }
}

TEST(SoftmaxGolden, SampledRowsAgreeWithAllRows) {
  // 16,384 keys a row: too much for all rows of two heads of 16,384 queries, little for the first
  // 600 of them.
  auto set = [](Params& p) {
    p.seq_len_q = 16384;
    p.num_heads = 1;
    p.head_dim = 16;
  };
  const Case large = make_case("large", set, {ATTEST_LSE}, ATTEST_F16);
  const auto sampled = golden_of(large);
  EXPECT_EQ(sampled->method(), "float64, 256 of 16384 rows a head");
  Case small = make_case(
      "small",
      [&](Params& p) {
        set(p);
        p.seq_len_q = 600;
        p.seq_len_kv = 16384;
      },
      {ATTEST_LSE}, ATTEST_F16);
  for (const int32_t role : {ATTEST_Q, ATTEST_K, ATTEST_V})
    std::memcpy(small.memory[size_t(role)].data(), large.memory[size_t(role)].data(),
                small.memory[size_t(role)].size());
  const auto all = golden_of(small);
  EXPECT_EQ(all->method(), "float64, all rows");
  SoftmaxArithmetic arithmetic{.probability = ATTEST_F16, .output = ATTEST_F16};
  const Said some(*sampled, arithmetic), every(*all, arithmetic);
  int compared = 0;
  for (const auto& [row, got] : some.exact[0]) {
    if (row >= 600) break;
    ++compared;
    for (size_t d = 0; d < 16; ++d) {
      ASSERT_NEAR(got.value[d], every.exact[0].at(row).value[d], 1e-15);
      ASSERT_NEAR(got.sigma[d], every.exact[0].at(row).sigma[d], 1e-9 * got.sigma[d]);
    }
    ASSERT_NEAR(some.exact[1].at(row).value[0], every.exact[1].at(row).value[0], 1e-13);
  }
  EXPECT_GE(compared, 10);
}

// The first and last rows, every head and sequence are judged exactly; every row is swept or exact.
TEST(SoftmaxGolden, SamplesAreSpreadAndSweepsCoverTheRest) {
  const Case c = make_case("packed",
                           [](Params& p) {
                             p.batch = 3;
                             p.num_heads = 4;
                             p.num_kv_heads = 2;
                             p.seq_len_q = 9000;
                             p.window_right = 0;
                             p.diagonal = 1;
                             p.head_dim = 32;
                           },
                           {ATTEST_CU_SEQLENS_Q, ATTEST_CU_SEQLENS_KV, ATTEST_LSE});
  const auto golden = golden_of(c);
  ASSERT_THAT(golden->method(), ::testing::HasSubstr("of 9000 rows a head"));
  const Said said(*golden, {});
  const Geometry geometry(c.problem, c.tensors);
  for (int64_t b = 0; b < 3; ++b)
    for (int64_t h = 0; h < 4; ++h) {
      const int64_t length = geometry.length_q(b);
      if (length == 0) continue;
      EXPECT_TRUE(said.exact[0].contains(geometry.output_row(b, h, 0)));
      EXPECT_TRUE(said.exact[0].contains(geometry.output_row(b, h, length - 1)));
    }
  EXPECT_EQ(said.repeated, 0);
  const int64_t rows = row_count(c.problem.tensor[ATTEST_O], 3);
  for (int64_t row = 0; row < rows; ++row)
    for (const int lse : {0, 1})
      ASSERT_TRUE(said.swept[lse].contains(row) || said.exact[lse].contains(row)) << row;
  // Exact values lie within their sweeps.
  for (const auto& [row, exact] : said.exact[0]) {
    if (!said.swept[0].contains(row)) continue;
    const Said::Row& bounds = said.swept[0].at(row);
    for (size_t d = 0; d < exact.value.size(); ++d)
      ASSERT_TRUE(exact.value[d] >= bounds.low[d] && exact.value[d] <= bounds.high[d]);
  }
  // Poison and a value that nothing could average are outside.
  const Said::Row& bounds = said.swept[0].begin()->second;
  EXPECT_TRUE(std::isfinite(bounds.low[0]) && std::isfinite(bounds.high[0]));
  EXPECT_LT(bounds.high[0], 6);
}

TEST(SoftmaxGolden, RowsThatSeeNothingAreExactlyZeroInLargeProblemsToo) {
  const Case c = make_case("empty rows",
                           [](Params& p) {
                             p.seq_len_q = 20000;
                             p.seq_len_kv = 15000;
                             p.window_right = 0;
                             p.diagonal = 1;
                             p.num_heads = 1;
                             p.head_dim = 16;
                           },
                           {ATTEST_LSE});
  const Said said(*golden_of(c), {});
  for (int64_t row = 0; row < 5000; ++row) {
    ASSERT_TRUE(said.exact[0].contains(row)) << row;
    ASSERT_EQ(said.exact[0].at(row).value[3], 0);
    ASSERT_EQ(said.exact[1].at(row).value[0], -std::numeric_limits<double>::infinity());
    ASSERT_LT(said.exact[0].at(row).sigma[3], 1e-40);
  }
  EXPECT_TRUE(said.swept[0].contains(5000));
}

TEST(SoftmaxGolden, NaNReachesThoseWhoSeeItAndNobodyElse) {
  for (const double wild : {std::nan(""), std::numeric_limits<double>::infinity()}) {
    Case c = make_case("mask", [](Params&) {}, {ATTEST_MASK, ATTEST_LSE});
    const int64_t key = 5, channel = 2;
    auto put = [&](int32_t role, int64_t h, int64_t row, int64_t d) {
      store(c.tensors[size_t(role)].data, ATTEST_F32, (h * 37 + row) * 8 + d, wild);
    };
    put(ATTEST_V, 0, key, channel);
    put(ATTEST_K, 1, key, 0);
    put(ATTEST_Q, 0, 7, 0);
    const Said said(*golden_of(c), {});
    for (int64_t h = 0; h < 2; ++h)
      for (int64_t i = 0; i < 37; ++i) {
        const bool sees = c.tensors[ATTEST_MASK].at({0, h, i, key}) != 0;
        const Said::Row& row = said.exact[0].at(h * 37 + i);
        bool blind = true;
        for (int64_t j = 0; j < 37; ++j) blind &= c.tensors[ATTEST_MASK].at({0, h, i, j}) == 0;
        if (blind) {
          for (const double x : row.value) ASSERT_EQ(x, 0) << h << " " << i;
        } else if (h == 0 && i != 7) {
          ASSERT_EQ(std::isfinite(row.value[channel]), !sees) << i;
          ASSERT_TRUE(std::isfinite(row.value[channel + 1]));
        } else if (h == 0) {
          ASSERT_TRUE(std::isnan(row.value[0]));
        } else if (!sees) {
          ASSERT_TRUE(std::isfinite(row.value[0])) << i;
        } else if (std::isnan(wild)) {
          ASSERT_TRUE(std::isnan(row.value[0]) && std::isnan(said.exact[1].at(h * 37 + i).value[0]))
              << i;
        }
      }
  }
}

TEST(SoftmaxGolden, SweepsGiveUpOnlyWhereNaNIs) {
  Case c = make_case("large", [](Params& p) {
    p.seq_len_q = 16384;
    p.num_heads = 2;
    p.head_dim = 16;
  });
  store(c.tensors[ATTEST_V].data, ATTEST_F32, 100 * 16 + 3, std::nan(""));
  store(c.tensors[ATTEST_Q].data, ATTEST_F32, (16384 + 50) * 16, std::nan(""));
  const auto golden = golden_of(c);
  EXPECT_EQ(golden->method(),
            "float64, 256 of 16384 rows a head, 1 channels with NaN or Inf not swept");
  const Said said(*golden, {});
  EXPECT_TRUE(std::isnan(said.swept[0].at(9).low[3]));
  EXPECT_FALSE(std::isnan(said.swept[0].at(9).low[4]));
  EXPECT_FALSE(std::isnan(said.swept[0].at(16384 + 9).low[3]));
  EXPECT_TRUE(std::isnan(said.swept[0].at(16384 + 50).low[4]));
}

// Rows of "wide" whose logits are far from 0: of those near -1e8, where scores are lost beside the
// biases, an average is asked for, and nothing of arithmetic that does not hold them. In samples,
// too.
TEST(SoftmaxGolden, FarBiasesLeaveWhatTheArithmeticHolds) {
  for (const int64_t rows : {40, 1300}) {
    Case c = make_case(
        "wide",
        [=](Params& p) {
          p.seq_len_q = rows;
          p.head_dim = 32;
        },
        {ATTEST_BIAS, ATTEST_LSE}, ATTEST_F32);
    softmax_operation().fill(c.problem, {"wide", 1}, c.tensors, false);
    const auto golden = softmax_operation().golden(c.problem, {"wide", 1}, c.tensors);
    const Said f32(*golden, SoftmaxArithmetic{}),
        f16(*golden, SoftmaxArithmetic{.score = ATTEST_F16}),
        by_lse(*golden, SoftmaxArithmetic{.ways = ATTEST_WEIGHS_BY_LSE});
    EXPECT_EQ(f32.exact[0].size() < size_t(2 * rows - 6), rows > 1000) << "a sample";
    int64_t below_f16 = 0, below_scores = 0;
    for (const auto& [row, lse] : f32.exact[1]) {
      const double value = lse.value[0];  // near the row's largest logit
      if (std::fabs(value) * M_LOG2E < 65504) {
        EXPECT_TRUE(f16.exact[0].contains(row) && by_lse.exact[0].contains(row));
        continue;
      }
      EXPECT_TRUE(std::isnan(f16.swept[0].at(row).low[0]) &&
                  std::isnan(f16.swept[1].at(row).low[0]));
      EXPECT_FALSE(f16.exact[0].contains(row) || f16.exact[1].contains(row));
      if (value > -1e6) {
        below_f16 += value < 0;
        EXPECT_TRUE(f32.exact[0].contains(row));
        continue;
      }
      ++below_scores;
      EXPECT_FALSE(f32.exact[0].contains(row));
      EXPECT_TRUE(std::isnan(by_lse.swept[0].at(row).low[0]));
      EXPECT_GT(f32.swept[0].at(row).low[0], 0.99);
    }
    EXPECT_GE(below_f16, 2);
    EXPECT_GE(below_scores, 2);
  }
}

// Of rows that see the lowest number alone nothing is asked: in base 2 it is -inf.
TEST(SoftmaxGolden, RowsOfTheLowestBiasAreNotJudged) {
  Case c = make_case("bias", [](Params&) {}, {ATTEST_BIAS}, ATTEST_BF16);
  c.fill();
  for (int64_t j = 0; j < 37; ++j)
    store(c.tensors[ATTEST_BIAS].data, ATTEST_BF16, 5 * 37 + j, -largest_finite(ATTEST_BF16));
  const Said said(*golden_of(c), {});
  EXPECT_TRUE(std::isnan(said.swept[0].at(5).low[0]));
  EXPECT_FALSE(said.exact[0].contains(5));
  EXPECT_TRUE(said.exact[0].contains(6));
}

// Same answers whatever order they are asked in, and with one thread's worth of calls in between.
TEST(SoftmaxGolden, AnswersDoNotChange) {
  const Case c = make_case("dense", [](Params& p) { p.seq_len_q = 300; }, {ATTEST_LSE}, ATTEST_F16);
  const auto golden = golden_of(c), again = golden_of(c);
  const SoftmaxArithmetic f32{}, f16{.probability = ATTEST_F16, .output = ATTEST_F16};
  const Said first(*golden, f32), second(*golden, f16), third(*golden, f32), fourth(*again, f16);
  for (const auto& [row, said] : first.exact[0]) {
    ASSERT_EQ(said.value, third.exact[0].at(row).value);
    ASSERT_EQ(said.sigma, third.exact[0].at(row).sigma);
    ASSERT_EQ(said.value, fourth.exact[0].at(row).value);
    ASSERT_EQ(second.exact[0].at(row).sigma, fourth.exact[0].at(row).sigma);
    ASSERT_GT(second.exact[0].at(row).sigma[0], said.sigma[0]);
  }
}

}  // namespace
}  // namespace attest::core
