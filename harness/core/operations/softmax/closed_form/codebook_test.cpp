// The codebook fill: its closed form against long double key by key.
#include "core/operations/softmax/closed_form/codebook.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "core/operations/numerics/rounding.hpp"
#include "core/operations/softmax/testing/codebook_trials.hpp"

namespace attest::core::codebook_trials {
namespace {

// Two clusters of 32 codes each, whose p are 1 and 0.61 ulps of an f16 sum: every second key is
// rounded up.
TEST(RepeatedVariance, KnowsClustersOfACoarseSum) {
  constexpr size_t kCodes = 64, kEach = 22;
  constexpr double kRoundoff = 0x1p-11, kKeys = kCodes * kEach;
  std::vector<double> p, count(kCodes, double(kEach));
  double total = 0, sum = 0;
  for (size_t g = 0; g < kCodes; ++g) {
    p.push_back((g % 2 ? 0.3056 : 1) * (1 - 1e-4 * double(g)));
    total += kEach * p[g];
  }
  for (size_t n = 0; n < kCodes * kEach; ++n) sum = core::rounded(sum + p[n % kCodes], ATTEST_F16);
  for (double& x : p) x /= total;
  const double clusters = codebook::repeated_variance(p, count, kRoundoff, kKeys, kKeys, total);
  const double sigma = std::sqrt(clusters + kRoundoff * kRoundoff * kKeys / 3);
  const double share = std::fabs(sum / total - 1) / sigma;
  EXPECT_LT(share, 1);
  EXPECT_GT(share, 0.3);
}

void expect_equal(const Case& c, const Brute& brute, int64_t row, const Expectations& o,
                  const Expectations& lse) {
  ASSERT_TRUE(o.value.contains(row));
  for (size_t e = 0; e < brute.o.size(); ++e) {
    ASSERT_NEAR(o.value.at(row)[e], brute.o[e], 2e-14) << "row " << row << " element " << e;
    ASSERT_NEAR(o.sigma.at(row)[e], brute.sigma[e], 1e-8 * brute.sigma[e])
        << "row " << row << " element " << e;
  }
  if (!c.tensors[ATTEST_LSE]) return;
  if (std::isinf(brute.lse)) {
    ASSERT_EQ(lse.value.at(row)[0], -INFINITY);
    return;
  }
  ASSERT_NEAR(lse.value.at(row)[0], brute.lse, 1e-13) << "row " << row;
  ASSERT_NEAR(lse.sigma.at(row)[0], brute.lse_sigma, 1e-9 * brute.lse_sigma) << "row " << row;
}

const SoftmaxArithmetic kArithmetics[] = {
    {.output = ATTEST_F32, .ways = ATTEST_WEIGHS_BY_LSE},
    {.qk = ATTEST_BF16,
     .pv = ATTEST_BF16,
     .probability = ATTEST_BF16,
     .output = ATTEST_BF16,
     .ways = ATTEST_SUMS_ROUNDED_P,
     .sum_chain = 64},
    {.score = ATTEST_F16,
     .probability = ATTEST_F16,
     .output = ATTEST_F16,
     .ways = ATTEST_P_NORMALISED_FIRST | ATTEST_P_TRUNCATED | ATTEST_FLUSHES_SUBNORMALS},
};

// Every row of every sequence, where `sees(i, j)` is the definition of attest.h written down again.
void check_all(const Case& c, const std::function<bool(int64_t, int64_t)>& sees, int64_t step = 1) {
  const Geometry geometry(c.problem, c.tensors);
  for (const SoftmaxArithmetic& arithmetic : kArithmetics) {
    SCOPED_TRACE(dtype_name(arithmetic.output));
    const SigmaModel model = SigmaModel::of(arithmetic, c.problem);
    const auto golden = c.golden();
    const Expectations o(*golden, arithmetic, ATTEST_O), lse(*golden, arithmetic, ATTEST_LSE);
    EXPECT_EQ(int64_t(o.value.size()), row_count(c.spec(ATTEST_O), 3));
    EXPECT_EQ(int64_t(lse.value.size()), row_count(c.spec(ATTEST_LSE), 3));
    for (int64_t b = 0; b < geometry.batch(); ++b)
      for (int64_t i = 0; i < geometry.length_q(b); i += step)
        for (int64_t h = 0; h < c.p().num_heads; ++h) {
          std::vector<Cell> keys;
          std::vector<Term> terms;
          const bool regions = c.p().shift_bias != 0 && !c.tensors[ATTEST_REL_BIAS];
          for (int64_t j = 0; j < geometry.length_kv(b); ++j) {
            double term = 0;
            if (sees(i, j)) geometry.add_pair_terms(b, h, i, {j, j + 1}, &term);
            if (sees(i, j) && term > -INFINITY) {
              keys.push_back(geometry.key(b, j));
              terms.push_back({term, regions ? geometry.region(j) : 0});
            }
          }
          expect_equal(c, Brute(c, model, h, geometry.query(b, i), keys, terms),
                       geometry.output_row(b, h, i), o, lse);
          if (::testing::Test::HasFatalFailure()) return;
        }
  }
}

bool everything(int64_t, int64_t) { return true; }

TEST(Codebook, DenseIsExact) {
  const DType dtypes[] = {ATTEST_F32, ATTEST_F16, ATTEST_BF16};
  const int64_t head_dims[] = {24, 64, 72};
  for (size_t k = 0; k < 3; ++k)
    for (const char* name : {"codebook", "codebook_peaked", "cancelling"}) {
      SCOPED_TRACE(name);
      check_all(Case(dtypes[k], {name, 7},
                     [&](Params& p) {
                       p.seq_len_q = 300;
                       p.seq_len_kv = 515;
                       p.head_dim = head_dims[k];
                     },
                     {ATTEST_LSE}),
                everything, 7);
      check_all(Case(dtypes[(k + 1) % 3], {name, 8},
                     [&](Params& p) {
                       p.seq_len_q = 3;
                       p.seq_len_kv = 1 + int64_t(k);
                       p.head_dim = head_dims[k];
                     },
                     {ATTEST_LSE}),
                everything);
    }
}

TEST(Codebook, HeadsBatchesAndSoftcapAreExact) {
  check_all(Case(ATTEST_F16, {"codebook", 1},
                 [](Params& p) {
                   p.batch = 2;
                   p.num_heads = 4;
                   p.num_kv_heads = 2;
                   p.seq_len_q = 70;
                   p.seq_len_kv = 131;
                   p.head_dim = 24;
                   p.head_dim_v = 13;
                 },
                 {ATTEST_LSE}),
            everything, 5);
  check_all(Case(ATTEST_BF16, {"codebook_peaked", 2},
                 [](Params& p) {
                   p.num_heads = 2;
                   p.seq_len_q = 70;
                   p.head_dim = 64;
                   p.softcap = 15;
                 },
                 {ATTEST_LSE}),
            everything, 5);
  check_all(Case(ATTEST_F32, {"codebook_peaked", 3},
                 [](Params& p) {
                   p.seq_len_q = 70;
                   p.head_dim = 64;
                   p.softmax_scale = -0.7f;
                 }),
            everything, 5);
}

TEST(Codebook, CausalIsExact) {
  for (const int64_t seq_len_kv : {200, 130, 61})
    for (const int32_t diagonal : {int32_t{ATTEST_TOP_LEFT}, int32_t{ATTEST_BOTTOM_RIGHT}})
      for (const int64_t offset : {0, 5, -9}) {
        const int64_t shift = offset + (diagonal == ATTEST_BOTTOM_RIGHT ? seq_len_kv - 130 : 0);
        check_all(
            Case(ATTEST_F16, {"codebook", 4},
                 [&](Params& p) {
                   p.seq_len_q = 130;
                   p.seq_len_kv = seq_len_kv;
                   p.head_dim = 24;
                   p.window_right = 0;
                   p.diagonal = diagonal;
                   p.diagonal_offset = offset;
                 },
                 {ATTEST_LSE}),
            [=](int64_t i, int64_t j) { return j <= i + shift; }, 3);
      }
}

TEST(Codebook, WindowsAreExact) {
  for (const auto& [left, right] :
       {std::pair<int64_t, int64_t>{16, 0}, {8, 8}, {0, 0}, {-1, 20}, {70, -1}})
    check_all(
        Case(ATTEST_BF16, {"codebook", 4},
             [&](Params& p) {
               p.num_heads = 2;
               p.seq_len_q = 150;
               p.head_dim = 24;
               p.window_left = left;
               p.window_right = right;
             },
             {ATTEST_LSE}),
        [=](int64_t i, int64_t j) {
          return (left < 0 || j >= i - left) && (right < 0 || j <= i + right);
        },
        3);
}

TEST(Codebook, PatchesInOrderAreExact) {
  for (const int64_t tokens : {1000, 96, 40}) {
    const Case c(ATTEST_F16, {"codebook_peaked", 5},
                 [&](Params& p) {
                   p.seq_len_q = tokens;
                   p.head_dim = 24;
                   p.patch_size = 96;
                 },
                 {ATTEST_ORDER, ATTEST_LSE});
    check_all(
        c,
        [=](int64_t i, int64_t j) {
          const int64_t begin = i / 96 * 96, end = begin + 96;
          return j < end && j >= (end > tokens ? std::max<int64_t>(0, tokens - 96) : begin);
        },
        11);
  }
  // Patches that are long beside the codebook: rows share their expectations.
  check_all(
      Case(ATTEST_F32, {"codebook", 6},
           [](Params& p) {
             p.seq_len_q = 1500;
             p.head_dim = 8;
             p.patch_size = 600;
           },
           {ATTEST_ORDER}),
      [](int64_t i, int64_t j) { return i < 1200 ? i / 600 == j / 600 : j >= 900; }, 97);
}

TEST(Codebook, SequencesAndPagesAreExact) {
  check_all(Case(ATTEST_F16, {"codebook", 5},
                 [](Params& p) {
                   p.batch = 4;
                   p.num_heads = 2;
                   p.num_kv_heads = 1;
                   p.seq_len_q = 60;
                   p.seq_len_kv = 90;
                   p.head_dim = 24;
                 },
                 {ATTEST_CU_SEQLENS_Q, ATTEST_CU_SEQLENS_KV, ATTEST_LSE}),
            everything, 3);
  check_all(Case(ATTEST_F16, {"codebook", 5},
                 [](Params& p) {
                   p.batch = 3;
                   p.seq_len_q = 60;
                   p.seq_len_kv = 90;
                   p.head_dim = 24;
                 },
                 {ATTEST_SEQ_LENS_Q, ATTEST_SEQ_LENS_KV, ATTEST_LSE}),
            everything, 3);
  check_all(Case(ATTEST_BF16, {"codebook", 5},
                 [](Params& p) {
                   p.batch = 3;
                   p.seq_len_q = 9;
                   p.seq_len_kv = 90;
                   p.head_dim = 24;
                   p.page_size = 16;
                 },
                 {ATTEST_SEQ_LENS_KV, ATTEST_PAGE_TABLE}),
            everything);
  check_all(
      Case(ATTEST_F16, {"codebook", 5},
           [](Params& p) {
             p.batch = 2;
             p.seq_len_q = p.seq_len_kv = 12 * 16;
             p.head_dim = 24;
             p.grid_height = 12;
             p.grid_width = 16;
             p.window_height = p.window_width = 4;
             p.shift_y = 1;
             p.shift_x = 2;
           }),
      [](int64_t i, int64_t j) { return i / 16 == j / 16; }, 7);
}

// Values to `error` of the largest, the median of the sigmas within a factor: the full golden
// allows for values that follow keys and places (ElementSums::reach, LseSums::square), and sees
// groups where there are none.
void expect_agreement(const Case& c, double error, double least, double most) {
  const auto full = softmax_golden(c.problem, c.tensors), closed = c.golden();
  ASSERT_EQ(full->method(), "float64, all rows");
  for (const SoftmaxArithmetic& arithmetic : kArithmetics)
    for (const int32_t role : {ATTEST_O, ATTEST_LSE}) {
      const Expectations got(*closed, arithmetic, role), expected(*full, arithmetic, role);
      ASSERT_EQ(got.value.size(), expected.value.size());
      std::vector<double> ratios;
      for (const auto& [row, values] : expected.value)
        for (size_t e = 0; e < values.size(); ++e) {
          const double mine = got.value.at(row)[e],
                       ratio = got.sigma.at(row)[e] / expected.sigma.at(row)[e];
          if (std::isinf(values[e])) {
            ASSERT_EQ(mine, values[e]);
            continue;
          }
          ASSERT_NEAR(mine, values[e], error * std::max(1.0, std::fabs(values[e])))
              << "row " << row << " role " << role;
          ratios.push_back(ratio);
        }
      std::sort(ratios.begin(), ratios.end());
      const double median = ratios[ratios.size() / 2];
      EXPECT_TRUE(median > (role == ATTEST_LSE ? least / 2 : least) && median < most)
          << median << " role " << role << " " << dtype_name(arithmetic.output);
    }
}

// The golden for any inputs takes the same ones for what they are.
TEST(Codebook, AgreesWithTheFullGolden) {
  const Case c(ATTEST_F16, {"codebook", 9},
               [](Params& p) {
                 p.num_heads = 2;
                 p.seq_len_q = 90;
                 p.seq_len_kv = 300;
                 p.head_dim = 64;
                 p.window_right = 0;
                 p.diagonal = ATTEST_BOTTOM_RIGHT;
                 p.softcap = 6;
               },
               {ATTEST_LSE});
  const auto full = softmax_golden(c.problem, c.tensors);
  for (const SoftmaxArithmetic& arithmetic : kArithmetics) {
    int64_t compared = 0;
    std::mutex lock;
    const std::map<int32_t, Expectations> closed{
        {ATTEST_O, {*c.golden(), arithmetic, ATTEST_O}},
        {ATTEST_LSE, {*c.golden(), arithmetic, ATTEST_LSE}}};
    full->expect(arithmetic, [&](const Expected& chunk) {
      if (!chunk.value) return;
      const std::lock_guard guard(lock);
      for (size_t r = 0; r < chunk.rows.size(); ++r)
        for (size_t e = 0; e < size_t(chunk.width); ++e, ++compared) {
          const size_t at = (chunk.shared ? 0 : r * size_t(chunk.width)) + e;
          const Expectations& mine = closed.at(chunk.role);
          ASSERT_NEAR(mine.value.at(chunk.rows[r])[e], chunk.value[at], 1e-13);
          // Summands that round alike show in float32 only: repeated_variance, which also knows
          // those that are merely close.
          const double ratio = mine.sigma.at(chunk.rows[r])[e] / chunk.sigma[at],
                       most = arithmetic.output == ATTEST_F32 || chunk.role == ATTEST_LSE ? 1.75
                                                                                          : 1.02;
          // The full golden allows for values that follow keys and places (ElementSums::reach,
          // LseSums::square); codes are random.
          const double least = arithmetic.output == ATTEST_F16 ? 0.98 : 0.3;
          ASSERT_TRUE(ratio > least && ratio < most)
              << ratio << " role " << chunk.role << " row " << chunk.rows[r];
        }
    });
    EXPECT_GE(compared, 1000);
  }
}

// Terms of keys: BIAS and MASK that do not depend on the query.
TEST(Codebook, KeyTermsAreExact) {
  auto set = [](Params& p) {
    p.batch = 2;
    p.num_heads = 2;
    p.seq_len_q = 60;
    p.seq_len_kv = 150;
    p.head_dim = 24;
  };
  const std::vector<std::vector<int64_t>> shapes{
      {2, 2, 1, 150}, {1, 2, 1, 150}, {2, 1, 1, 150}, {1, 1, 1, 150}};
  for (size_t n = 0; n < shapes.size(); ++n)
    for (const char* name : {"codebook", "codebook_peaked"}) {
      SCOPED_TRACE(n);
      std::vector<Optional> terms{{ATTEST_LSE, {}}};
      if (n % 3 != 1) terms.push_back({ATTEST_BIAS, shapes[n]});
      if (n != 2) terms.push_back({ATTEST_MASK, shapes[(n + 1) % 4]});
      const DType dtype = n % 2 ? ATTEST_BF16 : ATTEST_F16;
      check_all(Case(dtype, {name, 7}, set, terms), everything, 7);
      check_all(
          Case(
              dtype, {name, 7},
              [&](Params& p) {
                set(p);
                p.window_right = 0;
                p.diagonal = ATTEST_BOTTOM_RIGHT;
              },
              terms),
          [](int64_t i, int64_t j) { return j <= i + 90; }, 7);
      check_all(
          Case(
              dtype, {name, 7},
              [&](Params& p) {
                set(p);
                p.window_left = 30;
                p.window_right = 4;
              },
              terms),
          [](int64_t i, int64_t j) { return j >= i - 30 && j <= i + 4; }, 7);
    }
}

void set_pairs(Params& p) {
  p.batch = 2;
  p.num_heads = 2;
  p.num_kv_heads = 1;
  p.seq_len_q = 90;
  p.seq_len_kv = 150;
  p.head_dim = 24;
}

// Terms of pairs: rows of MASK and BIAS have patterns, whichever dims they are shared by.
TEST(Codebook, PairTermsAreExact) {
  const std::vector<std::vector<int64_t>> shapes{
      {2, 2, 90, 150}, {1, 2, 90, 150}, {2, 1, 90, 150}, {1, 1, 90, 150}};
  for (size_t n = 0; n < shapes.size(); ++n)
    for (const char* name : {"codebook", "codebook_peaked"}) {
      SCOPED_TRACE(::testing::Message() << name << " " << n);
      std::vector<Optional> terms{{ATTEST_LSE, {}}};
      if (n != 1)
        terms.push_back(
            {ATTEST_MASK, n == 2 ? std::vector<int64_t>{2, 2, 1, 150} : shapes[(n + 1) % 4]});
      if (n != 0) terms.push_back({ATTEST_BIAS, shapes[n]});
      const DType dtype = n % 2 ? ATTEST_BF16 : ATTEST_F16;
      check_all(Case(dtype, {name, 7}, set_pairs, terms), everything, 7);
      check_all(
          Case(
              dtype, {name, 7},
              [&](Params& p) {
                set_pairs(p);
                p.window_right = 0;
                p.diagonal = ATTEST_BOTTOM_RIGHT;
              },
              terms),
          [](int64_t i, int64_t j) { return j <= i + 60; }, 7);
      check_all(
          Case(
              dtype, {name, 7},
              [&](Params& p) {
                set_pairs(p);
                p.window_left = 30;
                p.window_right = 4;
                p.softcap = 9;
              },
              terms),
          [](int64_t i, int64_t j) { return j >= i - 30 && j <= i + 4; }, 7);
    }
}

// Rows of one row of a block mask share their sums; the last blocks are short.
TEST(Codebook, BlockMasksAreExact) {
  auto set = [](Params& p) {
    set_pairs(p);
    p.block_q = 16;
    p.block_kv = 20;
  };
  for (const char* name : {"codebook", "codebook_peaked"}) {
    SCOPED_TRACE(name);
    check_all(Case(ATTEST_F16, {name, 7}, set, {ATTEST_LSE, ATTEST_BLOCK_MASK}), everything, 7);
    check_all(
        Case(ATTEST_BF16, {name, 7},
             [&](Params& p) {
               set(p);
               p.window_right = 0;
               p.diagonal = ATTEST_BOTTOM_RIGHT;
             },
             {ATTEST_LSE, {ATTEST_BLOCK_MASK, {1, 2, 6, 8}}, {ATTEST_MASK, {2, 1, 90, 150}}}),
        [](int64_t i, int64_t j) { return j <= i + 60; }, 7);
  }
}

// A mask of rows alone hides all keys of some, and a row sees what its own mask shows, not that of
// its padded length.
TEST(Codebook, MasksOfRowsAndOfPaddedSequencesAreExact) {
  auto set = [](Params& p) {
    p.batch = 3;
    p.num_heads = 2;
    p.seq_len_q = 60;
    p.seq_len_kv = 90;
    p.head_dim = 24;
  };
  for (const auto& dims : {std::vector<int64_t>{3, 1, 60, 1}, {1, 2, 60, 90}, {3, 1, 60, 90}}) {
    check_all(Case(ATTEST_F16, {"codebook", 5}, set, {ATTEST_LSE, {ATTEST_MASK, dims}}), everything,
              3);
    check_all(Case(ATTEST_F32, {"codebook", 5}, set,
                   {ATTEST_SEQ_LENS_Q, ATTEST_SEQ_LENS_KV, ATTEST_LSE, {ATTEST_MASK, dims}}),
              everything, 3);
    check_all(Case(ATTEST_BF16, {"codebook_peaked", 5}, set,
                   {ATTEST_CU_SEQLENS_Q, ATTEST_CU_SEQLENS_KV, ATTEST_LSE, {ATTEST_MASK, dims}}),
              everything, 3);
  }
}

// Regions of a shifted grid, the relative bias of a window, and both, with keys hidden besides.
TEST(Codebook, GridTermsAreExact) {
  for (const float shift_bias : {-100.0f, -2.0f, -INFINITY})
    for (const auto& terms :
         {std::vector<Optional>{ATTEST_LSE}, std::vector<Optional>{ATTEST_LSE, ATTEST_REL_BIAS}}) {
      auto set = [&](Params& p) {
        p.batch = 2;
        p.num_heads = 2;
        p.seq_len_q = p.seq_len_kv = 12 * 16;
        p.head_dim = 16;
        p.grid_height = 12;
        p.grid_width = 16;
        p.window_height = p.window_width = 4;
        p.shift_y = 1;
        p.shift_x = 2;
        p.shift_bias = shift_bias;
      };
      SCOPED_TRACE(::testing::Message() << shift_bias << ", " << terms.size() << " tensors");
      auto window = [](int64_t i, int64_t j) { return i / 16 == j / 16; };
      check_all(Case(ATTEST_F16, {"codebook", 5}, set, terms), window, 3);
      check_all(Case(
                    ATTEST_BF16, {"codebook_peaked", 5},
                    [&](Params& p) {
                      set(p);
                      p.shift_bias = 0;
                    },
                    terms),
                window, 5);
      std::vector<Optional> masked = terms;
      masked.push_back({ATTEST_MASK, {2, 1, 1, 192}});
      check_all(Case(ATTEST_F32, {"codebook", 6}, set, masked), window, 5);
    }
}

// ALiBi has no groups of equal scores, so its sigma is held against that of the full golden, which
// takes what vanishes in a sum of float32 for lost in every channel, however small the sum is
// there; so it may be far larger where o is nearly 0.
TEST(Codebook, FadesAsTheFullGoldenDoes) {
  struct Band {
    int64_t left, right, offset;
  };
  for (const Band band :
       {Band{-1, -1, 0}, {-1, 0, 0}, {40, 9, 0}, {-1, 12, -30}, {25, -1, 17}, {-1, 0, 300}})
    for (const char* name : {"codebook", "codebook_peaked"}) {
      SCOPED_TRACE(::testing::Message()
                   << name << " " << band.left << " " << band.right << " " << band.offset);
      std::vector<Optional> terms{{ATTEST_LSE, {}}, {ATTEST_ALIBI_SLOPES, {1, 3}}};
      if (band.left > 0) {
        terms.push_back({ATTEST_BIAS, {1, 3, 1, 230}});
        terms.push_back({ATTEST_MASK, {2, 1, 1, 230}});
      }
      const Case c(
          ATTEST_F16, {name, 9},
          [&](Params& p) {
            p.batch = 2;
            p.num_heads = 3;
            p.seq_len_q = 150;
            p.seq_len_kv = 230;
            p.head_dim = 16;
            p.window_left = band.left;
            p.window_right = band.right;
            p.diagonal = ATTEST_BOTTOM_RIGHT;
            p.diagonal_offset = band.offset;
          },
          terms);
      expect_agreement(c, 1e-12, 0.6, 2);
    }
}

TEST(Codebook, FadesOverManyChunksAndScales) {
  const Case c(ATTEST_BF16, {"codebook", 9},
               [&](Params& p) {
                 p.num_heads = 2;
                 p.seq_len_q = 3000;
                 p.head_dim = 16;
               },
               {{ATTEST_LSE, {}}, {ATTEST_ALIBI_SLOPES, {}}});
  expect_agreement(c, 1e-12, 0.6, 2);
}

// Rows so far from all keys that exp(-slope distance), or its square, is no number of float64.
TEST(Codebook, FadesFarFromAllKeys) {
  for (const int64_t window : {-1, 2000}) {
    const Case c(ATTEST_F32, {"codebook", 9},
                 [&](Params& p) {
                   p.num_heads = 3;
                   p.seq_len_q = 1900;
                   p.seq_len_kv = 30;
                   p.head_dim = 16;
                   p.window_left = window;
                 },
                 {{ATTEST_LSE, {}}, {ATTEST_ALIBI_SLOPES, {}}});
    expect_agreement(c, 1e-11, 0.6, 2);
  }
}

// A score that its distance brings to 0 errs by nothing when it is rounded, the next key's by what
// it has: o errs by the latter.
TEST(Codebook, KeysAtOtherDistancesErrByOtherScores) {
  const Case c(ATTEST_F32, {"codebook_peaked", 9},
               [](Params& p) {
                 p.num_heads = 3;
                 p.seq_len_q = 212;
                 p.seq_len_kv = 20;
                 p.head_dim = 24;
                 p.window_right = 0;
               },
               {{ATTEST_ALIBI_SLOPES, {}}});
  const SoftmaxArithmetic f16_scores{.score = ATTEST_F16};
  const ScopedTermFactor drop(
      SigmaTerm::kFlushed,
      0);  // the full golden takes what vanishes in the normaliser for lost to o too
  const Expectations closed(*c.golden(), f16_scores, ATTEST_O),
      full(*softmax_golden(c.problem, c.tensors), f16_scores, ATTEST_O);
  double least = 1;
  for (const auto& [row, sigma] : full.sigma)
    for (size_t e = 0; e < sigma.size(); ++e)
      least = std::min(least, closed.sigma.at(row)[e] / sigma[e]);
  EXPECT_GT(least, 0.5);
}

// How many times the sigma of the full golden the closed form has.
struct SigmaRatios {
  double least = INFINITY, most_of_positions = 0, most_of_others = 0;
};

SigmaRatios sigma_ratios(const Case& c, const SoftmaxArithmetic& arithmetic) {
  const Expectations mine(*c.golden(), arithmetic, ATTEST_O),
      theirs(*softmax_golden(c.problem, c.tensors), arithmetic, ATTEST_O);
  SigmaRatios found;
  for (const auto& [row, sigma] : theirs.sigma)
    for (size_t e = 0; e < sigma.size(); ++e) {
      const double ratio = mine.sigma.at(row)[e] / sigma[e];
      double& most = e == 0 ? found.most_of_positions : found.most_of_others;
      found.least = std::min(found.least, ratio);
      most = std::max(most, ratio);
    }
  return found;
}

// Truncated probabilities of a few subnormal steps lose half a step each, all to one side. Beside a
// near key whose position is 0, these are nearly all that the channel of positions sums. The
// closed form takes the values of lost keys for those of any keys. But keys that weigh something
// are near the row, and these 64 rows stand at the first of 1,021 keys, so that the true positions
// are below the mean: sigma is too large there, mostly in e4m3, which loses the heaviest keys.
TEST(Codebook, FarKeysLoseHalfAStepEachIfTruncated) {
  const Case c(ATTEST_F32, {"edges", 9},
               [](Params& p) {
                 p.num_heads = 8;
                 p.seq_len_q = 64;
                 p.seq_len_kv = 1021;
                 p.head_dim = 16;
               },
               {{ATTEST_ALIBI_SLOPES, {}}});
  for (const DType dtype : {ATTEST_F16, ATTEST_F8E5M2, ATTEST_F8E4M3}) {
    const SigmaRatios found = sigma_ratios(c, {.probability = dtype, .ways = ATTEST_P_TRUNCATED});
    EXPECT_GT(found.least, 0.6) << dtype_name(dtype);
    EXPECT_LT(found.most_of_others, 1.6) << dtype_name(dtype);
    EXPECT_LT(found.most_of_positions, dtype == ATTEST_F8E4M3 ? 4.3 : 3.2) << dtype_name(dtype);
  }
}

// A key on the diagonal that is lost is lost once, though it ends both sides of the band.
TEST(Codebook, KeysOfNarrowBandsAreLostOnce) {
  for (const int64_t right : {1, 3}) {
    const Case c(ATTEST_F32, {"edges", 9},
                 [&](Params& p) {
                   p.num_heads = 8;
                   p.seq_len_q = 64;
                   p.seq_len_kv = 70;
                   p.head_dim = 16;
                   p.window_left = 1;
                   p.window_right = right;
                 },
                 {{ATTEST_ALIBI_SLOPES, {}}});
    const SigmaRatios found =
        sigma_ratios(c, {.probability = ATTEST_F8E4M3, .ways = ATTEST_P_TRUNCATED});
    EXPECT_GT(found.least, 0.6);
    EXPECT_LT(std::max(found.most_of_positions, found.most_of_others), 1.05);
  }
}

// A key without a value, beside whatever else there is; rows that see no key have none.
TEST(Codebook, SinksAreOneMoreKeyWithoutValue) {
  for (const char* name : {"codebook", "codebook_peaked", "cancelling"}) {
    SCOPED_TRACE(name);
    const Case c(ATTEST_F16, {name, 9},
                 [](Params& p) {
                   p.num_heads = 4;
                   p.num_kv_heads = 2;
                   p.seq_len_q = 70;
                   p.seq_len_kv = 130;
                   p.head_dim = 16;
                   p.window_right = 0;
                   p.diagonal_offset = -9;
                 },
                 {ATTEST_LSE, ATTEST_SINKS});
    expect_agreement(c, 1e-12, 0.6, 2);
    if (::testing::Test::HasFatalFailure()) return;
    // They weigh enough for a lost one to be seen.
    Case lost(ATTEST_F16, c.fill, [&](Params& p) { p = c.p(); }, {ATTEST_LSE, ATTEST_SINKS});
    for (int64_t h = 0; h < 4; ++h) store(lost.tensors[ATTEST_SINKS].data, ATTEST_F32, h, -1e30);
    const SoftmaxArithmetic f16{.output = ATTEST_F16};
    const Expectations with(*c.golden(), f16, ATTEST_LSE), without(*lost.golden(), f16, ATTEST_LSE);
    int64_t seen = 0;
    for (const auto& [row, lse] : with.value)
      seen += lse[0] > -INFINITY && lse[0] - without.value.at(row)[0] > 60 * with.sigma.at(row)[0];
    EXPECT_GT(seen, int64_t(with.value.size()) / 2);
  }
}

// Other problems have the same inputs, whose rows are computed one by one.
TEST(Codebook, HasNoClosedFormWherePairsDiffer) {
  auto closed = [](const char* fill, const std::function<void(Params&)>& change,
                   std::vector<Optional> optional) {
    const Case c(ATTEST_F32, {fill, 1}, change, std::move(optional));
    EXPECT_THAT(codebook_fills(c.problem), ::testing::Contains(fill));
    const bool closed_form = has_closed_form(c.problem, c.fill);
    EXPECT_EQ(c.golden()->method() == "closed form, all rows", closed_form) << fill;
    return closed_form;
  };
  auto small = [](Params& p) {
    p.seq_len_q = 8;
    p.head_dim = 8;
  };
  for (const char* fill : {"codebook", "codebook_peaked", "huge", "rising"}) {
    const bool large = std::string_view(fill) == "huge" || std::string_view(fill) == "rising";
    for (const int32_t role : {int32_t{ATTEST_MASK}, int32_t{ATTEST_BIAS}}) {
      EXPECT_TRUE(closed(fill, small, {role})) << "rows have few patterns";
      EXPECT_FALSE(closed(fill, small, {role, ATTEST_ALIBI_SLOPES}));
    }
    auto blocks = [&](Params& p) {
      small(p);
      p.block_q = 2;
      p.block_kv = 3;
    };
    EXPECT_TRUE(closed(fill, blocks, {ATTEST_BLOCK_MASK}));
    EXPECT_FALSE(closed(fill, blocks, {ATTEST_BLOCK_MASK, ATTEST_ALIBI_SLOPES}));
    auto globals = [&](Params& p) {
      small(p);
      p.window_left = 2;
      p.global_tokens = 1;
    };
    EXPECT_FALSE(closed(fill, globals, {})) << "rows see keys in two pieces";
    EXPECT_EQ(closed(fill, small, {ATTEST_ALIBI_SLOPES}), !large);
    EXPECT_TRUE(closed(fill, small, {ATTEST_SINKS}));
    EXPECT_FALSE(closed(fill, small, {ATTEST_ALIBI_SLOPES, ATTEST_SINKS}));
    EXPECT_FALSE(closed(fill, small, {{ATTEST_BIAS, {1, 1, 8, 1}}}));
    auto windows = [](Params& p) {
      p.head_dim = 8;
      p.seq_len_q = 1024;
      p.grid_height = p.grid_width = p.window_height = p.window_width = 32;
    };
    EXPECT_FALSE(closed(fill, windows, {ATTEST_REL_BIAS}))
        << "a large window costs too much, row by row";
  }
}

TEST(Codebook, CancelsWhereBlocksOfKeysStayTogether) {
  auto cancels = [](const std::vector<Optional>& optional) {
    auto small = [](Params& p) {
      p.seq_len_q = 64;
      p.head_dim = 8;
    };
    const Problem problem = Case(ATTEST_F32, {"random", 1}, small, optional).problem;
    const std::vector<std::string> all = codebook_fills(problem);
    if (std::ranges::find(all, "cancelling") == all.end()) return false;
    const Case c(ATTEST_F32, {"cancelling", 1}, small, optional);
    for (const auto& [row, values] : Expectations(*c.golden(), {}, ATTEST_O).value)
      for (const double value : values) EXPECT_NEAR(value, 0, 1e-3) << row;
    return true;
  };
  EXPECT_TRUE(cancels({}));
  EXPECT_TRUE(cancels({{ATTEST_MASK, {1, 1, 1, 64}}}));
  EXPECT_TRUE(cancels({{ATTEST_MASK, {1, 1, 64, 64}}}));
  EXPECT_TRUE(cancels({{ATTEST_BIAS, {1, 1, 64, 64}}}));
  EXPECT_TRUE(cancels({{ATTEST_BIAS, {1, 1, 1, 64}}, {ATTEST_MASK, {1, 1, 64, 64}}}));
  EXPECT_TRUE(cancels({{ATTEST_BIAS, {1, 1, 64, 1}}}));
  EXPECT_FALSE(cancels({ATTEST_ALIBI_SLOPES}));
}

TEST(Codebook, ScoresAreAsWideAsPromised) {
  for (const int64_t head_dim : {24, 64, 128}) {
    for (const float scale : {0.0f, 2.0f}) {
      auto change = [&](Params& p) {
        p.seq_len_q = 512;
        p.head_dim = head_dim;
        p.softmax_scale = scale;
      };
      auto scores = [&](const char* name) {
        const Case c(ATTEST_F16, {name, 3}, change);
        const Codebook book(c.problem, c.fill, c.tensors);
        const std::vector<float> q = book.queries(0), k = book.keys(0);
        std::vector<double> s;
        for (int64_t h = 0; h < book.key_codes(); ++h)
          for (int64_t g = 0; g < book.key_codes(); ++g)
            s.push_back(double(c.p().softmax_scale) *
                        std::inner_product(&q[size_t(h * head_dim)],
                                           &q[size_t(h * head_dim)] + head_dim,
                                           &k[size_t(g * head_dim)], 0.0));
        return s;
      };
      const std::vector<double> wide = scores("codebook"), peaked = scores("codebook_peaked");
      EXPECT_NEAR(std::sqrt(std::inner_product(wide.begin(), wide.end(), wide.begin(), 0.0) /
                            double(wide.size())),
                  1.75, 0.15)
          << head_dim;
      for (size_t h = 0; h < 64 && head_dim >= 64; ++h) {
        std::vector<double> row(&peaked[h * 64], &peaked[h * 64] + 64);
        std::sort(row.begin(), row.end());
        EXPECT_GT(row[63] - row[62], 3) << head_dim;
        EXPECT_LT(row[63], 60);
      }
    }
  }
}

// All keys that some query sees carry codes in balance; the others are decoys, and loud.
TEST(Codebook, KeysBehindTheCausalReachAreDecoys) {
  const Case c(ATTEST_F16, {"codebook", 3}, [](Params& p) {
    p.seq_len_q = 300;
    p.seq_len_kv = 400;
    p.head_dim = 64;
    p.window_right = 0;
  });
  const Codebook book(c.problem, c.fill, c.tensors);
  std::vector<int> count(size_t(book.key_codes()));
  for (int64_t j = 0; j < 400; ++j) {
    const uint8_t code = book.key_code(0, {0, j});
    ASSERT_EQ(code == Codebook::kUnseen, j >= 300);
    if (j < 300)
      ++count[code];
    else
      EXPECT_EQ(c.row(ATTEST_V, 0, 0, j)[0], 1000);
  }
  EXPECT_LE(*std::max_element(count.begin(), count.end()), 20);
}

TEST(Codebook, SameBytesWhateverTheStrides) {
  auto change = [](Params& p) {
    p.num_heads = 2;
    p.seq_len_q = 100;
    p.head_dim = 24;
  };
  const Case dense(ATTEST_BF16, {"codebook", 5}, change);
  Case permuted(ATTEST_BF16, {"codebook", 6}, change);
  const int order[] = {0, 2, 1, 3};
  for (const size_t role : {size_t{ATTEST_Q}, size_t{ATTEST_K}, size_t{ATTEST_V}}) {
    TensorSpec& spec = permuted.tensors[role].spec;
    EXPECT_NE(hash_tensor(permuted.tensors[role]), hash_tensor(dense.tensors[role]));
    spec = permuted_tensor(spec.dtype, spec.access, dims(spec), order);
  }
  fill_codebook(permuted.problem, {"codebook", 5}, permuted.tensors, false);
  for (const size_t role : {size_t{ATTEST_Q}, size_t{ATTEST_K}, size_t{ATTEST_V}})
    EXPECT_EQ(hash_tensor(permuted.tensors[role]), hash_tensor(dense.tensors[role]));
}

// One row of 262,144 spoiled, the rest right: by a key that was lost, and by a tile of 64 that was.
TEST(CodebookAllRows, OneWrongRowOf262144IsCaught) {
  const int64_t tokens = 262'144;
  const Case c(ATTEST_F16, {"codebook_peaked", 3}, [&](Params& p) {
    p.seq_len_q = tokens;
    p.head_dim = 16;
  });
  const SoftmaxArithmetic arithmetic{.output = ATTEST_F16};
  const auto golden = c.golden();
  std::vector<double> value(size_t(tokens * 16)), sigma(value.size());
  golden->expect(arithmetic, [&](const Expected& chunk) {
    for (size_t r = 0; r < chunk.rows.size(); ++r)
      for (size_t e = 0; e < 16; ++e) {
        const size_t from = (chunk.shared ? 0 : r * 16) + e, to = size_t(chunk.rows[r]) * 16 + e;
        value[to] = chunk.value[from];
        sigma[to] = chunk.sigma[from];
      }
  });
  const Tensor& o = c.tensors[ATTEST_O];
  for (size_t n = 0; n < value.size(); ++n) store(o.data, ATTEST_F16, int64_t(n), value[n]);
  auto largest = [&] {
    std::mutex lock;
    double worst = 0;
    golden->expect(arithmetic, [&](const Expected& chunk) {
      double mine = 0;
      for (size_t r = 0; r < chunk.rows.size(); ++r)
        for (size_t e = 0; e < 16; ++e) {
          const size_t from = (chunk.shared ? 0 : r * 16) + e;
          mine = std::max(mine,
                          std::fabs(o.at({0, 0, chunk.rows[r], int64_t(e)}) - chunk.value[from]) /
                              chunk.sigma[from]);
        }
      const std::lock_guard guard(lock);
      worst = std::max(worst, mine);
    });
    return worst;
  };
  EXPECT_LT(largest(), 2) << "the rounding of the output alone";
  // Weights of a row come from the stored vectors.
  const Codebook book(c.problem, c.fill, c.tensors);
  const codebook::HeadScores scores(book, c.p(), 0, ATTEST_F16, ATTEST_F16);
  const auto codes = size_t(book.key_groups());
  for (const int64_t row : {int64_t{0}, tokens - 1, int64_t{64}, int64_t{200'003}}) {
    const auto h = size_t(book.query_code(0, {0, row}));
    const double* s = &scores.score[h * codes];
    const auto best = uint8_t(std::max_element(s, s + codes) - s);
    int64_t lost = 0;
    while (book.key_code(0, {0, lost}) != best) ++lost;  // a key that this row weighs
    double total = 0;
    for (int64_t j = 0; j < tokens; ++j) total += std::exp(s[book.key_code(0, {0, j})] - s[best]);
    const std::vector<double> v = c.row(ATTEST_V, 0, 0, lost);
    for (size_t e = 0; e < 16; ++e)
      store(o.data, ATTEST_F16, row * 16 + int64_t(e),
            (value[size_t(row) * 16 + e] * total - v[e]) / (total - 1));
    EXPECT_GT(largest(), 6) << "row " << row << " without key " << lost;
    for (size_t e = 0; e < 16; ++e)
      store(o.data, ATTEST_F16, row * 16 + int64_t(e), value[size_t(row) * 16 + e]);
  }
  EXPECT_LT(largest(), 2);
}

}  // namespace
}  // namespace attest::core::codebook_trials
