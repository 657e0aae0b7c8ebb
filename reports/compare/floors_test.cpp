// Floors of launches of one build, and what comparisons make of them.
#include "reports/compare/floors.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "core/tensor/error.hpp"
#include "reports/compare/comparison.hpp"
#include "reports/compare/self_check.hpp"
#include "reports/gate/gate.hpp"
#include "reports/testing/records.hpp"

namespace attest::reports {
namespace {

using attest::testing::file;
using attest::testing::passed;
using core::Change;
using core::Record;
using core::Results;

using ::testing::HasSubstr;

/// One launch of case "a" in a number of milliseconds.
Results launch(double ms, const std::string& hash = "00") {
  Record record = passed("flash");
  record.time->samples_ns.assign(20, 1e6 * ms);
  record.plugin_hash = hash;
  return file({record});
}
std::vector<Results> launches(const std::vector<double>& ms, const std::string& hash = "00") {
  std::vector<Results> all;
  for (const double one : ms) all.push_back(launch(one, hash));
  return all;
}
const core::CaseKey kKey{.suite = "vit", .case_name = "a", .dtype = "f16", .impl = "flash"};

const std::vector<double> kEight(8, 100.0);
/// 16 pairs that differ by 2 % in the first eight, by 0.5 % in the last.
Floors checked() {
  std::vector<double> before(16, 100), after(16, 102);
  for (size_t i = 8; i < 16; ++i) after[i] = 100.5;
  before[15] = after[15] = 120;
  return floors_of(launches(before), launches(after), "");
}

TEST(Floors, HaveTheSpreadOfLaunchesAndTheOffsetOfPairs) {
  const Floors floors = checked();
  const Floor& floor = floors.cases.at(kKey);
  EXPECT_NEAR(floor.spread, 0.2, 1e-9);
  EXPECT_NEAR(floor.paired, 0.02, 1e-9);
  EXPECT_EQ(floor.launches, 32u);
  EXPECT_EQ(floor.alarms, 1u);
  EXPECT_EQ(floor.machine, "H200");
  EXPECT_EQ(floors.comparisons, 2u);
  EXPECT_EQ(floors.slower, 1u);
  EXPECT_EQ(floors.faster, 0u);
  EXPECT_THAT(print_floors(floors), HasSubstr("A/A: 2 comparisons of identical builds: 1 slower"));
}

// A rare disturbance: the medians of eight pairs differ, and the fastest runs do not.
TEST(Floors, HaveTheOffsetOfTheFastestRuns) {
  std::vector<Results> before = launches(kEight), after = launches(kEight);
  for (Results& one : after)
    for (size_t i = 5; i < 20; ++i) one.records[0].time->samples_ns[i] *= 1.1;
  const Floor floor = floors_of(before, after, "").cases.at(kKey);
  EXPECT_NEAR(floor.paired, 0.1, 1e-9);
  EXPECT_NEAR(floor.fast, 0, 1e-9);
}

TEST(Floors, ACaseWithATimeOfNothingHasNone) {
  std::vector<Results> before = launches(kEight);
  for (size_t i = 0; i < 4; ++i) before[3].records[0].time->samples_ns[i] = 0;
  EXPECT_TRUE(floors_of(before, launches(kEight), "").cases.empty());
}

TEST(Floors, CountEachComparisonAlone) {
  const auto with_others = [](double ms) {
    std::vector<Results> all = launches(std::vector<double>(8, ms));
    for (Results& one : all)
      for (int i = 0; i < 20; ++i) {
        one.records.push_back(passed("flash"));
        one.records.back().case_name = fmt::format("other{}", i);
      }
    return all;
  };
  const Floors floors = floors_of(with_others(100), with_others(110), "");
  EXPECT_EQ(floors.comparisons, 21u);
  EXPECT_EQ(floors.slower, 1u);
}

TEST(Floors, OfOlderVersionsSayTheSameOfMediansAndFastestRuns) {
  nlohmann::json older = to_json(checked());
  for (nlohmann::json& one : older["cases"]) one.erase("fast");
  EXPECT_NEAR(floors_from_json(older).cases.at(kKey).fast, 0.02, 1e-9);
}

TEST(Floors, BoundTheRateOfFalseAlarms) {
  EXPECT_EQ(Floors().most_alarms(), 1);
  EXPECT_NEAR((Floors{.comparisons = 300}.most_alarms()), 1 - std::pow(0.05, 1 / 300.0), 1e-9);
  EXPECT_NEAR((Floors{.comparisons = 300, .slower = 2, .faster = 1}.most_alarms()), 0.02565, 1e-4);
}

TEST(Floors, ACaseThatOneLaunchLacksHasNone) {
  std::vector<Results> before = launches(kEight);
  before[3].records.clear();
  EXPECT_TRUE(floors_of(before, launches(kEight), "").cases.empty());
}

TEST(Floors, AreReadAsTheyWereWritten) {
  const nlohmann::json written = to_json(checked());
  EXPECT_EQ(to_json(floors_from_json(written)), written);
  const auto refused = [&](const char* patch) {
    nlohmann::json changed = written;
    changed.merge_patch(nlohmann::json::parse(patch));
    try {
      floors_from_json(changed);
    } catch (const core::Error& error) {
      return std::string(error.what());
    }
    return std::string("taken");
  };
  EXPECT_THAT(refused(R"({"type": "header"})"), HasSubstr("holds no floors"));
  EXPECT_THAT(refused(R"({"slower": null})"), HasSubstr("has no 'slower'"));
  EXPECT_THAT(refused(R"({"cases": 3})"), HasSubstr("'cases' is of the wrong type"));
  EXPECT_THAT(refused(R"({"cases": [{"suite": 1}]})"), HasSubstr("cases[0]: has no 'spread'"));
  nlohmann::json typed = written;
  typed["cases"][0]["launches"] = "many";
  EXPECT_THROW(floors_from_json(typed), core::Error);
  nlohmann::json negative = written;
  negative["cases"][0]["paired"] = -0.1;
  EXPECT_THROW(floors_from_json(negative), core::Error);
  EXPECT_THROW(floors_from_json(nlohmann::json::parse("oops", nullptr, false)), core::Error);
}

TEST(Floors, AreOfOneMachine) {
  const Floors floors = checked();
  require_floors_of(floors, launches(kEight), "");
  EXPECT_THROW(require_floors_of(floors, launches(kEight), "library"), core::Error);
  EXPECT_THROW(require_floors_of(floors, {file({passed("other")})}, ""), core::Error);
  Results elsewhere = launch(100);
  elsewhere.header.environment["cuda"]["name"] = "H100";
  try {
    require_floors_of(floors, {elsewhere}, "");
    ADD_FAILURE() << "taken";
  } catch (const core::Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("floors of H200, Release, 2 threads; these results are of "
                                        "H100, Release, 2 threads"));
  }
}

// Pairs need to exceed 2 %, results that are not paired 20 %.
TEST(Floors, ComparisonsAskForMoreThanTheFloor) {
  const Floors floors = checked();
  const auto change = [&](double after, bool in_turns) {
    const std::vector<double> ms(8, after);
    return compare(launches(kEight), launches(ms, "11"), {.in_turns = in_turns, .floors = &floors})
        .cases.at(0)
        .time;
  };
  EXPECT_EQ(change(101.5, true).code, "within-floor");
  EXPECT_EQ(change(102.5, true).change, Change::kWorse);
  EXPECT_EQ(change(115, false).code, "within-floor");
  EXPECT_EQ(change(125, false).change, Change::kWorse);
  EXPECT_EQ(compare({launch(100)}, {launch(125, "11")}, {.floors = &floors}).cases[0].time.change,
            Change::kWorse);
  Floors others = floors;
  others.cases.begin()->second.spread = 0;
  EXPECT_EQ(
      compare({launch(100)}, {launch(104, "11")}, {.rule = {.floor = 0.05}, .floors = &others})
          .cases[0]
          .time.change,
      Change::kInconclusive)
      << "the larger of both counts";
}

TEST(Floors, AGateAsksForMoreThanTheFloor) {
  const Floors floors = checked();
  GateRules rules;
  rules.rules.push_back({.name = "rule 1",
                         .scope = [](const core::CaseKey&) { return true; },
                         .limits = {{Limit::kSlowerThan, 0.05}}});
  const auto gated = [&](double after, const Floors* from) {
    return gate({launch(100)}, {launch(after, "11")}, rules,
                {.today = "2026-01-01", .floors = from});
  };
  EXPECT_EQ(gated(110, nullptr).broken.size(), 1u);
  EXPECT_EQ(gated(110, &floors).broken.size(), 0u);
  EXPECT_EQ(gated(110, &floors).undecided.size(), 1u);
  EXPECT_EQ(gated(130, &floors).broken.size(), 1u);
}

}  // namespace
}  // namespace attest::reports
