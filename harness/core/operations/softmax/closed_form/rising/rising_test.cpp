// The fill "rising": marks stand where they have to, have the leads that queries ask for, and show
// what no other fill does.
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "core/operations/softmax/testing/codebook_trials.hpp"

namespace attest::core::codebook_trials {
namespace {

TEST(Marks, StandBesideTheEdgesOfTiles) {
  const Marks marks(4099, 96);
  for (const int64_t place :
       {int64_t{0}, int64_t{4098}, int64_t{4095}, int64_t{3839 + 256}, int64_t{24}, int64_t{48},
        int64_t{96}, int64_t{192}, int64_t{384}, int64_t{2049}})
    EXPECT_GE(marks.index_of(place), 0) << place;
  for (int64_t place = 1; place < 16; ++place) EXPECT_EQ(marks.index_of(place), -1) << place;
  for (int64_t index = 1; index < marks.size(); ++index)
    EXPECT_LT(marks.place(index - 1), marks.place(index));
}

TEST(Marks, StandInEveryLaneBehindTheFirstTile) {
  for (const int64_t length : {131, 197, 1021, 4099, 262'147}) {
    const Marks marks(length, 96);
    std::set<int64_t> lanes;
    for (int64_t index = 0; index < marks.size(); ++index)
      if (marks.place(index) >= 64) lanes.insert(marks.place(index) % 64);
    EXPECT_EQ(lanes.size(), 64u) << length;
  }
}

TEST(Marks, ShortIntervalsHaveThoseThatFit) {
  for (int64_t length = 1; length < 80; ++length)
    for (const int64_t most : {4, 30, 96}) {
      const Marks marks(length, most);
      ASSERT_LE(marks.size(), most);
      for (int64_t index = 0; index < marks.size(); ++index) {
        ASSERT_LT(marks.place(index), length);
        ASSERT_EQ(marks.index_of(marks.place(index)), index);
      }
    }
}

// Deals asks to `rows` rows that see the first `keys` of all marks.
std::vector<Ask> dealt(const Marks& marks, int64_t rows, int64_t keys) {
  const std::vector<Ask> asks = asks_for(marks, 250, 1);
  std::vector<int64_t> places = marks.places();
  for (int64_t& place : places)
    if (place >= keys) place = -1;
  AskDeal deal(asks);
  std::vector<Ask> found;
  for (int64_t row = 0; row < rows; ++row)
    found.push_back(asks[size_t(deal.next({0, row, 0, {0, keys}, 0}, places))]);
  return found;
}

// Before any lane is asked for again, each rise and each gap is asked for.
TEST(AskDeal, BeginsWithWhatShowsMost) {
  const Marks marks(1000, 96);
  const std::vector<Ask> asks = dealt(marks, 120, 1000);
  std::set<int64_t> lanes, stairs;
  std::set<double> gaps;
  for (const Ask& ask : asks) {
    if (ask.mark < 0) stairs.insert(ask.mark);
    if (ask.is_gap) gaps.insert(ask.lead);
    if (ask.lead > 88 && marks.place(ask.mark) >= 64) lanes.insert(marks.place(ask.mark) % 64);
  }
  EXPECT_EQ(stairs.size(), 2u);
  EXPECT_EQ(gaps.size(), 8u);
  EXPECT_EQ(lanes.size(), 64u);
}

TEST(AskDeal, AsksForNoMarkThatARowDoesNotSee) {
  const Marks marks(1000, 96);
  std::set<std::pair<int64_t, double>> different;
  for (const Ask& ask : dealt(marks, 500, 100)) {
    different.emplace(ask.mark, ask.lead);
    EXPECT_LT(ask.mark < 0 ? 0 : marks.place(ask.mark), 100);
  }
  EXPECT_GT(different.size(), 30u) << "what shows nothing new is asked for in turn";
}

// Of rows that see more and more keys, each asks for what only it can show.
TEST(AskDeal, GivesRowsThatSeeMoreWhatOthersCannotShow) {
  const Marks marks(256, 96);
  const std::vector<Ask> asks = asks_for(marks, 250, 1);
  AskDeal deal(asks);
  const auto next = [&](int64_t keys) {
    std::vector<int64_t> places = marks.places();
    for (int64_t& place : places)
      if (place >= keys) place = -1;
    return asks[size_t(deal.next({0, 0, 0, {0, keys}, 0}, places))];
  };
  for (int64_t n = 0; n < 250; ++n) next(100);
  const int64_t shown = deal.new_deals();
  next(100);
  EXPECT_EQ(deal.new_deals(), shown) << "all is shown that 100 keys show";
  const Ask ask = next(256);
  ASSERT_GE(ask.mark, 0);
  EXPECT_GE(marks.place(ask.mark), 100);
}

TEST(RisingFill, HasRoundsOfItsOwnNames) {
  EXPECT_EQ(round_of("rising"), 0);
  EXPECT_EQ(round_of("rising_2"), 1);
  EXPECT_EQ(round_of("rising_24"), 23);
  for (const char* name :
       {"rising_", "rising_1", "rising_0", "rising_02", "rising_25", "rising_2x", "huge_2"}) {
    EXPECT_EQ(round_of(name), 0) << name;
    EXPECT_FALSE(Codebook::knows(name)) << name;
  }
}

// Of query code `code`, the mark's score less the largest of all other keys.
double lead_of(const Codebook& book, const codebook::HeadScores& scores, size_t code,
               int64_t mark) {
  const double* s = &scores.score[code * size_t(book.key_codes())];
  double others = -INFINITY;
  for (int64_t g = 0; g < book.key_codes(); ++g)
    if (g != mark) others = std::max(others, s[g]);
  return s[mark] - others;
}

TEST(RisingFill, QueriesGiveTheirMarksTheLeadsTheyAskFor) {
  for (const DType dtype : {ATTEST_F32, ATTEST_F16, ATTEST_BF16})
    for (const int64_t head_dim : {32, 64, 128}) {
      SCOPED_TRACE(::testing::Message() << dtype_name(dtype) << " " << head_dim);
      const Case c(dtype, {"rising", 3}, [&](Params& p) {
        p.seq_len_q = 300;
        p.seq_len_kv = 1021;
        p.head_dim = head_dim;
      });
      const Codebook book(c.problem, c.fill, c.tensors);
      const codebook::HeadScores scores(book, c.p(), 0, dtype, dtype);
      const std::vector<Ask> asks = asks_for(Marks(1021, book.edge_codes()), book.query_codes(), 1);
      ASSERT_EQ(int64_t(asks.size()), book.query_codes());
      for (size_t code = 0; code < asks.size(); ++code) {
        const auto& [mark, lead, is_gap] = asks[code];
        if (mark < 0) continue;
        EXPECT_NEAR(lead_of(book, scores, code, mark), lead, 0.05 * lead + 0.5) << code;
      }
    }
}

// With one channel for the directions, some would be 0, or so short that queries overflow in f16.
TEST(RisingFill, QueriesAreFiniteInNarrowHeads) {
  for (const int64_t head_dim : {3, 4})
    for (uint64_t seed = 1; seed <= 100; ++seed) {
      const Case c(ATTEST_F16, {"rising", seed}, [&](Params& p) {
        p.seq_len_q = 91;
        p.seq_len_kv = 150;
        p.head_dim = head_dim;
      });
      const Codebook book(c.problem, c.fill, c.tensors);
      for (const float x : book.queries(0)) ASSERT_LT(std::abs(x), 65504) << seed;
    }
}

// The sum of all that a row sees fits into an accumulator in f16, whatever is added first.
TEST(RisingFill, ValuesShrinkWithTheNumberOfKeys) {
  for (const int64_t keys : {61, 1021, 8191}) {
    const Case c(ATTEST_F32, {"rising", 11}, [&](Params& p) {
      p.seq_len_q = 16;
      p.seq_len_kv = keys;
      p.head_dim = 16;
    });
    double sum = 0, most = 0;
    for (int64_t j = 0; j < keys; ++j) {
      const double value = c.row(ATTEST_V, 0, 0, j)[0];
      sum += value;
      most = std::max(most, value);
    }
    EXPECT_LT(sum, 65504) << keys;
    EXPECT_GE(most, keys > 1000 ? 4 : 64) << "faint weights show by large values; " << keys;
  }
}

TEST(RisingFill, StairsRiseAtEveryMark) {
  const Case c(ATTEST_BF16, {"rising", 3}, [](Params& p) {
    p.seq_len_q = 4;
    p.seq_len_kv = 1021;
    p.head_dim = 64;
  });
  const Codebook book(c.problem, c.fill, c.tensors);
  const codebook::HeadScores scores(book, c.p(), 0, ATTEST_BF16, ATTEST_BF16);
  for (int64_t mark = 1; mark < book.edge_codes(); ++mark)
    EXPECT_NEAR(scores.score[size_t(mark)] - scores.score[size_t(mark - 1)], 3, 0.1) << mark;
}

TEST(RisingFill, StairsRiseAtEveryMarkBelowASoftcap) {
  for (const float softcap : {0.5F, 20.F}) {
    const Case c(ATTEST_F32, {"rising", 3}, [&](Params& p) {
      p.seq_len_q = 4;
      p.seq_len_kv = 1021;
      p.head_dim = 64;
      p.softcap = softcap;
    });
    const Codebook book(c.problem, c.fill, c.tensors);
    const codebook::HeadScores scores(book, c.p(), 0, ATTEST_F32, ATTEST_F32);
    for (int64_t mark = 1; mark < book.edge_codes(); ++mark)
      EXPECT_GT(scores.score[size_t(mark)] - scores.score[size_t(mark - 1)], 5e-4 * double(softcap))
          << mark;
  }
}

// The keys that are no marks differ a little in score. If the best of them first came behind the
// first tile, a row that asks for its last mark would rise before.
TEST(RisingFill, HasEachOtherCodeInItsFirstTile) {
  for (uint64_t seed = 1; seed <= 100; ++seed) {
    const Case c(ATTEST_F16, {"rising", seed}, [](Params& p) {
      p.num_heads = 2;
      p.seq_len_q = 1;
      p.seq_len_kv = 200;
      p.head_dim = 16;
    });
    const Codebook book(c.problem, c.fill, c.tensors);
    for (int64_t head = 0; head < 2; ++head) {
      std::set<int> others;
      for (int64_t j = 0; j < Marks::kFirstTile; ++j)
        if (const int code = book.key_code(head, {0, j}); code >= book.edge_codes())
          others.insert(code);
      ASSERT_EQ(int64_t(others.size()), book.key_codes() - book.edge_codes()) << seed;
    }
  }
}

// The last rows see no key at their own position. A kernel that keeps scores in f16 would see none
// at all if slopes were as steep as elsewhere.
TEST(RisingFill, SlopesLeaveEveryRowAKeyThatF16Holds) {
  const Case c(ATTEST_F32, {"rising_2", 11},
               [](Params& p) {
                 p.num_heads = 2;
                 p.seq_len_q = 3649;
                 p.seq_len_kv = 72;
                 p.head_dim = 16;
                 p.softcap = 3;
                 p.window_right = 0;
               },
               {ATTEST_ALIBI_SLOPES, ATTEST_LSE});
  for (const auto& [row, lse] : Expectations(*c.golden(), {}, ATTEST_LSE).value)
    EXPECT_GT(lse[0], -32768) << row;
}

bool passes(const char* fill, int64_t tokens, const Kernel& kernel) {
  const Case c(ATTEST_F16, {fill, 11}, [&](Params& p) {
    p.seq_len_q = 256;
    p.seq_len_kv = tokens;
    p.head_dim = 32;
  });
  return Flash(c).judge(kernel).pass();
}

// The sum is not rescaled where the last tile, or the short one behind it, brings the largest key:
// no other fill has that.
TEST(RisingFill, AloneSeesARescaleForgottenAtTheEnd) {
  constexpr int64_t kTokens = 4099;
  for (const int64_t tile : {16, 64, 256})
    for (const int64_t unscaled : {kTokens / tile - 1, kTokens / tile}) {
      const Kernel bug{.tile = tile, .unscaled = unscaled};
      EXPECT_FALSE(passes("rising", kTokens, bug)) << tile << " " << unscaled;
      for (const char* fill : {"codebook", "codebook_peaked", "huge", "cancelling"})
        EXPECT_TRUE(passes(fill, kTokens, bug)) << fill << " " << tile << " " << unscaled;
    }
}

// What lies 16 below the largest key still weighs a thirtieth of it, all together.
TEST(RisingFill, AloneSeesSmallWeightsFlushed) {
  constexpr int64_t kTokens = 65'551;
  const Kernel bug{.flushed_below = 1.1e-7f};
  EXPECT_FALSE(passes("rising", kTokens, bug));
  for (const char* fill : {"codebook", "codebook_peaked", "cancelling"})
    EXPECT_TRUE(passes(fill, kTokens, bug)) << fill;
}

}  // namespace
}  // namespace attest::core::codebook_trials
