// What has been summed when a maximum rises, from scores and values that are written by hand.
#include "core/operations/softmax/golden/passes/prefix_sums.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "core/operations/softmax/testing/make_case.hpp"

namespace attest::core::passes {
namespace {

constexpr double kNone = -std::numeric_limits<double>::infinity();
constexpr int64_t kPrefixRow = 1, kChannel = 2;

TEST(PrefixSums, CountRisesOfAMaximumThatWasThere) {
  EXPECT_EQ(count_rises(std::vector<double>{1, 2, 2, 1, 5}, kNone), 2);
  EXPECT_EQ(count_rises(std::vector<double>{1, 2, 2, 1, 5}, 1.5), 2);
  EXPECT_EQ(count_rises(std::vector<double>{1, 2, 2, 1, 5}, 6), 0);
  EXPECT_EQ(count_rises(std::vector<double>{kNone, 3, kNone}, kNone), 0);
  EXPECT_EQ(count_rises(std::vector<double>{1, std::nan(""), 2}, 0), 2);
  EXPECT_EQ(count_rises({}, 0), 0);
}

// 64 keys from place 8 on, so that prefixes end before places 16, 32, 48, 64 and 72.
struct PrefixTrial {
  core::testing::Case c = core::testing::make_case("", [](attest_softmax_params& p) {
    p.num_heads = 1;
    p.head_dim = 4;
    p.seq_len_q = 2;
    p.seq_len_kv = 100;
  });
  Geometry geometry{c.problem, c.tensors};
  BlockShape shape{c.params()};
  KeyOrder order{{8, 72}, {}};
  std::vector<JudgedRow> rows{2, JudgedRow{.b = 0, .h = 0, .i = 0, .output_row = 0, .keys = {}}};
  Values values{c.tensors[ATTEST_V], geometry, shape};
  Matrix scores{kTileRows, shape.key_stride}, outputs{kTaskRows, shape.value_stride};
  PrefixSums prefixes{shape};

  // Key n of the task scores `score(n)` and has the value `value(n)`.
  template <class Score, class Value>
  void add(int64_t most, double sink, const Score& score, const Value& value) {
    double sum = sink == kNone ? 0 : std::exp(sink), output = 0;
    for (int64_t n = 0; n < 64; ++n) sum += std::exp(score(n));
    for (int64_t n = 0; n < 64; ++n) output += std::exp(score(n)) / sum * value(n);
    outputs.row(kPrefixRow)[kChannel] = output;
    const RowScores row{.lse = std::log(sum), .keys = 64, .sink = sink};
    prefixes.start(std::vector<RowScores>{row, row});
    for (int64_t begin = 0; begin < order.size();) {
      const KeyBlock block(order, begin, most);
      for (int64_t key = 0; key < block.count(); ++key) {
        scores.row(kPrefixRow)[key] = score(begin + key);
        values.values.row(key)[kChannel] = value(begin + key);
      }
      prefixes.add(scores, values, block, {.first = 0, .rows = rows}, outputs);
      begin += block.count();
    }
  }
};

// All keys weigh 1 / 64 and have values of 1 up to place 47, then -1: o = 1/4, and the largest
// prefix is 40 (1 - 1/4) / 64.
TEST(PrefixSums, FindTheLargestOfThePrefixes) {
  const auto value = [](int64_t n) { return n < 40 ? 1.0 : -1.0; };
  for (const int64_t most : {256, 16, 8}) {
    PrefixTrial trial;
    trial.add(most, kNone, [](int64_t) { return 5.0; }, value);
    EXPECT_NEAR(trial.prefixes.largest().row(kPrefixRow)[kChannel], 40 * 0.75 / 64, 1e-14) << most;
    EXPECT_EQ(trial.prefixes.rises(kPrefixRow), 0);
  }
}

// A sink as heavy as the keys halves o, and is in every prefix: 40 / 128 - (64 + 40) / 128 o with
// o = 1/8 is less than what is there at first, none of it, less o's share of the sink.
TEST(PrefixSums, CountTheSinkAmongTheFirst) {
  PrefixTrial trial;
  trial.add(
      256, 5 + std::log(64.0), [](int64_t) { return 5.0; },
      [](int64_t n) { return n < 40 ? 1.0 : -1.0; });
  EXPECT_NEAR(trial.prefixes.largest().row(kPrefixRow)[kChannel], 40.0 / 128 - 104.0 / 128 / 8,
              1e-14);
}

// The scores of later prefixes rise: 4 times forwards, never backwards.
TEST(PrefixSums, TakeTheDirectionWithMoreRises) {
  for (const double sign : {1.0, -1.0}) {
    PrefixTrial trial;
    trial.add(
        16, kNone, [&](int64_t n) { return sign * double((n + 8) / 16); },
        [](int64_t) { return 1.0; });
    EXPECT_EQ(trial.prefixes.rises(kPrefixRow), 4) << sign;
  }
}

}  // namespace
}  // namespace attest::core::passes
