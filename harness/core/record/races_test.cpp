// Passes beside a race: of the same build they are suspect, before the race and after it.
#include "core/record/races.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace attest::core {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr const char* kWhy =
    "passes, but a rerun of small/b f32 (fill random) gave other outputs: race or uninitialised "
    "memory";

Record record(const std::string& impl, const std::string& case_name) {
  Record r;
  r.suite = "small";
  r.case_name = case_name;
  r.dtype = "f32";
  r.impl = impl;
  r.plugin_hash = "1";
  r.outcome = {};
  r.fills.push_back({.fill = "random"});
  return r;
}

Record race(const std::string& impl, const std::string& case_name) {
  Record r = record(impl, case_name);
  r.outcome = {ReasonCode::kFailTolerance, "o[0]"};
  r.fills[0].reruns = RerunRecord{.runs = 1, .apart = true};
  return r;
}

std::vector<ReasonCode> codes(const std::vector<Record>& records) {
  std::vector<ReasonCode> all;
  for (const Record& r : records) all.push_back(r.outcome.code);
  return all;
}

TEST(RacesOfARun, OverruleThePassesOfTheirBuildBeforeAndAfter) {
  std::vector<Record> records{record("mine", "a"), record("other", "a"), race("mine", "b"),
                              race("mine", "c"),   record("mine", "d"),  record("mine", "e")};
  records[5].plugin_hash = "2";  // another build
  const auto overruled = overrule_races(records);
  EXPECT_THAT(codes(records),
              ElementsAre(ReasonCode::kSuspectRace, ReasonCode::kPass, ReasonCode::kFailTolerance,
                          ReasonCode::kFailTolerance, ReasonCode::kSuspectRace, ReasonCode::kPass));
  EXPECT_EQ(records[0].outcome.reason, kWhy);
  EXPECT_EQ(records[4].outcome.reason, kWhy);
  ASSERT_EQ(overruled.size(), 1u);
  EXPECT_EQ(overruled.at("mine").passes, 2u);
  EXPECT_EQ("passes, but " + overruled.at("mine").why, kWhy);
  EXPECT_THAT(overrule_races(records), IsEmpty()) << "nothing is overruled twice";
}

TEST(RacesOfARun, OfARelationCountAsMuch) {
  Record relation = record("mine", "b");
  relation.outcome = {ReasonCode::kFailRepetition, "o[0]"};
  relation.relations.push_back({.relation = "repetition", .reruns = RerunRecord{.apart = true}});
  std::vector<Record> records{relation, record("mine", "a")};
  overrule_races(records);
  EXPECT_EQ(records[1].outcome.code, ReasonCode::kSuspectRace);
  EXPECT_THAT(records[1].outcome.reason, ::testing::HasSubstr("small/b f32 (repetition)"));
}

// Sums in another order, or a bug that is always the same.
TEST(RacesOfARun, AreNotRerunsThatAgreeWithinTheirArithmetic) {
  Record steady = race("mine", "b");
  steady.fills[0].reruns->apart = false;
  std::vector<Record> records{record("mine", "a"), steady, record("mine", "c")};
  EXPECT_THAT(overrule_races(records), IsEmpty());
  EXPECT_TRUE(records[0].outcome.passes());
  EXPECT_TRUE(records[2].outcome.passes());
}

TEST(RacesOfARun, LeaveWhatWasNotJudgedAsItIs) {
  Record skipped = record("mine", "a");
  skipped.outcome = {ReasonCode::kSkippedTime, "slow"};
  std::vector<Record> records{skipped, race("mine", "b")};
  overrule_races(records);
  EXPECT_EQ(records[0].outcome.code, ReasonCode::kSkippedTime);
}

}  // namespace
}  // namespace attest::core
