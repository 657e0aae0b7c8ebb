// What many bad records tell that one does not.
#include "reports/patterns.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace attest::reports {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

core::Record record(bool passes, const std::string& words, const std::string& impl = "mine") {
  core::Record r;
  r.impl = impl;
  r.dtype = "f32";
  r.spec = "softmax dtype=f32 " + words;
  r.outcome.code = passes ? core::ReasonCode::kPass : core::ReasonCode::kFailTolerance;
  return r;
}

// `bad` and `passing` have the words of one problem each.
std::vector<core::Record> records(const std::vector<std::string>& bad,
                                  const std::vector<std::string>& passing) {
  std::vector<core::Record> all;
  for (const std::string& words : bad) all.push_back(record(false, words));
  for (const std::string& words : passing) all.push_back(record(true, words));
  return all;
}

const std::vector<std::string> kPlain{"seq_len_q=64 head_dim=16", "seq_len_q=128 head_dim=32",
                                      "seq_len_q=192 head_dim=64 lse",
                                      "num_heads=4 seq_len_q=256 head_dim=64 softcap=3"};

TEST(Patterns, NameTheWordThatDividesThem) {
  EXPECT_THAT(
      patterns(records({"seq_len_q=64 head_dim=16 window_right=0",
                        "seq_len_q=128 head_dim=32 window_right=0 lse",
                        "seq_len_q=256 head_dim=64 window_right=0"},
                       kPlain)),
      ElementsAre("mine: all 3 bad records have window_right; none of the 4 that pass has it"));
}

// A window of 0 keys to the right is not any window.
TEST(Patterns, NameTheValueIfOtherValuesPass) {
  std::vector<std::string> passing = kPlain;
  passing.emplace_back("seq_len_q=128 head_dim=16 window_right=9");
  EXPECT_THAT(
      patterns(records({"seq_len_q=64 head_dim=16 window_right=0",
                        "seq_len_q=128 head_dim=32 window_right=0 lse",
                        "seq_len_q=256 head_dim=64 window_right=0"},
                       passing)),
      ElementsAre("mine: all 3 bad records have window_right=0; none of the 5 that pass has it"));
}

TEST(Patterns, NameWhatTheBadOnesLack) {
  EXPECT_THAT(patterns(records({"seq_len_q=64 head_dim=16", "seq_len_q=128 head_dim=32",
                                "seq_len_q=192 head_dim=64"},
                               {"seq_len_q=64 head_dim=16 lse", "seq_len_q=128 head_dim=32 lse",
                                "seq_len_q=192 head_dim=64 lse"})),
              ElementsAre("mine: none of the 3 bad records has lse; all 3 that pass have it"));
}

TEST(Patterns, NameSizesThatAreNotWholeTiles) {
  EXPECT_THAT(
      patterns(records(
          {"seq_len_q=64 seq_len_kv=61 head_dim=16", "seq_len_q=128 seq_len_kv=104 head_dim=32 lse",
           "seq_len_q=197 head_dim=64 softcap=3"},
          {"seq_len_q=64 head_dim=16", "seq_len_q=100 seq_len_kv=80 head_dim=8",
           "seq_len_q=61 seq_len_kv=4096 head_dim=64 lse"})),
      ElementsAre("mine: all 3 bad records have seq_len_kv % 16 other than 0; none of the 3 "
                  "that pass has it"));
}

TEST(Patterns, NameGroupsOfHeadsAndBounds) {
  EXPECT_THAT(
      patterns(
          records({"num_heads=4 num_kv_heads=2 seq_len_q=64 head_dim=16",
                   "num_heads=8 num_kv_heads=2 seq_len_q=128 head_dim=32",
                   "num_heads=4 num_kv_heads=1 seq_len_q=61 head_dim=64"},
                  {"num_heads=4 seq_len_q=64 head_dim=16", "num_heads=8 seq_len_q=61 head_dim=64",
                   "num_heads=2 num_kv_heads=2 seq_len_q=61 head_dim=64"})),
      ElementsAre("mine: all 3 bad records have num_kv_heads other than num_heads; none of the 3 "
                  "that pass has it"));
  EXPECT_THAT(
      patterns(records({"seq_len_q=4096 head_dim=16", "seq_len_q=8192 head_dim=32",
                        "seq_len_q=8192 head_dim=16"},
                       {"seq_len_q=2048 head_dim=16", "seq_len_q=64 head_dim=32",
                        "seq_len_q=1024 head_dim=16"})),
      ElementsAre("mine: all 3 bad records have seq_len_q of 4096 or more; none of the 3 that pass "
                  "has it"));
}

// A causal mask over rows of another number than the keys: neither alone is enough.
TEST(Patterns, NameTwoThatOnlyTogetherDivide) {
  EXPECT_THAT(patterns(records({"seq_len_q=64 seq_len_kv=128 head_dim=16 lse window_right=0",
                                "seq_len_q=128 seq_len_kv=64 head_dim=32 lse window_right=0",
                                "seq_len_q=32 seq_len_kv=512 head_dim=16 lse window_right=0"},
                               {"seq_len_q=64 head_dim=16 window_right=0",
                                "seq_len_q=512 head_dim=16 window_right=0",
                                "seq_len_q=64 seq_len_kv=512 head_dim=32 lse",
                                "seq_len_q=128 seq_len_kv=32 head_dim=32 lse"})),
              ElementsAre("mine: all 3 bad records have lse and window_right; none of the 4 that "
                          "pass has both"));
}

// One key head is right whatever heads are taken modulo; that its head_dim differs is chance.
TEST(Patterns, TakeNoSizeByChanceForASecondTrait) {
  std::vector<std::string> passing(9, "num_heads=4 seq_len_q=61 head_dim=64");
  passing.emplace_back("num_heads=4 num_kv_heads=1 seq_len_q=61 head_dim=64");
  EXPECT_THAT(
      patterns(records({"num_heads=4 num_kv_heads=2 seq_len_q=61 head_dim=16",
                        "num_heads=8 num_kv_heads=2 seq_len_q=61 head_dim=16",
                        "num_heads=6 num_kv_heads=3 seq_len_q=61 head_dim=64"},
                       passing)),
      ElementsAre("mine: all 3 bad records have num_kv_heads other than num_heads; so has 1 of "
                  "the 10 that pass"));
}

TEST(Patterns, SayHowManyOthersHaveIt) {
  std::vector<std::string> passing = kPlain;
  passing.insert(passing.end(), kPlain.begin(), kPlain.end());
  passing.emplace_back("seq_len_q=64 head_dim=16 softcap=3 sinks window_right=0");
  EXPECT_THAT(patterns(records({"seq_len_q=64 head_dim=16 sinks",
                                "seq_len_q=192 head_dim=64 sinks lse window_right=0",
                                "num_heads=4 seq_len_q=256 head_dim=64 softcap=3 sinks"},
                               passing)),
              ElementsAre("mine: all 3 bad records have sinks; so has 1 of the 9 that pass"));
}

TEST(Patterns, SayNothingOfFewRecordsAndOfWhatNothingDivides) {
  EXPECT_THAT(patterns({}), IsEmpty());
  EXPECT_THAT(
      patterns(records({"seq_len_q=64 head_dim=16 lse", "seq_len_q=64 head_dim=8 lse"}, kPlain)),
      IsEmpty());
  EXPECT_THAT(patterns(records({"seq_len_q=64 head_dim=16 lse", "seq_len_q=64 head_dim=8 lse",
                                "seq_len_q=64 head_dim=32 lse"},
                               {"seq_len_q=64 head_dim=16", "seq_len_q=64 head_dim=8"})),
              IsEmpty());
  EXPECT_THAT(patterns(records(kPlain, kPlain)), IsEmpty());
}

TEST(Patterns, CountTheMistakeThatMostRecordsShow) {
  std::vector<core::Record> all = records({"seq_len_q=64", "seq_len_q=32"}, {"seq_len_q=16"});
  for (core::Record& r : all) {
    if (r.outcome.passes()) continue;
    r.fills.emplace_back();
    r.fills[0].judgement.guess = "it is as if softmax_scale were 1";
  }
  EXPECT_THAT(patterns(all),
              ElementsAre("mine: in 2 of 2 bad records it is as if softmax_scale were 1"));
  all[0].fills[0].judgement.guess = "no known mistake gives this output";
  EXPECT_THAT(patterns(all),
              ElementsAre("mine: in 1 of 2 bad records it is as if softmax_scale were 1"));
}

// What fails by chance has nothing to do with the problem.
TEST(Patterns, SayNothingOfRaces) {
  std::vector<core::Record> all =
      records({"seq_len_q=64 lse", "seq_len_q=32 lse", "seq_len_q=8 lse"},
              {"seq_len_q=64", "seq_len_q=32", "seq_len_q=8"});
  EXPECT_EQ(patterns(all).size(), 1u);
  all[0].fills.emplace_back();
  all[0].fills[0].reruns = core::RerunRecord{.runs = 1, .unjudged = 1, .apart = true};
  EXPECT_THAT(patterns(all), IsEmpty());
}

// A relation judges other problems too: what they have, the record's own problem may lack.
TEST(Patterns, CountApartWhatFailsOnlyInARelation) {
  std::vector<core::Record> all =
      records({"seq_len_q=64 lse", "seq_len_q=32 lse", "seq_len_q=8 lse", "seq_len_q=8"},
              {"seq_len_q=64", "seq_len_q=32", "seq_len_q=8"});
  EXPECT_THAT(patterns(all), IsEmpty());
  all[3].fills.emplace_back().judgement.outcome.code = core::ReasonCode::kPass;
  all[3].relations.emplace_back().judgement.outcome.code = core::ReasonCode::kFailTolerance;
  EXPECT_THAT(
      patterns(all),
      ElementsAre("mine: all 3 bad records have lse; none of the 3 that pass has it (1 more "
                  "fails only in a relation)"));
}

TEST(Patterns, KeepImplementationsApart) {
  std::vector<core::Record> all =
      records({"seq_len_q=64 lse", "seq_len_q=32 lse", "seq_len_q=8 lse"},
              {"seq_len_q=64", "seq_len_q=32", "seq_len_q=8"});
  for (int i = 0; i < 3; ++i) all.push_back(record(true, "seq_len_q=64 lse", "other"));
  EXPECT_THAT(patterns(all),
              ElementsAre("mine: all 3 bad records have lse; none of the 3 that pass has it"));
}

}  // namespace
}  // namespace attest::reports
