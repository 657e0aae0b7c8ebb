// The sweep against the values of each head, taken one by one: its bounds hold all averages and
// little more, and rows that may be NaN have none.
#include "core/operations/softmax/golden/sweep.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <mutex>

#include "core/operations/softmax/testing/make_case.hpp"

namespace attest::core {
namespace {

using testing::Case;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using testing::make_case;
using Params = attest_softmax_params;

constexpr double kNotANumber = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinite = std::numeric_limits<double>::infinity();

// What a sweep says of each row, by role and row.
struct Swept {
  struct Row {
    std::vector<double> value, low, high;
  };
  std::map<int64_t, Row> o, lse;
  int repeated = 0;

  Swept(const ValueBounds& bounds, const Geometry& geometry,
        const SoftmaxArithmetic& arithmetic = {}) {
    std::mutex lock;
    bounds.sweep(geometry, arithmetic, [&](const Expected& chunk) {
      const std::lock_guard guard(lock);
      EXPECT_TRUE(chunk.shared);
      const auto copy = [&](const double* x) {
        return x ? std::vector<double>(x, x + chunk.width) : std::vector<double>();
      };
      for (const int64_t row : chunk.rows)
        repeated += !(chunk.role == ATTEST_O ? o : lse)
                         .emplace(row, Row{copy(chunk.value), copy(chunk.low), copy(chunk.high)})
                         .second;
    });
  }
  // The rows of O without bounds in the first channel.
  std::vector<int64_t> unbounded() const {
    std::vector<int64_t> rows;
    for (const auto& [row, of] : o)
      if (of.value.empty() && std::isnan(of.low[0]) && std::isnan(of.high[0])) rows.push_back(row);
    return rows;
  }
};

struct Fixture {
  Case c;
  Geometry geometry;
  ValueBounds bounds;

  explicit Fixture(Case of, bool scores_spread = false)
      : c(std::move(of)),
        geometry(c.problem, c.tensors),
        bounds(c.problem, c.tensors, geometry, true, scores_spread) {}
};

void put(Case& c, int32_t role, int64_t element, double value) {
  const Tensor& tensor = c.tensors[size_t(role)];
  store(tensor.data, tensor.spec.dtype, element, value);
}

// The least (largest) value of a key head in a channel, among the first `keys` keys.
double extreme(const Case& c, int64_t b, int64_t head, int64_t channel, int64_t keys, bool least) {
  double found = least ? kInfinite : -kInfinite;
  for (int64_t j = 0; j < keys; ++j) {
    const double v = c.tensors[ATTEST_V].at({b, head, j, channel});
    found = least ? std::min(found, v) : std::max(found, v);
  }
  return found;
}

TEST(ValueBounds, AreThoseOfTheKeyHeadThatAQueryHeadReads) {
  const Fixture f(make_case("gqa", [](Params& p) {
    p.batch = 2;
    p.num_heads = 4;
    p.num_kv_heads = 2;
    p.head_dim_v = 5;
  }));
  EXPECT_EQ(f.bounds.unbounded(), 0);
  for (int64_t b = 0; b < 2; ++b)
    for (int64_t h = 0; h < 4; ++h) {
      const ValueBounds::Bounds bounds = f.bounds.average(f.geometry, {}, b, h);
      ASSERT_EQ(bounds.low.size(), 5u);
      for (int64_t d = 0; d < 5; ++d) {
        const double low = extreme(f.c, b, h / 2, d, 37, true),
                     high = extreme(f.c, b, h / 2, d, 37, false);
        EXPECT_LE(bounds.low[size_t(d)], low) << b << " " << h << " " << d;
        EXPECT_GE(bounds.high[size_t(d)], high) << b << " " << h << " " << d;
        EXPECT_NEAR(bounds.low[size_t(d)], low, 1e-4) << "rounding takes no more";
        EXPECT_NEAR(bounds.high[size_t(d)], high, 1e-4) << "rounding takes no more";
      }
    }
}

TEST(ValueBounds, HaveRoomForTheRoundingOfTheDeclaredArithmetic) {
  const Fixture f(make_case("dense", [](Params&) {}));
  const auto width = [&](const SoftmaxArithmetic& arithmetic) {
    const ValueBounds::Bounds bounds = f.bounds.average(f.geometry, arithmetic, 0, 0);
    return bounds.high[0] - bounds.low[0];
  };
  EXPECT_GT(width({.output = ATTEST_BF16}), width({.output = ATTEST_F32}) + 1e-3);
}

TEST(ValueBounds, LeaveOutKeysBeyondTheLength) {
  Case c = make_case("lengths", [](Params& p) { p.batch = 2; }, {ATTEST_SEQ_LENS_KV});
  put(c, ATTEST_SEQ_LENS_KV, 0, 20);
  put(c, ATTEST_SEQ_LENS_KV, 1, 37);
  const int64_t beyond = c.tensors[ATTEST_V].spec.stride[2] * 20;  // key 20 of sequence 0, head 0
  put(c, ATTEST_V, beyond, 1e30);
  put(c, ATTEST_V, beyond + 1, kNotANumber);
  const Fixture f(std::move(c));
  EXPECT_EQ(f.bounds.unbounded(), 0);
  const ValueBounds::Bounds bounds = f.bounds.average(f.geometry, {}, 0, 0);
  for (int64_t d = 0; d < 2; ++d)
    EXPECT_NEAR(bounds.high[size_t(d)], extreme(f.c, 0, 0, d, 20, false), 1e-4);
}

TEST(ValueBounds, AChannelWithANaNHasNone) {
  Case c = make_case("nan", [](Params&) {});
  const int64_t head = c.tensors[ATTEST_V].spec.stride[1];
  put(c, ATTEST_V, head + 3, kNotANumber);  // key 0 of head 1
  put(c, ATTEST_V, head + 4, -kInfinite);
  const Fixture f(std::move(c));
  EXPECT_EQ(f.bounds.unbounded(), 2);
  const ValueBounds::Bounds other = f.bounds.average(f.geometry, {}, 0, 0),
                            wild = f.bounds.average(f.geometry, {}, 0, 1);
  for (size_t d = 0; d < wild.low.size(); ++d) {
    EXPECT_EQ(std::isnan(wild.low[d]) && std::isnan(wild.high[d]), d == 3 || d == 4) << d;
    EXPECT_FALSE(std::isnan(other.low[d]) || std::isnan(other.high[d])) << d;
  }
}

TEST(ValueBounds, AHeadWithANaNAmongItsKeysHasNone) {
  Case c = make_case("nan", [](Params&) {});
  put(c, ATTEST_K, c.tensors[ATTEST_K].spec.stride[1] + 11, kNotANumber);  // head 1
  const Fixture f(std::move(c));
  EXPECT_EQ(f.bounds.unbounded(), 8);
  const Swept swept(f.bounds, f.geometry);
  EXPECT_EQ(swept.unbounded().size(), 37u);
  EXPECT_EQ(swept.unbounded().front(), 37) << "the first row of head 1";
}

TEST(ValueBounds, ASweepHasEachRowOnce) {
  const Fixture f(make_case("empty leading rows",
                            [](Params& p) {
                              p.window_right = 0;
                              p.diagonal = ATTEST_BOTTOM_RIGHT;
                              p.seq_len_kv = 20;
                            },
                            {ATTEST_LSE}));
  const Swept swept(f.bounds, f.geometry);
  EXPECT_EQ(swept.repeated, 0);
  EXPECT_EQ(swept.o.size(), 74u);
  EXPECT_EQ(swept.lse.size(), 74u);
  // 17 of the 37 rows of each head see no key.
  const std::vector<int64_t> empty = f.bounds.empty_rows(f.geometry);
  EXPECT_EQ(empty.size(), 34u);
  for (const auto& [row, of] : swept.o) {
    const bool is_empty = std::ranges::find(empty, row) != empty.end();
    EXPECT_EQ(is_empty, row % 37 < 17) << row;
    EXPECT_EQ(of.value, is_empty ? std::vector<double>(8, 0.0) : std::vector<double>()) << row;
    EXPECT_EQ(swept.lse.at(row).value,
              is_empty ? std::vector<double>{-kInfinite} : std::vector<double>())
        << row;
    if (is_empty) continue;
    EXPECT_GT(swept.lse.at(row).low[0], -kInfinite) << "all rows that remain see a key";
    EXPECT_LT(swept.lse.at(row).high[0], kInfinite);
  }
}

// A row may turn out to see no key where MASK hides pairs: then O is 0 and LSE -inf.
TEST(ValueBounds, WithAMaskHoldZero) {
  Case c = make_case("mask", [](Params&) {}, {ATTEST_MASK, ATTEST_LSE});
  for (int64_t n = 0; n < element_count(c.tensors[ATTEST_V].spec); ++n) put(c, ATTEST_V, n, 3);
  Case dense = make_case("dense", [](Params&) {}, {ATTEST_LSE});
  for (int64_t n = 0; n < element_count(dense.tensors[ATTEST_V].spec); ++n)
    put(dense, ATTEST_V, n, 3);
  const Fixture masked(std::move(c)), unmasked(std::move(dense));
  const Swept with(masked.bounds, masked.geometry), without(unmasked.bounds, unmasked.geometry);
  EXPECT_EQ(with.o.at(5).low[0], 0);
  EXPECT_NEAR(without.o.at(5).low[0], 3, 1e-4);
  EXPECT_EQ(with.lse.at(5).low[0], -kInfinite);
  EXPECT_GT(without.lse.at(5).low[0], -kInfinite);
  EXPECT_NEAR(with.o.at(5).high[0], 3, 1e-4);
}

TEST(ValueBounds, ARowThatMayBeNaNHasNone) {
  Case c = make_case("bias", [](Params&) {}, {ATTEST_BIAS, ATTEST_LSE});
  put(c, ATTEST_Q, 4 * 8, kNotANumber);  // row 4 of head 0
  const int64_t row = c.tensors[ATTEST_BIAS].spec.stride[2];
  put(c, ATTEST_BIAS, 6 * row + 1, kInfinite);
  put(c, ATTEST_BIAS, 7 * row + 1, -kInfinite);  // it hides a key, and no more
  const Fixture f(std::move(c));
  const Swept swept(f.bounds, f.geometry);
  EXPECT_THAT(swept.unbounded(), ElementsAre(4, 6));
  EXPECT_TRUE(std::isnan(swept.lse.at(4).high[0]));
  EXPECT_FALSE(std::isnan(swept.lse.at(7).high[0]));
}

// Biases that f16 does not hold hide all of a row from a kernel whose scores are f16.
TEST(ValueBounds, ScoresDecideWhetherARowOfLowBiasesHasBounds) {
  Case c = make_case("bias", [](Params&) {}, {ATTEST_BIAS});
  const int64_t row = c.tensors[ATTEST_BIAS].spec.stride[2];
  for (int64_t j = 0; j < 37; ++j) put(c, ATTEST_BIAS, 9 * row + j, -2e5);
  for (int64_t j = 0; j < 36; ++j) put(c, ATTEST_BIAS, 10 * row + j, -2e5);
  const Fixture f(std::move(c));
  EXPECT_THAT(Swept(f.bounds, f.geometry, {.score = ATTEST_F16}).unbounded(), ElementsAre(9));
  EXPECT_THAT(Swept(f.bounds, f.geometry, {.score = ATTEST_F32}).unbounded(), IsEmpty());
}

TEST(ValueBounds, ScoresBeyondF16LeaveNoBoundsForAKernelOfF16) {
  const Fixture f(make_case("dense", [](Params&) {}), true);
  EXPECT_EQ(Swept(f.bounds, f.geometry, {.score = ATTEST_F16}).unbounded().size(), 74u);
  EXPECT_THAT(Swept(f.bounds, f.geometry, {.score = ATTEST_F32}).unbounded(), IsEmpty());
}

}  // namespace
}  // namespace attest::core
