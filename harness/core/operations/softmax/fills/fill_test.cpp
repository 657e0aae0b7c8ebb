// The random fill: repeatable, with scores of standard deviation 1, all kinds of lengths, and
// decoys where nobody may look.
#include <gtest/gtest.h>
#include <omp.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>
#include <set>

#include "core/operations/softmax/problem/geometry.hpp"
#include "core/operations/softmax/testing/all_cases.hpp"

namespace attest::core {
namespace {

using testing::Case;
using testing::make_case;
using Params = attest_softmax_params;

std::vector<uint64_t> hashes(const Case& c) {
  std::vector<uint64_t> found;
  for (const Role& role : softmax_operation().roles())
    if (c.tensors[size_t(role.index)] && !is_output(role))
      found.push_back(hash_tensor(c.tensors[size_t(role.index)]));
  return found;
}

TEST(SoftmaxFill, SameSeedSameBytesOnAnyNumberOfThreads) {
  const int threads = omp_get_max_threads();
  for (Case& c : testing::all_cases()) {
    c.fill(7);
    const std::vector<uint64_t> first = hashes(c);
    omp_set_num_threads(3);
    c.allocate();
    c.fill(7);
    EXPECT_EQ(hashes(c), first) << c.name;
    omp_set_num_threads(threads);
    c.fill(8);
    EXPECT_NE(hashes(c), first) << c.name;
  }
}

struct Spread {
  double mean, deviation, largest;
};
Spread spread_of_row(const Case& c, int64_t h, int64_t i) {
  std::vector<double> scores;
  for (int64_t j = 0; j < c.params().seq_len_kv; ++j) {
    double sum = 0;
    for (int64_t d = 0; d < c.params().head_dim; ++d)
      sum += c.tensors[ATTEST_Q].at({0, h, i, d}) * c.tensors[ATTEST_K].at({0, h, j, d});
    scores.push_back(sum * double(c.params().softmax_scale));
  }
  const auto count = double(scores.size());
  const double mean = std::accumulate(scores.begin(), scores.end(), 0.0) / count;
  double square = 0;
  for (const double score : scores) square += (score - mean) * (score - mean) / count;
  return {mean, std::sqrt(square), *std::ranges::max_element(scores)};
}

// A problem in f16 with the inputs of a fill.
Case filled(const char* fill, const std::function<void(Params&)>& set) {
  Case c = make_case(fill, set, {}, ATTEST_F16);
  softmax_operation().fill(c.problem, {fill, 1}, c.tensors, false);
  return c;
}

// Four kinds of rows in turn, also where a head has one row; two rounds of four are beyond f16.
// What f16 holds is no less than asked.
TEST(SoftmaxFill, WideRowsSpreadAsFarAsTheySay) {
  for (const float softcap : {0.0f, 30.0f})
    for (const int64_t head_dim : {16, 128}) {
      const Case c = filled("wide", [&](Params& p) {
        p.num_heads = 3;
        p.seq_len_q = 17;
        p.seq_len_kv = 800;
        p.head_dim = head_dim;
        p.softcap = softcap;
      });
      for (int64_t h = 0; h < 3; ++h)
        for (int64_t i = 0; i < 17; ++i) {
          const bool beyond = (h + i) / 4 % 4 >= 2;
          const double climb = beyond ? 120000 : 22000, below = beyond ? -120000 : -600;
          const std::vector<double> deviations =
              softcap > 0 ? std::vector<double>{90, 90, 15, 30}
                          : std::vector<double>{climb / std::sqrt(3.0), 1000, 100, 100};
          const auto kind = size_t((h + i) % 4);
          const Spread found = spread_of_row(c, h, i);
          EXPECT_NEAR(found.deviation / deviations[kind], 1, 0.15) << h << " " << i;
          EXPECT_NEAR(found.mean,
                      kind != 2     ? 0
                      : softcap > 0 ? -75
                                    : below,
                      std::max(deviations[kind] / 5, std::fabs(below) / 1000))
              << h << " " << i;
          EXPECT_TRUE(kind != 2 || found.largest < 0) << h << " " << i;
        }
    }
}

// With so small a scale, f16 holds no query of the deviation.
TEST(SoftmaxFill, WideRowsAreFinite) {
  const Case c = filled("wide", [](Params& p) { p.softmax_scale = 1e-4f; });
  for (int64_t i = 0; i < c.params().seq_len_q; ++i)
    for (int64_t d = 0; d < c.params().head_dim; ++d)
      EXPECT_LE(std::fabs(c.tensors[ATTEST_Q].at({0, 0, i, d})), 60000);
}

constexpr double kLargestOfWide = 130000;  // more than any score

// Biases of pairs that f16 does not hold, of both kinds, also in few rows, and values around 1.
TEST(SoftmaxFill, WideRowsHaveFarBiases) {
  for (const DType dtype : {ATTEST_F32, ATTEST_BF16})
    for (const int64_t rows : {7, 64}) {
      Case c = make_case("wide", [=](Params& p) { p.seq_len_q = rows; }, {ATTEST_BIAS}, dtype);
      softmax_operation().fill(c.problem, {"wide", 1}, c.tensors, false);
      std::set<double> numbers;
      int64_t below_f16 = 0, below_scores = 0;
      for (int64_t i = 0; i < rows; ++i) {
        double most = -INFINITY;
        for (int64_t j = 0; j < rows; ++j) {
          const double bias = c.tensors[ATTEST_BIAS].at({0, 1, i, j});
          most = std::max(most, bias);
          if (bias < -65504 && bias != kHidden) numbers.insert(bias);
        }
        below_scores += most < -1e6;
        below_f16 += most < -65504 && most > -1e6;
        // An order lets any query meet such a row of biases.
        if (most < -65504) {
          EXPECT_LT(most + kLargestOfWide, -65504);
        }
      }
      EXPECT_GE(below_f16, std::max<int64_t>(1, rows / 16));
      EXPECT_GE(below_scores, std::max<int64_t>(1, rows / 16));
      EXPECT_EQ(numbers.size(), 3u);
      for (int64_t j = 0; j < rows; ++j) {
        EXPECT_GE(c.tensors[ATTEST_V].at({0, 0, j, 0}), 1);
        EXPECT_LE(c.tensors[ATTEST_V].at({0, 0, j, 0}), 1.0625);
      }
    }
}

// Both halves of the channels make scores, large numbers are those that f16 holds times log2(e),
// and every other channel of V is subnormal.
TEST(SoftmaxFill, SubnormalOperandsMakeScores) {
  for (const float scale : {0.02f, 0.25f, 3.0f})
    for (const int64_t head_dim : {2, 17, 128}) {
      const Case c = filled("subnormal", [&](Params& p) {
        p.num_heads = 1;
        p.seq_len_q = 1;
        p.seq_len_kv = 4000;
        p.head_dim = head_dim;
        p.softmax_scale = scale;
      });
      const Tensor &q = c.tensors[ATTEST_Q], &k = c.tensors[ATTEST_K], &v = c.tensors[ATTEST_V];
      double of_q = 0, of_k = 0;  // sums of squares of what they add to scores
      for (int64_t j = 0; j < 4000; ++j) {
        double from_q = 0, from_k = 0;
        for (int64_t d = 0; d < head_dim; ++d) {
          const double query = q.at({0, 0, 0, d}), key = k.at({0, 0, j, d});
          ASSERT_LE(std::max(std::fabs(query), std::fabs(key)) * std::max(1.0f, scale), 40010);
          ASSERT_TRUE((std::fabs(query) < 0x1p-14) != (std::fabs(key) < 0x1p-14));
          (std::fabs(key) < 0x1p-14 ? from_k : from_q) += double(scale) * query * key;
        }
        of_q += from_q * from_q / 4000;
        of_k += from_k * from_k / 4000;
        EXPECT_GT(v.at({0, 0, j, 0}), 0);
        EXPECT_LT(v.at({0, 0, j, 0}), 0x1p-14);
      }
      const double reach = 40000 / std::max(1.0, double(scale)) * 0x1p-14 / std::sqrt(3.0) *
                           double(scale) * std::sqrt(double(head_dim / 2)),
                   wanted = std::min(1.4, reach);
      EXPECT_NEAR(std::sqrt(of_k) / wanted, 1, 0.1) << scale << " " << head_dim;
      // One query has few subnormal numbers, whose size varies.
      EXPECT_NEAR(std::sqrt(of_q) / wanted, 1, head_dim > 100 ? 0.15 : 0.9)
          << scale << " " << head_dim;
    }
}

// Some row has far biases alone, and none the lowest ones alone: it sees no key, or another one.
TEST(SoftmaxFill, NoRowSeesTheLowestBiasesAlone) {
  int64_t rows_far_below = 0, lowest_biases = 0;
  for (const Case& c : testing::all_cases()) {
    const Tensor& bias = c.tensors[ATTEST_BIAS];
    if (!bias) continue;
    const Geometry geometry(c.problem, c.tensors);
    for (int64_t b = 0; b < geometry.batch(); ++b)
      for (int64_t h = 0; h < c.params().num_heads; ++h)
        for (int64_t i = 0; i < geometry.length_q(b); ++i) {
          const Interval keys = geometry.keys(b, i);
          int64_t seen = 0, lowest = 0, far_below = 0;
          for (int64_t j = keys.begin; j < keys.end; ++j) {
            if (!geometry.visible(b, h, i, j)) continue;
            const double number = bias.at({b, h, geometry.token(i), geometry.token(j)});
            ++seen;
            lowest += number < -50000;
            far_below += number < -10000;
          }
          EXPECT_TRUE(seen == 0 || lowest < seen) << c.name << ", row " << i;
          lowest_biases += lowest;
          rows_far_below += seen > 0 && far_below == seen;
        }
  }
  EXPECT_GT(rows_far_below, 10);
  EXPECT_GT(lowest_biases, 100);
}

TEST(SoftmaxFill, ScoresHaveStandardDeviationOne) {
  for (const float scale : {0.0f, 1.0f, 0.01f, -3.0f}) {
    const Case c = make_case("", [scale](Params& p) {
      p.num_heads = 1;
      p.seq_len_q = 200;
      p.head_dim = 64;
      p.softmax_scale = scale;
    });
    double squares = 0, sum_v = 0;
    for (int64_t i = 0; i < 200; ++i) {
      for (int64_t j = 0; j < 200; ++j) {
        double s = 0;
        for (int64_t d = 0; d < 64; ++d)
          s += c.tensors[ATTEST_Q].at({0, 0, i, d}) * c.tensors[ATTEST_K].at({0, 0, j, d});
        squares += std::pow(s * double(c.params().softmax_scale), 2);
      }
      for (int64_t d = 0; d < 64; ++d) sum_v += c.tensors[ATTEST_V].at({0, 0, i, d});
    }
    EXPECT_NEAR(std::sqrt(squares / 40000), 1, 0.1) << scale;
    EXPECT_NEAR(sum_v / 12800, 0, 0.05);
  }
}

Case with_lengths(int64_t batch, const std::vector<int32_t>& roles, int64_t keys = 37) {
  return make_case(
      "",
      [&](Params& p) {
        p.batch = batch;
        p.seq_len_kv = keys;
      },
      roles);
}
const std::vector<int32_t> kPacked = {ATTEST_CU_SEQLENS_Q, ATTEST_CU_SEQLENS_KV},
                           kPadded = {ATTEST_SEQ_LENS_Q, ATTEST_SEQ_LENS_KV};

TEST(SoftmaxFill, LengthsAddUp) {
  for (const int64_t batch : {1, 2, 3, 4, 8, 50})
    for (const bool other : {false, true}) {
      const Case c = with_lengths(batch, kPacked, 90);
      for (const bool kv : {false, true}) {
        const std::vector<int64_t> lengths = sequence_lengths(c.problem, kv, other);
        EXPECT_EQ(std::accumulate(lengths.begin(), lengths.end(), int64_t(0)),
                  c.problem.tensor[kv ? ATTEST_K : ATTEST_Q].dim[2]);
        EXPECT_EQ(*std::max_element(lengths.begin(), lengths.end()), kv ? 90 : 37);
      }
    }
}

// What the events of lengths ask for, as far as there are sequences enough.
TEST(SoftmaxFill, LengthsTellQueriesFromKeysAndSequencesApart) {
  for (const auto& roles : {kPacked, kPadded})
    for (const int64_t batch : {2, 3, 4, 8, 50})
      for (const bool other : {false, true}) {
        const Case c = with_lengths(batch, roles);
        const std::vector<int64_t> q = sequence_lengths(c.problem, false, other),
                                   kv = sequence_lengths(c.problem, true, other);
        std::set<int64_t> offsets;
        bool partial = false, empty_q = false, empty_kv = false;
        for (size_t b = 0; b < q.size(); ++b) {
          if (q[b] > 0 && kv[b] > 0) offsets.insert(kv[b] - q[b]);
          partial |= q[b] > 0 && kv[b] > 0 && kv[b] < 37;
          empty_q |= q[b] == 0;
          empty_kv |= q[b] > 0 && kv[b] == 0;
        }
        const std::string which = std::to_string(batch) + (other ? ", other lengths" : "");
        EXPECT_GE(offsets.size(), 2u) << which;
        EXPECT_NE(q, kv) << which;
        EXPECT_TRUE(partial) << which;
        EXPECT_EQ(empty_q || empty_kv, batch > 2) << which;
        EXPECT_EQ(empty_q && empty_kv, batch > 3) << which;
      }
}

// What is written for a sequence without rows spoils a row of the one before or behind it.
TEST(SoftmaxFill, AnEmptySequenceStandsBetweenTwoThatSee) {
  for (const int64_t batch : {3, 4, 8})
    for (const bool other : {false, true}) {
      const Case c = with_lengths(batch, kPacked);
      const std::vector<int64_t> q = sequence_lengths(c.problem, false, other),
                                 kv = sequence_lengths(c.problem, true, other);
      bool before = false, behind = false;
      for (size_t b = 0; b < q.size(); ++b) {
        const auto sees = [&](size_t at) { return at < q.size() && q[at] > 0 && kv[at] > 0; };
        before |= q[b] == 0 && sees(b + 1);
        behind |= q[b] == 0 && sees(b - 1);
      }
      EXPECT_TRUE(before && behind) << batch << (other ? ", other lengths" : "");
    }
}

TEST(SoftmaxFill, OtherLengthsAreOthersWhereThereAreAny) {
  for (const auto& roles : {kPacked, kPadded})
    for (const int64_t batch : {1, 2, 3, 8}) {
      const Case c = with_lengths(batch, roles);
      const bool fixed = roles == kPacked && batch == 1;
      EXPECT_EQ(sequence_lengths(c.problem, true) == sequence_lengths(c.problem, true, true) &&
                    sequence_lengths(c.problem, false) == sequence_lengths(c.problem, false, true),
                fixed)
          << batch;
    }
}

// One key, keys that fill tiles of 16, a key alone in its tile, and one query.
TEST(SoftmaxFill, OtherLengthsHaveEdges) {
  for (const auto& roles : {kPacked, kPadded})
    for (const int64_t batch : {8, 50}) {
      const Case c = with_lengths(batch, roles, 61);
      const std::vector<int64_t> q = sequence_lengths(c.problem, false, true),
                                 kv = sequence_lengths(c.problem, true, true);
      std::set<std::string> found;
      for (size_t b = 0; b < q.size(); ++b) {
        if (q[b] == 1 && kv[b] > 1) found.insert("one query");
        if (q[b] == 0 || kv[b] == 0) continue;
        if (kv[b] == 1) found.insert("one key");
        if (kv[b] % 16 == 0) found.insert("full");
        if (kv[b] > 1 && kv[b] % 16 == 1) found.insert("alone");
      }
      EXPECT_EQ(found.size(), 4u) << batch << (roles == kPacked ? ", packed" : "");
    }
}

// With four sequences, of which one is the longest and one is empty, two of the first three edges
// have room, and the longest length decides which.
TEST(SoftmaxFill, TheLongestLengthDecidesWhichEdgesAreLeftOut) {
  std::set<std::pair<bool, bool>> seen;
  for (const int64_t keys : {61, 62, 63}) {
    const Case c = with_lengths(4, {ATTEST_SEQ_LENS_KV}, keys);
    bool one = false, full = false;
    for (const int64_t length : sequence_lengths(c.problem, true, true)) {
      one |= length == 1;
      full |= length > 0 && length % 16 == 0;
    }
    seen.emplace(one, full);
  }
  EXPECT_EQ(seen.size(), 3u);
}

TEST(SoftmaxFill, OrdersArePermutationsOfEachSequence) {
  const Case c = make_case("", [](Params& p) { p.batch = 4; },
                           {ATTEST_CU_SEQLENS_Q, ATTEST_CU_SEQLENS_KV, ATTEST_ORDER});
  const Geometry geometry(c.problem, c.tensors);
  bool moved = false;
  for (int64_t b = 0, first = 0; b < 4; first += geometry.length_q(b++)) {
    std::set<int64_t> rows;
    for (int64_t i = 0; i < geometry.length_q(b); ++i) {
      rows.insert(geometry.query(b, i).row);
      moved |= geometry.query(b, i).row != first + i;
    }
    EXPECT_EQ(int64_t(rows.size()), geometry.length_q(b));
    if (rows.empty()) continue;
    EXPECT_EQ(std::pair(*rows.begin(), *rows.rbegin()),
              std::pair(first, first + geometry.length_q(b) - 1));
  }
  EXPECT_TRUE(moved);
}

TEST(SoftmaxFill, UnreadKeysAreDecoysAndUnreadPagesAreNotNamed) {
  const Case c = make_case("",
                           [](Params& p) {
                             p.batch = 3;
                             p.page_size = 8;
                           },
                           {ATTEST_PAGE_TABLE, ATTEST_SEQ_LENS_KV});
  const Geometry geometry(c.problem, c.tensors);
  std::set<std::pair<int64_t, int64_t>> read;
  for (int64_t b = 0; b < 3; ++b) {
    for (int64_t j = 0; j < geometry.length_kv(b); ++j)
      read.insert({geometry.key(b, j).outer, geometry.key(b, j).row});
    for (int64_t entry = (geometry.length_kv(b) + 7) / 8; entry < 5; ++entry)
      EXPECT_EQ(c.tensors[ATTEST_PAGE_TABLE].at({b, entry}), -1);
  }
  EXPECT_GT(read.size(), 30u);
  int decoys = 0;
  for (int64_t page = 0; page < c.problem.tensor[ATTEST_K].dim[0]; ++page)
    for (int64_t row = 0; row < 8; ++row) {
      const bool decoy = c.tensors[ATTEST_V].at({page, 1, row, 3}) == 1000;
      EXPECT_EQ(decoy, !read.contains({page, row}));
      decoys += decoy;
    }
  EXPECT_GT(decoys, 0);
}

TEST(SoftmaxFill, TokensStayAsTheyAre) {
  Case c = make_case("", [](Params& p) { p.batch = 2; },
                     {ATTEST_ORDER, ATTEST_BIAS, ATTEST_SEQ_LENS_KV});
  const std::vector<uint64_t> first = hashes(c);
  softmax_operation().fill(c.problem, {"tokens", 99}, c.tensors, true);
  const std::vector<uint64_t> second = hashes(c);  // q k v bias seq_lens_kv order
  for (const size_t same : {0, 1, 2, 4, 5}) EXPECT_EQ(first[same], second[same]) << same;
  EXPECT_NE(first[3], second[3]);
}

}  // namespace
}  // namespace attest::core
