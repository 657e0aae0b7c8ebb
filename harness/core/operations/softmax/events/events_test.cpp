// Events of inputs that are written here, key by key: each has the events that it should, and those
// alone.
#include "core/operations/softmax/events/events.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "core/operations/softmax/events/unit.hpp"
#include "core/operations/softmax/testing/make_case.hpp"

namespace attest::core {
namespace {

using core::testing::Case;
using core::testing::make_case;
using ::testing::AllOf;
using ::testing::Contains;
using ::testing::IsEmpty;
using ::testing::IsSupersetOf;
using ::testing::Not;
using ::testing::UnorderedElementsAre;
using Names = std::set<std::string>;
using P = attest_softmax_params;
constexpr double kNan = std::numeric_limits<double>::quiet_NaN(),
                 kInf = std::numeric_limits<double>::infinity();

void put(const Tensor& tensor, std::initializer_list<int64_t> index, double value) {
  int64_t at = 0;
  size_t axis = 0;
  for (const int64_t i : index) at += i * tensor.spec.stride[axis++];
  store(tensor.data, tensor.spec.dtype, at, value);
}

// One head of which the score of query i and key j is `query(i)` times `key(j)`: 1 and 0 unless a
// test says otherwise. Values are 1.
class Hand {
 public:
  explicit Hand(int64_t keys, int64_t queries = 1, const std::function<void(P&)>& set = {},
                const std::vector<int32_t>& with = {}, DType dtype = ATTEST_F32)
      : case_(make_case(
            "by hand",
            [&](P& p) {
              p.num_heads = 1;
              p.seq_len_q = queries;
              p.seq_len_kv = keys;
              p.head_dim = 2;
              p.head_dim_v = 2;
              p.softmax_scale = 1;
              if (set) set(p);
            },
            with, dtype)) {
    query([](int64_t) { return 1.0; });
    key([](int64_t) { return 0.0; });
    value([](int64_t, int64_t) { return 1.0; });
    if (case_.tensors[ATTEST_MASK]) hide([](int64_t, int64_t) { return false; });
  }

  Hand& query(const std::function<double(int64_t)>& of) {
    const P& p = case_.params();
    for (int64_t h = 0; h < p.num_heads; ++h)
      for (int64_t i = 0; i < p.seq_len_q; ++i) {
        put(case_.tensors[ATTEST_Q], {0, h, i, 0}, of(i));
        put(case_.tensors[ATTEST_Q], {0, h, i, 1}, 0);
      }
    return *this;
  }
  Hand& key(const std::function<double(int64_t)>& of) {
    const P& p = case_.params();
    for (int64_t h = 0; h < p.num_kv_heads; ++h)
      for (int64_t j = 0; j < p.seq_len_kv; ++j) {
        put(case_.tensors[ATTEST_K], {0, h, j, 0}, of(j));
        put(case_.tensors[ATTEST_K], {0, h, j, 1}, 0);
      }
    return *this;
  }
  Hand& value(const std::function<double(int64_t, int64_t)>& of) {
    const P& p = case_.params();
    for (int64_t h = 0; h < p.num_kv_heads; ++h)
      for (int64_t j = 0; j < p.seq_len_kv; ++j)
        for (int64_t c = 0; c < p.head_dim_v; ++c)
          put(case_.tensors[ATTEST_V], {0, h, j, c}, of(j, c));
    return *this;
  }
  Hand& hide(const std::function<bool(int64_t, int64_t)>& hidden) {
    const P& p = case_.params();
    for (int64_t i = 0; i < p.seq_len_q; ++i)
      for (int64_t j = 0; j < p.seq_len_kv; ++j) {
        if (case_.tensors[ATTEST_MASK])
          put(case_.tensors[ATTEST_MASK], {0, 0, i, j}, hidden(i, j) ? 0 : 1);
        if (case_.tensors[ATTEST_BIAS])
          put(case_.tensors[ATTEST_BIAS], {0, 0, i, j}, hidden(i, j) ? -kInf : 0);
      }
    return *this;
  }
  const Tensor& tensor(int32_t role) const { return case_.tensors[size_t(role)]; }

  /// Without `judged`, all rows are.
  Names count(std::vector<bool> judged = {}) const {
    if (judged.empty()) judged.assign(size_t(row_count(case_.problem.tensor[ATTEST_O], 3)), true);
    return softmax_operation().count_events(case_.problem, case_.tensors, judged);
  }
  /// Those that begin with a word.
  Names count(const std::string& word) const {
    Names some;
    for (const std::string& name : count())
      if (name.starts_with(word)) some.insert(name);
    return some;
  }

 private:
  Case case_;
};

// A score that stands out at one place.
std::function<double(int64_t)> peak(int64_t at, double height) {
  return [=](int64_t j) { return j == at ? height : 0.0; };
}

TEST(Events, AMaximumThatRisesIsNamedByTileAndSize) {
  // 83 keys: tiles of 16 end with a short one of 3, tiles of 32 with one of 19, tiles of 64 with
  // one of 19.
  EXPECT_THAT(Hand(83).key(peak(20, 1)).count("rise/"),
              UnorderedElementsAre("rise/16/second/little", "rise/32/never", "rise/64/never"));
  EXPECT_THAT(Hand(83).key(peak(40, 30)).count("rise/"),
              UnorderedElementsAre("rise/16/middle/much", "rise/32/second/much", "rise/64/never"));
  EXPECT_THAT(Hand(83).key(peak(81, 70)).count("rise/"),
              UnorderedElementsAre("rise/16/tail/over_64", "rise/32/tail/over_64",
                                   "rise/64/second/over_64", "rise/64/tail/over_64"));
  EXPECT_THAT(Hand(64).key(peak(63, 100)).count("rise/"),
              UnorderedElementsAre("rise/16/last/over_88", "rise/32/last/over_88",
                                   "rise/32/second/over_88"));
  EXPECT_THAT(Hand(83).key(peak(3, 100)).count("rise/"),
              UnorderedElementsAre("rise/16/never", "rise/32/never", "rise/64/never"));
  EXPECT_THAT(Hand(512).key(peak(300, 5)).count("rise/"),
              UnorderedElementsAre());  // a size that has no name
  EXPECT_THAT(Hand(15).key(peak(14, 30)).count("rise/"), IsEmpty());
}

TEST(Events, AMaximumThatRisesTwiceIsNamedByItsFirstRise) {
  const auto twice = [](int64_t j) { return j == 50 ? 1.0 : j == 70 ? 30.0 : 0.0; };
  EXPECT_THAT(Hand(83).key(twice).count("rise/16"), UnorderedElementsAre("rise/16/middle/little"));
  // A tremble of a hundredth is no rise.
  EXPECT_THAT(Hand(83)
                  .key([](int64_t j) { return j == 50   ? 0.01
                                              : j == 70 ? 30.0
                                                        : 0.0; })
                  .count("rise/16"),
              UnorderedElementsAre("rise/16/middle/much"));
}

TEST(Events, AMaximumThatAlwaysRises) {
  EXPECT_THAT(Hand(83).key([](int64_t j) { return double(j / 16); }).count("rise/16"),
              UnorderedElementsAre("rise/16/always", "rise/16/second/little"));
  EXPECT_THAT(
      Hand(83).key([](int64_t j) { return j < 16   ? 0.0
                                          : j < 48 ? 1.0
                                                   : 2.0; }).count("rise/16"),
      UnorderedElementsAre("rise/16/second/little"));
  EXPECT_THAT(Hand(16 * 100)
                  .key([](int64_t j) { return double(std::min<int64_t>(j / 16, 24)); })
                  .count("rise/16"),
              Contains("rise/16/always"));
  EXPECT_THAT(Hand(16 * 100)
                  .key([](int64_t j) { return double(std::min<int64_t>(j / 16, 23)); })
                  .count("rise/16"),
              Not(Contains("rise/16/always")));
}

TEST(Events, TilesCountFromWhereTheyDo) {
  // A band sees places 40 to 60: in tiles of 16 the first ends at 48.
  const auto band = [](P& p) {
    p.window_left = 10;
    p.window_right = 10;
  };
  std::vector<bool> judged(100);
  judged[50] = true;
  EXPECT_THAT(Hand(100, 100, band).key(peak(49, 30)).count(judged),
              IsSupersetOf(Names{"rise/16/second/much", "rise/16/tail/much"}));
  EXPECT_THAT(Hand(100, 100, band).key(peak(47, 30)).count(judged), Contains("rise/16/never"));
  // Patches of 20 begin anew: place 56 lies in the second tile of the patch from 40.
  const auto patch = [](P& p) { p.patch_size = 20; };
  EXPECT_THAT(Hand(100, 100, patch).key(peak(56, 30)).count(judged), Contains("rise/16/tail/much"));
  EXPECT_THAT(Hand(100, 100, patch).key(peak(55, 30)).count(judged), Contains("rise/16/never"));
}

TEST(Events, OnlyJudgedRowsCount) {
  std::vector<bool> judged(2);
  const Hand hand =
      std::move(Hand(40, 2).query([](int64_t i) { return double(i); }).key(peak(20, 30)));
  judged[0] = true;
  EXPECT_THAT(hand.count(judged), Not(Contains("rise/16/second/much")));
  judged[1] = true;
  EXPECT_THAT(hand.count(judged), Contains("rise/16/second/much"));
}

TEST(Events, ALargestScoreThatStandsAloneInALane) {
  EXPECT_THAT(Hand(150).key(peak(83, 100)).count("lane/"),
              UnorderedElementsAre("lane/16/3", "lane/32/19", "lane/64/19"));
  EXPECT_THAT(Hand(150).key(peak(40, 100)).count("lane/"),
              UnorderedElementsAre("lane/16/8", "lane/32/8"));
  EXPECT_THAT(Hand(150).key(peak(83, 80)).count("lane/"), IsEmpty());
  EXPECT_THAT(
      Hand(150).key([](int64_t j) { return j == 83 || j == 20 ? 100.0 : 0.0; }).count("lane/"),
      IsEmpty());
}

TEST(Events, SmallWeightsThatShow) {
  // The top has no value in channel 1: what is there comes from the others.
  auto gap = [](double g, int64_t at, double top_value) {
    return std::move(Hand(1000).key(peak(at, g)).value([=](int64_t j, int64_t c) {
      return j == at && c == 1 ? top_value : 1.0;
    }));
  };
  EXPECT_THAT(gap(10, 0, 0).count("gap/"), UnorderedElementsAre("gap/after_top/10"));
  EXPECT_THAT(gap(14, 999, 0).count("gap/"), UnorderedElementsAre("gap/before_top/14"));
  EXPECT_THAT(gap(20, 500, 0).count("gap/"),
              UnorderedElementsAre("gap/after_top/20", "gap/before_top/20"));
  EXPECT_THAT(gap(20, 500, 1).count("gap/"),
              IsEmpty());  // beside the top's own value they are nothing
  EXPECT_THAT(gap(40, 500, 0).count("gap/"), UnorderedElementsAre("gap/cut/40"));
  EXPECT_THAT(gap(40, 500, 1).count("gap/"), IsEmpty());
  EXPECT_THAT(gap(6, 500, 0).count("gap/"), IsEmpty());
  EXPECT_THAT(Hand(1000)
                  .key([](int64_t j) { return j % 50 == 0 ? 10.0 : 0.0; })
                  .value([](int64_t j, int64_t) { return j % 50 == 0 ? 0.0 : 1.0; })
                  .count("gap/"),
              IsEmpty())
      << "20 keys are no few";
}

TEST(Events, WhatMasksHideOfARow) {
  for (const auto& [role, name] :
       {std::pair(ATTEST_MASK, "mask"), std::pair(ATTEST_BIAS, "bias")}) {
    auto hidden = [&](int64_t begin, int64_t end) {
      return std::move(
          Hand(100, 1, {}, {role}).hide([=](int64_t, int64_t j) { return j >= begin && j < end; }));
    };
    const std::string group = fmt::format("hidden/{}/", name);
    EXPECT_THAT(hidden(0, 16).count("hidden/"), UnorderedElementsAre(group + "16/first"));
    EXPECT_THAT(hidden(32, 64).count("hidden/"),
                UnorderedElementsAre(group + "16/middle", group + "32/middle"));
    EXPECT_THAT(hidden(96, 100).count("hidden/"),
                UnorderedElementsAre(group + "16/last", group + "32/last"));
    EXPECT_THAT(hidden(33, 50).count("hidden/"), UnorderedElementsAre(group + "unaligned/16"));
    EXPECT_THAT(hidden(33, 35).count("hidden/"), UnorderedElementsAre(group + "scattered"));
    EXPECT_THAT(hidden(0, 100).count("hidden/"), IsEmpty()) << "a row that sees nothing";
    EXPECT_THAT(hidden(0, 0).count("hidden/"), IsEmpty());
  }
}

TEST(Events, BlocksThatMasksHide) {
  for (const auto& [role, name] :
       {std::pair(ATTEST_MASK, "mask"), std::pair(ATTEST_BIAS, "bias")}) {
    auto hidden = [&](const std::function<bool(int64_t)>& rows) {
      return std::move(Hand(64, 64, {}, {role}).hide([=](int64_t i, int64_t j) {
        return j >= 16 && j < 32 && rows(i);
      }));
    };
    const std::string group = fmt::format("block/{}/16/", name);
    EXPECT_THAT(hidden([](int64_t) { return true; }).count("block/"),
                UnorderedElementsAre(group + "all"));
    EXPECT_THAT(hidden([](int64_t i) { return i == 0; }).count("block/"),
                UnorderedElementsAre(group + "first_row"));
    EXPECT_THAT(hidden([](int64_t i) { return i == 63; }).count("block/"),
                UnorderedElementsAre(group + "last_row"));
    EXPECT_THAT(hidden([](int64_t i) { return i != 30; }).count("block/"),
                UnorderedElementsAre(group + "all_but_one"));
    EXPECT_THAT(hidden([](int64_t i) { return i == 30; }).count("block/"), IsEmpty());
  }
}

bool is_wild_name(const std::string& name) {
  return name.starts_with("nan") || name.starts_with("inf") || name.starts_with("hidden_nan");
}

Names wild(const Hand& hand) {
  Names some;
  for (const std::string& name : hand.count())
    if (is_wild_name(name) && name.find("_tile/") == std::string::npos) some.insert(name);
  return some;
}

TEST(Events, NanAndInfinitiesThatRowsSee) {
  for (const auto& [number, kind] :
       {std::pair(kNan, std::string("nan/")), std::pair(kInf, std::string("inf/"))}) {
    Hand two_heads(20, 3, [](P& p) { p.num_heads = p.num_kv_heads = 2; });
    EXPECT_THAT(wild(two_heads), IsEmpty());
    put(two_heads.tensor(ATTEST_K), {0, 1, 7, 0}, number);
    EXPECT_THAT(wild(two_heads), UnorderedElementsAre(kind + "k"));

    Hand one_head(20, 3);
    put(one_head.tensor(ATTEST_K), {0, 0, 7, 0}, number);
    EXPECT_THAT(wild(one_head), IsEmpty()) << "all is NaN";

    Hand causal(20, 20, [](P& p) { p.window_right = 0; });
    put(causal.tensor(ATTEST_K), {0, 0, 7, 0}, number);
    EXPECT_THAT(wild(causal), UnorderedElementsAre(kind + "k", "nan/of_others/k"));

    Hand query(20, 3);
    put(query.tensor(ATTEST_Q), {0, 0, 1, 1}, number);
    EXPECT_THAT(wild(query), UnorderedElementsAre(kind + "q"));

    Hand value(20, 3);
    put(value.tensor(ATTEST_V), {0, 0, 7, 1}, number);
    EXPECT_THAT(wild(value), UnorderedElementsAre(kind + "v"));
    value.key(peak(3, 100));
    EXPECT_THAT(wild(value), IsEmpty()) << "it has no weight";

    Hand bias(20, 3, {}, {ATTEST_BIAS});
    bias.hide([](int64_t, int64_t) { return false; });
    put(bias.tensor(ATTEST_BIAS), {0, 0, 1, 7}, number);
    EXPECT_THAT(wild(bias), UnorderedElementsAre(kind + "bias"));
  }
}

Names at_ends(const Hand& hand) {
  Names some;
  for (const std::string& name : hand.count())
    if (name.find("_tile/") != std::string::npos) some.insert(name);
  return some;
}

// 83 keys: tiles of 16, 32 and 64 end with a short one.
TEST(Events, ScoresThatOneTileSpoils) {
  // Channel 1 is asked for by query 1 alone; the others multiply 0 or -1 there.
  const auto spoilt = [](std::initializer_list<int64_t> keys, double query) {
    Hand hand(83, 2);
    put(hand.tensor(ATTEST_Q), {0, 0, 0, 1}, -1);
    put(hand.tensor(ATTEST_Q), {0, 0, 1, 1}, query);
    for (const int64_t j : keys) put(hand.tensor(ATTEST_K), {0, 0, j, 1}, kInf);
    return at_ends(hand);
  };
  EXPECT_THAT(spoilt({15}, 0),
              UnorderedElementsAre("nan/first_tile/score", "inf/first_tile/-score"));
  EXPECT_THAT(spoilt({15}, 2),
              UnorderedElementsAre("inf/first_tile/+score", "inf/first_tile/-score"));
  EXPECT_THAT(spoilt({80}, 0), UnorderedElementsAre("nan/last_tile/score", "inf/last_tile/-score"));
  EXPECT_THAT(spoilt({82}, 2),
              UnorderedElementsAre("inf/last_tile/+score", "inf/last_tile/-score"));
  EXPECT_THAT(spoilt({15}, -1), UnorderedElementsAre("inf/first_tile/-score"));
  EXPECT_THAT(spoilt({16}, 0), IsEmpty()) << "the first tile of 32 alone";
  EXPECT_THAT(spoilt({79}, 0), IsEmpty()) << "the last tile of 64 alone";
  EXPECT_THAT(spoilt({3, 82}, 0),
              UnorderedElementsAre("inf/first_tile/-score", "inf/last_tile/-score"));
}

TEST(Events, ValuesThatOneTileSpoils) {
  const auto spoilt = [](std::initializer_list<int64_t> keys, double value) {
    Hand hand(83, 2);
    for (const int64_t j : keys) put(hand.tensor(ATTEST_V), {0, 0, j, 1}, value);
    return hand;
  };
  EXPECT_THAT(at_ends(spoilt({0}, kNan)), UnorderedElementsAre("nan/first_tile/v"));
  EXPECT_THAT(at_ends(spoilt({15}, kInf)), UnorderedElementsAre("inf/first_tile/+v"));
  EXPECT_THAT(at_ends(spoilt({81, 82}, -kInf)), UnorderedElementsAre("inf/last_tile/-v"));
  EXPECT_THAT(at_ends(spoilt({0, 82}, kNan)), IsEmpty());
  EXPECT_THAT(at_ends(spoilt({40}, kNan)), IsEmpty());
  Hand of_both_kinds = spoilt({3}, kNan);
  put(of_both_kinds.tensor(ATTEST_V), {0, 0, 4, 1}, kInf);
  EXPECT_THAT(at_ends(of_both_kinds), IsEmpty());
  EXPECT_THAT(at_ends(spoilt({3}, kNan).key(peak(40, 100))), IsEmpty()) << "it has no weight";
}

// What a row sees counts, not where the sequence ends.
TEST(Events, EndsAreThoseOfARow) {
  Hand causal(83, 83, [](P& p) { p.window_right = 0; });
  put(causal.tensor(ATTEST_V), {0, 0, 70, 1}, kNan);
  EXPECT_THAT(at_ends(causal), UnorderedElementsAre("nan/last_tile/v"));
  Hand masked(83, 2, {}, {ATTEST_MASK});
  masked.hide([](int64_t i, int64_t j) { return i == 0 && j == 82; });
  put(masked.tensor(ATTEST_K), {0, 0, 82, 0}, kNan);
  EXPECT_THAT(at_ends(masked), UnorderedElementsAre("nan/last_tile/score"));
  masked.hide([](int64_t, int64_t j) { return j == 82; });
  EXPECT_THAT(at_ends(masked), IsEmpty());
  Hand one_tile(16, 2);
  put(one_tile.tensor(ATTEST_V), {0, 0, 3, 1}, kNan);
  EXPECT_THAT(at_ends(one_tile), IsEmpty());
}

TEST(Events, NanThatNobodySees) {
  // Top left, 20 queries see 20 of 30 keys.
  Hand unseen(30, 20, [](P& p) { p.window_right = 0; });
  EXPECT_THAT(wild(unseen), IsEmpty());
  put(unseen.tensor(ATTEST_K), {0, 0, 25, 0}, kNan);
  EXPECT_THAT(wild(unseen), UnorderedElementsAre("hidden_nan/k"));
  put(unseen.tensor(ATTEST_V), {0, 0, 26, 0}, kInf);
  EXPECT_THAT(wild(unseen), UnorderedElementsAre("hidden_nan/k", "hidden_nan/v"));

  Hand masked(30, 4, {}, {ATTEST_MASK});
  put(masked.tensor(ATTEST_V), {0, 0, 9, 0}, kNan);
  masked.hide([](int64_t i, int64_t j) { return j == 9 && i != 2; });
  EXPECT_THAT(wild(masked), UnorderedElementsAre("nan/v"));
  masked.hide([](int64_t, int64_t j) { return j == 9; });
  EXPECT_THAT(wild(masked), UnorderedElementsAre("hidden_nan/v"));
}

TEST(Events, ScoresThatSpreadFar) {
  const auto found = [](int64_t keys, const std::function<double(int64_t)>& key) {
    return Hand(keys).key(key).count("spread/");
  };
  EXPECT_THAT(found(40, peak(20, 200)), IsEmpty());
  EXPECT_THAT(found(40, peak(20, 201)), UnorderedElementsAre("spread/16/rise/200"));
  EXPECT_THAT(found(40, peak(33, 2001)),
              UnorderedElementsAre("spread/16/rise/200", "spread/16/rise/2000",
                                   "spread/32/rise/200", "spread/32/rise/2000", "spread/gap/1000"));
  // A maximum that rises by no more in each tile, or in the first one alone
  EXPECT_THAT(found(64, [](int64_t j) { return double(j / 16 * 150); }),
              UnorderedElementsAre("spread/32/rise/200"));
  EXPECT_THAT(found(40, peak(3, 900)), IsEmpty());
  EXPECT_THAT(found(16, peak(3, 6000)), UnorderedElementsAre("spread/gap/5000"));
  EXPECT_THAT(found(16, peak(3, 30000)), UnorderedElementsAre("spread/gap/23000"));
  EXPECT_THAT(found(16, peak(3, 50000)), IsEmpty());
  EXPECT_THAT(found(16, [](int64_t j) { return j == 3 ? -10 : -99; }),
              UnorderedElementsAre("spread/16/negative", "spread/32/negative", "spread/64/negative",
                                   "spread/128/negative", "spread/256/negative"));
  EXPECT_THAT(found(16, [](int64_t j) { return j == 3 ? -10 : -98; }), IsEmpty());
  EXPECT_THAT(found(16, [](int64_t j) { return j == 3 ? 1 : -99; }), IsEmpty());
  // Below the maximum that tiles before had
  EXPECT_THAT(found(32, [](int64_t j) { return j < 16    ? -5
                                               : j == 20 ? -10
                                                         : -99; }),
              Not(Contains("spread/16/negative")));
  Hand masked(32, 1, {}, {ATTEST_MASK});
  masked.key([](int64_t j) { return j < 16 ? 0 : j == 20 ? -10 : -99; });
  EXPECT_THAT(masked.count("spread/"), IsEmpty());
  masked.hide([](int64_t, int64_t j) { return j < 16; });
  EXPECT_THAT(masked.count("spread/"), IsSupersetOf({"spread/16/negative", "spread/64/negative"}));
}

TEST(Events, ScoresWhereTanhBends) {
  const auto found = [](const std::function<double(int64_t)>& key) {
    return Hand(8, 1, [](P& p) { p.softcap = 10; }).key(key).count("softcap/");
  };
  EXPECT_THAT(found([](int64_t j) { return j < 4 ? 30 : 50; }),
              UnorderedElementsAre("softcap/bends"));
  EXPECT_THAT(found([](int64_t j) { return j < 4 ? 20 : 50; }), IsEmpty());
  EXPECT_THAT(found([](int64_t j) { return j < 4 ? 30 : 40; }), IsEmpty());
  EXPECT_THAT(found([](int64_t j) { return j < 4 ? 30 : 101; }), IsEmpty());
}

TEST(Events, SubnormalNumbersOfF16) {
  const auto found = [](double query, const std::function<double(int64_t)>& key, double value,
                        DType dtype = ATTEST_F16) {
    return Hand(8, 1, {}, {}, dtype)
        .query([&](int64_t) { return query; })
        .key(key)
        .value([&](int64_t, int64_t) { return value; })
        .count("subnormal/");
  };
  const auto by_turns = [](double even, double odd) {
    return [=](int64_t j) { return j % 2 == 0 ? even : odd; };
  };
  EXPECT_THAT(found(8192, by_turns(0x1p-15, 0), 1), UnorderedElementsAre("subnormal/k"));
  EXPECT_THAT(found(8192, by_turns(0x1p-15, 0), 1, ATTEST_F32), IsEmpty());
  EXPECT_THAT(found(8000, by_turns(0x1p-15, 0), 1), IsEmpty());        // moves a score by less
  EXPECT_THAT(found(8192, by_turns(0x1p-15, 0x1p-15), 1), IsEmpty());  // moves all alike
  EXPECT_THAT(found(8192, by_turns(0x1p-14, 0), 1), IsEmpty());        // is normal
  EXPECT_THAT(found(0x1p-15, by_turns(8192, 0), 1), UnorderedElementsAre("subnormal/q"));
  EXPECT_THAT(found(1, by_turns(1, 0), 0x1p-15), UnorderedElementsAre("subnormal/v"));
  EXPECT_THAT(found(1, by_turns(1, 0), 0x1p-20), IsEmpty());  // is lost in the output's rounding
  EXPECT_THAT(found(1, by_turns(1, 0), 0), IsEmpty());
}

TEST(Events, FiniteBiasesThatHide) {
  const double lowest = std::numeric_limits<float>::lowest();
  const auto found = [](const std::function<double(int64_t, int64_t)>& bias, DType dtype) {
    const Hand hand(40, 2, {}, {ATTEST_BIAS}, dtype);
    for (int64_t i = 0; i < 2; ++i)
      for (int64_t j = 0; j < 40; ++j) put(hand.tensor(ATTEST_BIAS), {0, 0, i, j}, bias(i, j));
    return hand.count("finite_bias/");
  };
  EXPECT_THAT(found([](int64_t, int64_t) { return 0.0; }, ATTEST_F32), IsEmpty());
  EXPECT_THAT(found([](int64_t i, int64_t) { return i == 1 ? -10000 : 0.0; }, ATTEST_F32),
              UnorderedElementsAre("finite_bias/only"));
  const auto in_turn = [](double least) {
    return [least](int64_t, int64_t j) { return j % 2 == 0 ? least : -10000.0; };
  };
  EXPECT_THAT(found(in_turn(-10099), ATTEST_F32), UnorderedElementsAre("finite_bias/only"));
  EXPECT_THAT(found(in_turn(-10100), ATTEST_F32),
              UnorderedElementsAre("finite_bias/only", "finite_bias/differ"));
  // Beside one key that has none, -inf and what another type has for its lowest number
  EXPECT_THAT(found([](int64_t, int64_t j) { return j > 0 ? -10000 : 0.0; }, ATTEST_F32),
              IsEmpty());
  EXPECT_THAT(found([](int64_t, int64_t j) { return j > 0 ? -kInf : 0.0; }, ATTEST_F32), IsEmpty());
  EXPECT_THAT(found([](int64_t, int64_t j) { return j > 0 ? -65504 : 0.0; }, ATTEST_F32),
              IsEmpty());
  EXPECT_THAT(found([](int64_t, int64_t j) { return j > 0 ? -65504 : 0.0; }, ATTEST_F16),
              UnorderedElementsAre("finite_bias/lowest"));
  EXPECT_THAT(found([&](int64_t, int64_t j) { return j < 15 ? lowest : 0.0; }, ATTEST_F32),
              UnorderedElementsAre("finite_bias/lowest"));
  EXPECT_THAT(found([&](int64_t, int64_t j) { return j < 16 ? lowest : 0.0; }, ATTEST_F32),
              UnorderedElementsAre("finite_bias/lowest", "finite_bias/16/first"));
  EXPECT_THAT(found([&](int64_t, int64_t) { return lowest; }, ATTEST_F32),
              UnorderedElementsAre("finite_bias/only"));
}

TEST(Events, SinksThatLeadOrTrail) {
  for (const auto& [sink, event] : std::vector<std::pair<double, std::string>>{
           {87, ""}, {89, "sink/leads"}, {-87, ""}, {-89, "sink/trails"}}) {
    const Hand hand(20, 2, {}, {ATTEST_SINKS});
    store(hand.tensor(ATTEST_SINKS).data, ATTEST_F32, 0, sink);
    EXPECT_EQ(hand.count("sink/"), event.empty() ? Names{} : Names{event}) << sink;
  }
  EXPECT_THAT(Hand(20, 2).key(peak(3, 200)).count("sink/"), IsEmpty());
}

TEST(Events, SumsAndSizesOfLogits) {
  EXPECT_THAT(Hand(65504).count("equal"), UnorderedElementsAre("equal/65504"));
  EXPECT_THAT(Hand(65503).count("equal"), IsEmpty());
  EXPECT_THAT(Hand(65600).key(peak(9, 1)).count("equal"), IsEmpty());
  EXPECT_THAT(Hand(20).key(peak(9, 30000)).count("logit"), UnorderedElementsAre("logit/+30000"));
  EXPECT_THAT(Hand(20).key(peak(9, -30000)).count("logit"), IsEmpty());
  EXPECT_THAT(Hand(20).key([](int64_t) { return -30000.0; }).count("logit"),
              UnorderedElementsAre("logit/-30000"));
}

TEST(Events, WeightsThatAllCount) {
  auto graded = [](double step) {
    return std::move(Hand(96).key([=](int64_t j) { return step * double(j % 12); }));
  };
  EXPECT_THAT(graded(0.3).count("weights/graded"), Not(IsEmpty()));
  EXPECT_THAT(graded(0.6).count("weights/graded"), IsEmpty()) << "7 of them are within e^-4";
  EXPECT_THAT(Hand(96).count("weights/graded"), IsEmpty());
  EXPECT_THAT(
      Hand(96).key([](int64_t j) { return 1000 + 0.3 * double(j % 12); }).count("weights/graded"),
      IsEmpty());
  EXPECT_THAT(graded(0.3)
                  .value([](int64_t j, int64_t) { return j / 12 % 2 == 0 ? 1.0 : -1.0; })
                  .count("weights/graded"),
              IsEmpty());
  Hand rows = std::move(Hand(96, 2).key([](int64_t j) { return 0.3 * double(j % 12); }));
  EXPECT_THAT(rows.count(), Contains("weights/graded"));
  EXPECT_THAT(rows.count(std::vector<bool>{true, false}), Not(Contains("weights/graded")))
      << "not all rows are judged";
}

TEST(Events, KeysThatWeighInSomeRow) {
  // Query i likes the keys near a place of its own.
  Hand liked(64, 64, [](P& p) { p.head_dim = 2; });
  for (int64_t n = 0; n < 64; ++n)
    for (const int32_t role : {ATTEST_Q, ATTEST_K}) {
      const double turn = double(n) / 10, length = role == ATTEST_Q ? 40 : 20;
      put(liked.tensor(role), {0, 0, n, 0}, length * std::cos(turn));
      put(liked.tensor(role), {0, 0, n, 1}, length * std::sin(turn));
    }
  EXPECT_THAT(liked.count("weights/key"), Not(IsEmpty()));
  for (int64_t n = 32; n < 64; ++n)  // half of the queries like a key that is liked already
  {
    put(liked.tensor(ATTEST_Q), {0, 0, n, 0}, 40);
    put(liked.tensor(ATTEST_Q), {0, 0, n, 1}, 0);
  }
  EXPECT_THAT(liked.count("weights/key"), IsEmpty());
  EXPECT_THAT(Hand(64, 8).count("weights/key"), IsEmpty());
}

TEST(Events, ValuesThatCancelOrWeigh) {
  EXPECT_THAT(
      Hand(20).value([](int64_t j, int64_t) { return j % 2 == 0 ? 3.0 : -3.0; }).count("cancels"),
      Not(IsEmpty()));
  EXPECT_THAT(Hand(20)
                  .value([](int64_t j, int64_t c) { return j % 2 == 0 || c == 1 ? 3.0 : -3.0; })
                  .count("cancels"),
              IsEmpty());
  EXPECT_THAT(
      Hand(6).value([](int64_t j, int64_t) { return j % 2 == 0 ? 3.0 : -3.0; }).count("cancels"),
      IsEmpty())
      << "too few keys";
  EXPECT_THAT(Hand(20)
                  .key(peak(5, 10))
                  .value([](int64_t j, int64_t) { return j == 5 ? 200.0 : 1.0; })
                  .count("heavy"),
              Not(IsEmpty()));
  EXPECT_THAT(
      Hand(20).value([](int64_t j, int64_t) { return j == 5 ? 200.0 : 1.0; }).count("heavy"),
      IsEmpty());
  EXPECT_THAT(Hand(20).key([](int64_t j) { return double(j); }).count("distinct"), Not(IsEmpty()));
  EXPECT_THAT(Hand(20).key([](int64_t j) { return double(j % 19); }).count("distinct"), IsEmpty());
}

// One head and sequences of up to 8 tokens, of which `judged` have judged rows.
Names of_lengths(const std::vector<int64_t>& q, const std::vector<int64_t>& kv,
                 const std::set<size_t>& judged) {
  const Case c = make_case("",
                           [&](P& p) {
                             p.batch = int64_t(q.size());
                             p.num_heads = 1;
                             p.seq_len_q = p.seq_len_kv = 8;
                           },
                           {ATTEST_SEQ_LENS_Q, ATTEST_SEQ_LENS_KV});
  std::vector<bool> rows;
  for (size_t b = 0; b < q.size(); ++b) {
    put(c.tensors[ATTEST_SEQ_LENS_Q], {int64_t(b)}, double(q[b]));
    put(c.tensors[ATTEST_SEQ_LENS_KV], {int64_t(b)}, double(kv[b]));
    rows.insert(rows.end(), 8, judged.contains(b));
  }
  Names some;
  for (const std::string& name : softmax_operation().count_events(c.problem, c.tensors, rows))
    if (name.starts_with("lengths/")) some.insert(name);
  return some;
}

TEST(Events, LengthsOfSequences) {
  const auto found = [](const std::vector<int64_t>& q, const std::vector<int64_t>& kv) {
    return of_lengths(q, kv, {0, 1});
  };
  EXPECT_THAT(found({8, 8}, {8, 8}), IsEmpty());
  EXPECT_THAT(found({8, 5}, {8, 5}),
              UnorderedElementsAre("lengths/partial/q", "lengths/partial/kv"));
  EXPECT_THAT(found({8, 8}, {8, 5}), UnorderedElementsAre("lengths/partial/kv", "lengths/q_differs",
                                                          "lengths/offsets_differ"));
  EXPECT_THAT(found({8, 7}, {6, 5}),
              UnorderedElementsAre("lengths/partial/q", "lengths/partial/kv", "lengths/q_differs"));
  EXPECT_THAT(found({8, 0}, {8, 8}), UnorderedElementsAre("lengths/empty/q"));
  EXPECT_THAT(found({8, 8}, {8, 0}), UnorderedElementsAre("lengths/empty/kv"));
  EXPECT_THAT(of_lengths({8, 8}, {8, 5}, {0}), IsEmpty()) << "nothing is judged there";
}

// Row 0 (row 7) of the output belongs to the sequence behind (before) the empty one.
TEST(Events, AnEmptySequenceBesideRowsIsNamed) {
  const auto found = [](const std::vector<int64_t>& q, const std::vector<int64_t>& kv,
                        const std::vector<int64_t>& judged, bool packed = true) {
    Case c = make_case(
        "packed",
        [&](P& p) {
          p.batch = int64_t(q.size());
          p.num_heads = 1;
          p.seq_len_q = p.seq_len_kv = 8;
          p.head_dim = 2;
        },
        packed ? std::vector<int32_t>{ATTEST_CU_SEQLENS_Q, ATTEST_CU_SEQLENS_KV}
               : std::vector<int32_t>{ATTEST_SEQ_LENS_Q, ATTEST_SEQ_LENS_KV});
    int64_t sum_q = 0, sum_kv = 0;
    for (size_t b = 0; b <= q.size(); ++b) {
      const int64_t at = int64_t(b);
      if (packed) {
        put(c.tensors[ATTEST_CU_SEQLENS_Q], {at}, double(sum_q));
        put(c.tensors[ATTEST_CU_SEQLENS_KV], {at}, double(sum_kv));
      } else if (b < q.size()) {
        put(c.tensors[ATTEST_SEQ_LENS_Q], {at}, double(q[b]));
        put(c.tensors[ATTEST_SEQ_LENS_KV], {at}, double(kv[b]));
      }
      if (b < q.size()) {
        sum_q += q[b];
        sum_kv += kv[b];
      }
    }
    std::vector<bool> is_judged(size_t(row_count(c.problem.tensor[ATTEST_O], 3)), false);
    for (const int64_t row : judged) is_judged[size_t(row)] = true;
    Names some;
    for (const std::string& name :
         softmax_operation().count_events(c.problem, c.tensors, is_judged))
      if (name.starts_with("lengths/empty/q_")) some.insert(name);
    return some;
  };
  constexpr const char *kBefore = "lengths/empty/q_before_rows",
                       *kBehind = "lengths/empty/q_behind_rows";
  EXPECT_THAT(found({0, 8}, {2, 8}, {0}), UnorderedElementsAre(kBefore));
  EXPECT_THAT(found({8, 0}, {8, 2}, {7}), UnorderedElementsAre(kBehind));
  EXPECT_THAT(found({4, 0, 4}, {4, 1, 4}, {3, 4}), UnorderedElementsAre(kBefore, kBehind));
  EXPECT_THAT(found({4, 0, 4}, {4, 1, 4}, {0, 7}), IsEmpty()) << "other rows are judged";
  EXPECT_THAT(found({0, 8}, {8, 0}, {0}), IsEmpty()) << "the row is zeros anyway";
  EXPECT_THAT(found({0, 8}, {2, 8}, {0, 8}, false), IsEmpty()) << "each has rows of its own";
}

// Rows of a fill that has few different ones are each there for a step, whatever they cost.
TEST(Events, FewDifferentRowsAreAllLookedAt) {
  const auto looked_at = [](int64_t queries) {
    const Case c = make_case("many queries", [&](P& p) {
      p.num_heads = 1;
      p.seq_len_q = queries;
      p.seq_len_kv = 8;
      p.head_dim = 2;
    });
    for (int64_t i = 0; i < queries; ++i) put(c.tensors[ATTEST_Q], {0, 0, i, 0}, double(i));
    const Geometry geometry(c.problem, c.tensors);
    events::Unit unit(c.problem, c.tensors, geometry, 0, 0);
    unit.load_head(0);
    const std::vector<bool> all(static_cast<size_t>(queries), true);
    return std::ssize(events::choose_rows(unit, all, /*budget=*/1).places);
  };
  EXPECT_EQ(looked_at(200), 200);
  EXPECT_THAT(looked_at(300), AllOf(::testing::Ge(30), ::testing::Le(40)));
}

}  // namespace
}  // namespace attest::core
