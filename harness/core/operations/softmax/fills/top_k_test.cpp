// The inputs of problems with top_k: what lies at the edge of their rows.
#include "core/operations/softmax/fills/top_k.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <set>
#include <vector>

#include "core/operations/softmax/problem/geometry.hpp"
#include "core/operations/softmax/testing/make_case.hpp"
#include "core/tensor/constants.hpp"

namespace attest::core {
namespace {

using testing::Case;
using ::testing::ElementsAre;
using testing::make_case;

constexpr int64_t kFewKeys = 7, kManyKeys = 96;

Case with_fill(std::string_view fill, const std::vector<int32_t>& with = {},
               DType dtype = ATTEST_F16) {
  Case c = make_case(
      "",
      [](attest_softmax_params& p) {
        p.num_heads = 4;
        p.num_kv_heads = 2;
        p.seq_len_q = 61;
        p.seq_len_kv = kManyKeys;
        p.head_dim = 16;
        p.top_k = kFewKeys;
      },
      with, dtype);
  write_top_k(c.problem, {std::string(fill), 3}, c.tensors);
  return c;
}

/// The logits of row i of head h that are seen, the largest first. `rounded`: q.k is summed in
/// float32.
std::vector<double> seen_logits(const Case& c, int64_t h, int64_t i, bool rounded = false) {
  const Geometry geometry(c.problem, c.tensors);
  std::vector<double> found;
  for (int64_t j = 0; j < kManyKeys; ++j) {
    double dot = 0, term = 0;
    for (int64_t d = 0; d < c.params().head_dim; ++d) {
      dot += c.tensors[ATTEST_Q].at({0, h, i, d}) * c.tensors[ATTEST_K].at({0, h / 2, j, d});
      if (rounded) dot = double(float(dot));
    }
    if (geometry.pair_terms()) geometry.add_pair_terms(0, h, i, {j, j + 1}, &term);
    if (term > -kInfinity) found.push_back(double(c.params().softmax_scale) * dot + term);
  }
  std::ranges::sort(found, std::greater());
  return found;
}

void each_row(const Case& c, const std::function<void(int64_t h, int64_t i)>& row) {
  for (int64_t h = 0; h < c.params().num_heads; ++h)
    for (int64_t i = 0; i < c.params().seq_len_q; ++i) row(h, i);
}

// Logits are equal, or so far apart that no rounding of bf16 makes them so.
TEST(TopKFill, LevelsAreEqualOrFarApart) {
  for (const std::vector<int32_t>& with : {std::vector<int32_t>{}, {ATTEST_BIAS}}) {
    const Case c = with_fill("top_k_levels", with);
    int tied = 0, below = 0, far = 0, equal = 0, spread = 0, rows = 0;
    each_row(c, [&](int64_t h, int64_t i) {
      const std::vector<double> all = seen_logits(c, h, i);
      for (size_t n = 1; n < all.size(); ++n) {
        const double gap = all[n - 1] - all[n];
        EXPECT_TRUE(gap < 1e-9 || gap > 0.06) << gap << " in row " << i;
      }
      if (int64_t(all.size()) <= kFewKeys) return;
      ++rows;
      tied += all[kFewKeys - 1] - all[kFewKeys] < 1e-9;
      far += std::fabs(all.front()) > 30;
      below += all.front() < 0 && all.front() > -30;
      equal += all.front() - all.back() < 2;
      spread += all.front() - all.back() > 500;
    });
    EXPECT_GT(tied, rows / 2);
    if (!with.empty()) continue;  // it lifts rows that are below 0
    for (const int count : {below, far, equal, spread}) EXPECT_GT(count, rows / 12);
  }
}

// Kernels disagree on which of four keys count, since the order of their sums decides.
TEST(TopKFill, CloseScoresDifferByRoundingsAlone) {
  const Case c = with_fill("top_k_close", {}, ATTEST_F32);
  int differ = 0;
  for (int64_t i = 0; i < c.params().seq_len_q; ++i) {
    const std::vector<double> exact = seen_logits(c, 1, i), rounded = seen_logits(c, 1, i, true);
    for (size_t n = 0; n < exact.size(); n += 4) {
      EXPECT_NEAR(exact[n], exact[n + 3], 1e-12);
      differ += rounded[n] != rounded[n + 3];
    }
  }
  EXPECT_GT(differ, 100);
}

std::vector<int64_t> seen_keys(const Case& c, int64_t h) {
  std::vector<int64_t> seen;
  for (int64_t i = 0; i < 9; ++i) seen.push_back(int64_t(seen_logits(c, h, i).size()));
  return seen;
}

// Of nine rows one sees just top_k keys, one sees one more and one sees one less. Row 0 of the next
// head is like row 1 of this one.
TEST(TopKFill, MasksAndBiasesLeaveKeysOnBothSidesOfTopK) {
  for (const int32_t role : {int32_t{ATTEST_MASK}, int32_t{ATTEST_BIAS}}) {
    const Case c = with_fill("top_k_levels", {role});
    const std::vector<int64_t> first = seen_keys(c, 0), second = seen_keys(c, 1);
    EXPECT_EQ(first[1], kFewKeys);
    EXPECT_EQ(first[4], kFewKeys + 1);
    EXPECT_EQ(first[6], kFewKeys - 1);
    EXPECT_EQ(second[0], kFewKeys);
    for (const size_t other : {0, 2, 3, 5, 7, 8}) EXPECT_GT(first[other], kFewKeys + 1);
  }
}

struct WildCount {
  int nan = 0, infinite = 0;
  bool operator==(const WildCount&) const = default;
};
WildCount wild_count(const Case& c, int32_t role, int64_t head) {
  WildCount found;
  const Tensor& x = c.tensors[size_t(role)];
  for (int64_t i = 0; i < x.spec.dim[2]; ++i)
    for (int64_t d = 0; d < x.spec.dim[3]; ++d) {
      found.nan += std::isnan(x.at({0, head, i, d}));
      found.infinite += std::isinf(x.at({0, head, i, d}));
    }
  return found;
}

TEST(TopKFill, WildHasAFewOfEachKind) {
  const Case c = with_fill("top_k_wild");
  for (int64_t h = 0; h < 4; ++h) EXPECT_EQ(wild_count(c, ATTEST_Q, h), WildCount{1}) << h;
  EXPECT_EQ(wild_count(c, ATTEST_K, 0), WildCount{});
  EXPECT_EQ(wild_count(c, ATTEST_K, 1), WildCount{1});
  for (int64_t h = 0; h < 2; ++h) EXPECT_EQ(wild_count(c, ATTEST_V, h), (WildCount{1, 2})) << h;
  const Case levels = with_fill("top_k_levels");
  for (const int32_t role : {ATTEST_Q, ATTEST_K, ATTEST_V})
    EXPECT_EQ(wild_count(levels, role, 1), WildCount{});
}

TEST(TopKFill, WildIsLeftOutWhereEdgesAreNotClear) {
  const auto with_softcap = [](attest_softmax_params& p) {
    p.top_k = 7;
    p.softcap = 20;
  };
  const auto plain = [](attest_softmax_params& p) { p.top_k = 7; };
  EXPECT_THAT(top_k_fills(make_case("", plain).problem),
              ElementsAre("top_k_levels", "top_k_close", "top_k_wild"));
  EXPECT_THAT(top_k_fills(make_case("", with_softcap).problem),
              ElementsAre("top_k_levels", "top_k_close"));
  const Problem slopes = make_case("", plain, {ATTEST_ALIBI_SLOPES}).problem;
  EXPECT_THAT(top_k_fills(slopes), ElementsAre("top_k_levels", "top_k_close"));
  EXPECT_FALSE(top_k_ties_hold(slopes, "top_k_levels")) << "distances differ";
  EXPECT_TRUE(top_k_ties_hold(make_case("", plain).problem, "top_k_levels"));
  EXPECT_FALSE(top_k_ties_hold(make_case("", plain).problem, "top_k_close"));
}

}  // namespace
}  // namespace attest::core
