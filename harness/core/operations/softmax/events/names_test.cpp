// Which events a problem cannot have: a promise, held against inputs that would have them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "core/operations/softmax/events/events.hpp"
#include "core/operations/softmax/testing/all_cases.hpp"

namespace attest::core {
namespace {

using P = attest_softmax_params;
using core::testing::Case;

std::string why_not(const Case& c, const std::string& name) {
  for (const NumericEvent& event : softmax_operation().events(c.problem))
    if (event.name == name) return event.why_not;
  return "no such event";
}
Case of(const std::function<void(P&)>& set, const std::vector<int32_t>& with = {}) {
  return core::testing::make_case("", set, with);
}

TEST(EventNames, AreDistinct) {
  std::set<std::string> names;
  for (const NumericEvent& event : softmax_operation().events(of([](P&) {}).problem))
    EXPECT_TRUE(names.insert(event.name).second) << event.name;
  EXPECT_GT(names.size(), 250u);
}

// No inputs of small problems of every feature have an event that is said to be impossible, and all
// that are counted have a name.
TEST(EventNames, NothingImpossibleHappens) {
  for (Case& c : core::testing::all_cases()) {
    std::set<std::string> possible;
    for (const NumericEvent& event : softmax_operation().events(c.problem))
      if (event.why_not.empty()) possible.insert(event.name);
    const std::vector<bool> all(size_t(row_count(c.problem.tensor[ATTEST_O], 3)), true);
    for (const std::string& fill : known_fills(c.problem, false)) {
      softmax_operation().fill(c.problem, {fill, 1}, c.tensors, false);
      for (const std::string& name : softmax_operation().count_events(c.problem, c.tensors, all))
        EXPECT_TRUE(possible.contains(name))
            << c.name << ", " << fill << ": " << name << ": " << why_not(c, name);
    }
  }
}

TEST(EventNames, TilesThatRowsDoNotHave) {
  const Case c = of([](P& p) {
    p.seq_len_q = 5;
    p.seq_len_kv = 50;
  });
  EXPECT_EQ(why_not(c, "rise/16/second/little"), "");
  EXPECT_EQ(why_not(c, "rise/16/middle/little"), "");
  EXPECT_EQ(why_not(c, "rise/32/middle/little"), "no row sees 4 tiles of 32");
  EXPECT_EQ(why_not(c, "rise/64/never"), "no row sees 2 tiles of 64");
  EXPECT_EQ(why_not(c, "rise/16/last/much"), "no row of two tiles ends at a multiple of 16");
  EXPECT_EQ(why_not(c, "rise/16/tail/much"), "");
  EXPECT_EQ(why_not(c, "lane/16/15"), "");
  EXPECT_EQ(why_not(c, "lane/32/17"), "");
  EXPECT_EQ(why_not(c, "lane/32/18"), "no row has a key in lane 18 behind its first 32");
  const Case causal = of([](P& p) {
    p.seq_len_q = 50;
    p.window_right = 0;
  });
  EXPECT_EQ(why_not(causal, "rise/16/last/much"), "");
  EXPECT_EQ(why_not(causal, "rise/16/tail/much"), "");
  const Case whole = of([](P& p) { p.seq_len_q = 64; });
  EXPECT_EQ(why_not(whole, "rise/16/tail/much"), "no row of two tiles ends off a multiple of 16");
  EXPECT_EQ(why_not(whole, "rise/16/last/much"), "");
}

TEST(EventNames, WhatASoftcapBounds) {
  const Case c = of([](P& p) {
    p.seq_len_q = 300;
    p.softcap = 20;
  });
  EXPECT_EQ(why_not(c, "rise/16/second/much"), "");
  EXPECT_EQ(why_not(c, "rise/16/second/over_64"), "softcap 20 leaves no two scores 64 apart");
  EXPECT_EQ(why_not(c, "gap/after_top/20"), "");
  EXPECT_EQ(why_not(c, "lane/16/3"), "softcap 20 leaves no two scores 88 apart");
  EXPECT_EQ(why_not(c, "spread/16/rise/200"), "softcap 20 leaves no two scores 200 apart");
  EXPECT_EQ(why_not(c, "spread/16/negative"), "softcap 20 leaves no two negative scores 88 apart");
  EXPECT_EQ(why_not(c, "spread/gap/5000"), "softcap 20 leaves no two scores 5000 apart");
  EXPECT_EQ(why_not(c, "softcap/bends"), "");
  EXPECT_EQ(why_not(c, "logit/+30000"), "softcap 20");
  EXPECT_EQ(why_not(of(
                        [](P& p) {
                          p.seq_len_q = 300;
                          p.softcap = 20;
                        },
                        {ATTEST_BIAS}),
                    "rise/16/second/over_64"),
            "");
}

TEST(EventNames, WhoseScoresSpread) {
  const Case c = of([](P& p) { p.seq_len_q = 50; });
  for (const char* event : {"16/rise/2000", "32/rise/200", "256/negative", "gap/23000"})
    EXPECT_EQ(why_not(c, std::string("spread/") + event), "") << event;
  EXPECT_EQ(why_not(c, "spread/64/rise/200"), "no row sees 2 tiles of 64");
  EXPECT_EQ(why_not(c, "softcap/bends"), "there is no softcap");
  EXPECT_EQ(why_not(of([](P&) {}, {ATTEST_SINKS}), "spread/16/negative"),
            "no fill has sinks below such scores");
  const Case one = of([](P& p) { p.seq_len_kv = 1; });
  for (const char* event : {"gap/1000", "16/negative"})
    EXPECT_EQ(why_not(one, std::string("spread/") + event), "no row sees two keys") << event;
}

TEST(EventNames, WhatSubnormalNumbersCanMove) {
  const Case c = make_case("f16", [](P&) {}, {}, ATTEST_F16);
  for (const char* event : {"q", "k", "v"}) {
    EXPECT_EQ(why_not(c, std::string("subnormal/") + event), "") << event;
    EXPECT_EQ(why_not(of([](P&) {}), std::string("subnormal/") + event),
              "Q, K and V are not all in f16");
  }
  const Case low = make_case("f16", [](P& p) { p.softmax_scale = 0.01f; }, {}, ATTEST_F16);
  EXPECT_EQ(why_not(low, "subnormal/k"), "softmax_scale 0.01 leaves subnormal numbers no weight");
  EXPECT_EQ(why_not(low, "subnormal/v"), "");
  const Case narrow = make_case(
      "f16",
      [](P& p) {
        p.head_dim = 1;
        p.softmax_scale = 1;
      },
      {}, ATTEST_F16);
  EXPECT_EQ(why_not(narrow, "subnormal/q"), "head_dim 1 has one channel, for K");
  EXPECT_EQ(why_not(narrow, "subnormal/k"), "");
}

TEST(EventNames, WhatMasksCanHide) {
  EXPECT_EQ(why_not(of([](P&) {}), "hidden/mask/16/first"), "there is no mask");
  const Case pairs = of([](P& p) { p.seq_len_q = 200; }, {ATTEST_MASK});
  EXPECT_EQ(why_not(pairs, "hidden/mask/16/first"), "");
  EXPECT_EQ(why_not(pairs, "block/mask/64/first_row"), "");
  EXPECT_EQ(why_not(pairs, "hidden/mask/unaligned/256"), "no row sees 258 keys");
  EXPECT_EQ(why_not(pairs, "hidden/bias/16/first"), "there is no bias");
  const Case keys = core::testing::broadcast(pairs, ATTEST_MASK, {2});
  EXPECT_EQ(why_not(keys, "block/mask/64/all"), "");
  EXPECT_EQ(why_not(keys, "block/mask/64/first_row"), "mask is the same for all rows");
  const Case rows = core::testing::broadcast(pairs, ATTEST_MASK, {3});
  EXPECT_EQ(why_not(rows, "hidden/mask/16/first"), "mask is one value a row");
  EXPECT_EQ(why_not(of([](P&) {}, {ATTEST_MASK}), "block/mask/16/all"),
            "no 64 rows have 16 keys and more in common");
}

TEST(EventNames, WhoCanHaveFiniteBiases) {
  EXPECT_EQ(why_not(of([](P&) {}), "finite_bias/only"), "there is no bias");
  const Case pairs = of([](P& p) { p.seq_len_q = 50; }, {ATTEST_BIAS});
  for (const char* event : {"only", "differ", "lowest", "16/first"})
    EXPECT_EQ(why_not(pairs, std::string("finite_bias/") + event), "") << event;
  EXPECT_EQ(why_not(pairs, "finite_bias/32/first"), "no row sees 64 keys");
  const Case keys = core::testing::broadcast(pairs, ATTEST_BIAS, {2});
  EXPECT_EQ(why_not(keys, "finite_bias/only"), "all rows of a head have one bias");
  EXPECT_EQ(why_not(keys, "finite_bias/differ"), "all rows of a head have one bias");
  EXPECT_EQ(why_not(keys, "finite_bias/16/first"), "");
  const Case rows = core::testing::broadcast(pairs, ATTEST_BIAS, {3});
  EXPECT_EQ(why_not(rows, "finite_bias/only"), "");
  for (const char* event : {"differ", "lowest"})
    EXPECT_EQ(why_not(rows, std::string("finite_bias/") + event), "bias is one value a row");
}

TEST(EventNames, WhoCanSeeNan) {
  const Case one = of([](P& p) { p.num_heads = 1; });
  EXPECT_NE(why_not(one, "nan/k"), "");
  EXPECT_EQ(why_not(one, "nan/v"), "");
  EXPECT_EQ(why_not(one, "nan/q"), "");
  EXPECT_EQ(why_not(one, "hidden_nan/k"), "some row sees each key");
  EXPECT_EQ(why_not(of([](P&) {}), "nan/k"), "");
  EXPECT_EQ(why_not(of([](P&) {}), "nan/of_others/k"), "all rows of a head see the same keys");
  const Case causal = of([](P& p) {
    p.num_heads = 1;
    p.window_right = 0;
    p.seq_len_kv = 60;
  });
  EXPECT_EQ(why_not(causal, "nan/k"), "");
  EXPECT_EQ(why_not(causal, "nan/of_others/k"), "");
  EXPECT_EQ(why_not(causal, "hidden_nan/k"), "");
  EXPECT_EQ(why_not(of([](P&) {}, {ATTEST_SEQ_LENS_KV}), "hidden_nan/v"), "");
}

TEST(EventNames, WhoHasEndsThatCanBeNan) {
  const Case one_tile = of([](P& p) { p.seq_len_kv = 16; });
  EXPECT_EQ(why_not(one_tile, "nan/first_tile/v"), "no row sees two tiles of 16");
  const Case two_tiles = of([](P& p) { p.seq_len_kv = 17; });
  EXPECT_EQ(why_not(two_tiles, "nan/first_tile/v"), "");
  EXPECT_EQ(why_not(two_tiles, "inf/last_tile/-score"), "");
  const Case capped = of([](P& p) {
    p.softcap = 5;
    p.seq_len_kv = 17;
  });
  EXPECT_NE(why_not(capped, "inf/last_tile/+score"), "");
  EXPECT_EQ(why_not(capped, "inf/last_tile/-v"), "");
  const Case sloped = of([](P& p) { p.seq_len_kv = 17; }, {ATTEST_ALIBI_SLOPES});
  EXPECT_NE(why_not(sloped, "inf/first_tile/+v"), "");
  EXPECT_EQ(why_not(sloped, "nan/first_tile/v"), "");
}

// Beyond a softcap a NaN of K makes the score, so a key head for each end is needed, and one more.
TEST(EventNames, WhoHasNanAtEndsBeyondASoftcap) {
  const auto of_heads = [](int64_t heads, int64_t window_left) {
    return of([=](P& p) {
      p.softcap = 5;
      p.num_heads = heads;
      p.seq_len_q = p.seq_len_kv = 40;
      p.window_left = window_left;
    });
  };
  EXPECT_NE(why_not(of_heads(1, -1), "nan/last_tile/score"), "");
  EXPECT_EQ(why_not(of_heads(2, -1), "nan/last_tile/score"), "");
  EXPECT_NE(why_not(of_heads(2, -1), "nan/first_tile/score"), "");
  EXPECT_EQ(why_not(of_heads(3, -1), "nan/first_tile/score"), "");
  EXPECT_EQ(why_not(of_heads(2, 20), "nan/first_tile/score"), "");
}

TEST(EventNames, WhatLengthsCanBe) {
  const std::vector<int32_t> packed = {ATTEST_CU_SEQLENS_Q, ATTEST_CU_SEQLENS_KV};
  const auto sequences = [](int64_t batch, int64_t keys = 37) {
    return [=](P& p) {
      p.batch = batch;
      p.seq_len_kv = keys;
    };
  };
  const Case dense = of(sequences(4));
  EXPECT_EQ(why_not(dense, "lengths/q_differs"), "every sequence has as many keys as queries");
  EXPECT_EQ(why_not(dense, "lengths/partial/kv"), "every sequence has seq_len_kv");
  EXPECT_EQ(why_not(of(sequences(4, 50)), "lengths/q_differs"), "");
  EXPECT_EQ(why_not(of(sequences(4, 50)), "lengths/offsets_differ"),
            "no sequence is partly filled");
  EXPECT_EQ(why_not(of(sequences(4), {ATTEST_SEQ_LENS_Q}), "lengths/empty/q_before_rows"),
            "no sequence's rows follow another's");
  const Case two = of(sequences(2), packed);
  EXPECT_EQ(why_not(two, "lengths/offsets_differ"), "");
  EXPECT_EQ(why_not(two, "lengths/empty/q"), "2 sequences of up to 37 have 55 tokens");
  const Case four = of(sequences(4), packed);
  for (const char* name : {"q_differs", "offsets_differ", "partial/q", "partial/kv", "empty/q",
                           "empty/q_before_rows", "empty/q_behind_rows", "empty/kv"})
    EXPECT_EQ(why_not(four, std::string("lengths/") + name), "") << name;
  const Case ordered = of(sequences(4), {ATTEST_CU_SEQLENS_Q, ATTEST_CU_SEQLENS_KV, ATTEST_ORDER});
  EXPECT_EQ(why_not(ordered, "lengths/q_differs"), "queries and keys are the same tokens");
  EXPECT_EQ(why_not(ordered, "lengths/partial/kv"), "");
  EXPECT_EQ(why_not(of(sequences(1), {ATTEST_SEQ_LENS_KV}), "lengths/offsets_differ"),
            "no two sequences have queries and keys");
}

}  // namespace
}  // namespace attest::core
