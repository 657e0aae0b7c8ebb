// attest ab with launches that take no time: what is run in which order, when a case is left out,
// and what is measured once more.
#include "cli/comparison/ab.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <map>
#include <set>

#include "core/tensor/random.hpp"
#include "reports/testing/records.hpp"

namespace attest::cli {
namespace {

using core::Change;
using reports::Compared;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using ::testing::UnorderedElementsAre;

/// A machine on which case `c` takes 1 ms before and `ratio` ms after, beside noise: a drift that
/// both launches of a round share, and jitter of a launch.
struct Machine {
  std::map<std::string, double> ratio;        // by case; also of what is measured once more
  std::map<std::string, double> again_ratio;  // if it differs then
  double drift = 0, jitter = 0;
  double step = 0;  // from a launch on that the seed chooses, all times are longer by this share
  double outliers = 0;  // the share of launches in which all times are longer by a third
  uint64_t seed = 1;
  bool one_build = false;
  bool only_slow_runs = false;  // the ratio is that of all but the first quarter of the samples
  size_t interrupted_at = 0;    // the number of that launch; 0: none
  std::vector<AbLaunch> launches;

  core::Record record(const std::string& name, const AbLaunch& launch) const {
    core::Record r = testing::passed("flash");
    r.suite = "";
    r.case_name = name;
    const bool after = launch.side == AbSide::kAfter;
    const auto again = again_ratio.find(name);
    const double factor =
        !after ? 1
               : (launch.confirms && again != again_ratio.end() ? again->second : ratio.at(name));
    const auto normal = [&](uint64_t stream, uint64_t index) {
      return double(core::random_normal(seed * 1000 + stream, index));
    };
    const uint64_t of_case = std::hash<std::string>()(name);
    const double stepped = launch.number > core::random_below(seed, 2, 32) ? 1 + step : 1,
                 late = core::random_uniform(seed, 100 + launch.number) < outliers ? 4.0 / 3 : 1;
    r.time = testing::time_of(1e6 * stepped * late * (only_slow_runs ? 1 : factor) *
                                  std::exp(drift * normal(1, (launch.number - 1) / 2)) *
                                  std::exp(jitter * normal(of_case % 997, launch.number)),
                              launch.number);
    std::vector<double>& samples = r.time->samples_ns;
    if (only_slow_runs)
      for (size_t i = samples.size() / 4; i < samples.size(); ++i) samples[i] *= factor;
    if (!one_build) r.plugin_hash = after ? "1111111111111111" : "0000000000000000";
    r.libraries_hash = "22";
    return r;
  }

  std::optional<core::Results> operator()(const AbLaunch& launch) {
    launches.push_back(launch);
    if (launch.number == interrupted_at) return std::nullopt;
    std::vector<core::Record> records;
    for (const std::string& line : launch.records)
      records.push_back(record(line.substr(0, line.find(' ')), launch));
    core::Results results = testing::file(std::move(records));
    results.header.environment["identity"]["attest"] = "33";
    results.header.environment["run"]["variables_hash"] = "44";
    return results;
  }
};

AbOutcome run(Machine& machine, AbOptions options) {
  for (const auto& [name, ratio] : machine.ratio) options.cases.push_back(name + " f16");
  return run_ab(options, std::ref(machine), [](const AbLaunch&, const AbProgress&) {});
}

Compared named(const AbOutcome& outcome, const std::string& name) {
  for (const Compared& one : outcome.comparison.cases)
    if (one.case_name == name) return one;
  ADD_FAILURE() << name;
  return {};
}

std::set<std::string> names_of(const AbLaunch& launch) {
  std::set<std::string> names;
  for (const std::string& line : launch.records) names.insert(line.substr(0, line.find(' ')));
  return names;
}

TEST(Ab, TheSideThatComesFirstChanges) {
  Machine machine{.ratio = {{"a", 1}}, .jitter = 1e-4};
  run(machine, {});
  std::string order;
  for (const AbLaunch& launch : machine.launches)
    order += launch.side == AbSide::kBefore ? 'B' : 'A';
  EXPECT_EQ(order, "BAABBAABBAABBAABBAABBA");
}

TEST(Ab, ShufflesTheCasesOfARoundByTheSeed) {
  Machine one{.ratio = {{"a", 1}, {"b", 1}, {"c", 1}, {"d", 1}, {"e", 1}}, .jitter = 1e-4},
      again = one, other = one;
  run(one, {.seed = 7});
  run(again, {.seed = 7});
  run(other, {.seed = 8});
  std::set<std::vector<std::string>> orders, other_orders;
  for (size_t i = 0; i < one.launches.size(); ++i) {
    orders.insert(one.launches[i].records);
    other_orders.insert(other.launches[i].records);
    EXPECT_EQ(one.launches[i].records, again.launches[i].records);
    EXPECT_EQ(one.launches[i].records, one.launches[i ^ 1].records) << "both sides alike";
    EXPECT_THAT(names_of(one.launches[i]), SizeIs(5));
  }
  EXPECT_GT(orders.size(), 4u);
  EXPECT_NE(orders, other_orders);
}

TEST(Ab, FindsWhatIsSlowerOnAMachineThatDrifts) {
  Machine machine{
      .ratio = {{"same", 1}, {"slow", 1.03}, {"fast", 0.96}}, .drift = 0.02, .jitter = 1e-3};
  const AbOutcome outcome = run(machine, {});
  EXPECT_EQ(named(outcome, "same").time.change, Change::kSame);
  EXPECT_EQ(named(outcome, "slow").time.change, Change::kWorse);
  EXPECT_EQ(named(outcome, "fast").time.change, Change::kBetter);
  EXPECT_EQ(outcome.slower, 1u);
  EXPECT_EQ(outcome.not_confirmed, 0u);
  EXPECT_EQ(outcome.launches, 38u);
  EXPECT_TRUE(machine.launches.back().confirms);
  EXPECT_THAT(names_of(machine.launches.back()), ElementsAre("slow"));
}

TEST(Ab, WhatIsNotSlowerAgainIsUndecided) {
  Machine machine{.ratio = {{"a", 1.1}, {"b", 1.1}}, .again_ratio = {{"a", 1}}, .jitter = 1e-3};
  const AbOutcome outcome = run(machine, {});
  EXPECT_EQ(named(outcome, "a").time.change, Change::kInconclusive);
  EXPECT_EQ(named(outcome, "a").time.code, "not-confirmed");
  EXPECT_EQ(named(outcome, "b").time.change, Change::kWorse);
  EXPECT_EQ(outcome.not_confirmed, 1u);
}

// However much identical builds differ, neither verdict nor a second measurement follows.
TEST(Ab, OneBuildIsNeverWorse) {
  Machine machine{.ratio = {{"a", 1.5}, {"b", 1}}, .jitter = 1e-3, .one_build = true};
  const AbOutcome outcome = run(machine, {});
  EXPECT_FALSE(reports::worse(outcome.comparison));
  EXPECT_EQ(outcome.slower, 0u);
  EXPECT_THAT(machine.launches, SizeIs(22));
}

TEST(Ab, FindsWhatSlowsOnlySomeOfTheRuns) {
  Machine machine{.ratio = {{"a", 1.1}, {"b", 1.1}, {"c", 1.1}}, .jitter = 1e-3};
  machine.only_slow_runs = true;
  const AbOutcome outcome = run(machine, {});
  for (const char* name : {"a", "b", "c"}) {
    EXPECT_EQ(named(outcome, name).time.change, Change::kWorse) << name;
    EXPECT_EQ(named(outcome, name).time.code, "paired") << name;
  }
  Machine hurried = machine;
  EXPECT_EQ(named(run(hurried, {.rounds = 10}), "a").time.code, "median-alone");
}

// 12 rounds give an interval at 99.91 %; two cases need 2^-12 * 2 < 0.9 * 0.005 too.
TEST(Ab, ACertainCaseStopsBeforeTheLastRound) {
  Machine machine{.ratio = {{"same", 1}, {"slow", 1.1}, {"edge", 1.01}}, .jitter = 2e-3};
  const AbOutcome outcome = run(machine, {.rounds = 20});
  EXPECT_EQ(outcome.stopped_early, 2u);
  EXPECT_EQ(named(outcome, "slow").time.launches_before, 12u);
  EXPECT_EQ(named(outcome, "slow").time.change, Change::kWorse);
  EXPECT_EQ(named(outcome, "same").time.launches_before, 12u);
  EXPECT_EQ(named(outcome, "same").time.change, Change::kSame);
  EXPECT_EQ(named(outcome, "edge").time.launches_before, 20u);
  EXPECT_EQ(named(outcome, "edge").time.change, Change::kInconclusive);
}

TEST(Ab, WhatCannotBeComparedIsLeftOutAfterOneRound) {
  Machine machine{.ratio = {{"a", 1}, {"b", 1}}, .jitter = 1e-3};
  AbOptions options{.cases = {"a f16", "b f16"}};
  run_ab(
      options,
      [&](const AbLaunch& launch) {
        std::optional<core::Results> results = machine(launch);
        for (core::Record& record : results->records)
          if (record.case_name == "b") record.outcome = {core::ReasonCode::kFailTolerance, "wrong"};
        return results;
      },
      [](const AbLaunch&, const AbProgress&) {});
  EXPECT_THAT(names_of(machine.launches[1]), UnorderedElementsAre("a", "b"));
  EXPECT_THAT(names_of(machine.launches[2]), ElementsAre("a"));
}

TEST(Ab, ThePeerRunsBesideEachCase) {
  Machine machine{.ratio = {{"a", 1}}, .jitter = 1e-3};
  AbOptions options{.cases = {"a f16"}, .compare = {.relative_to = "library"}};
  run_ab(
      options,
      [&](const AbLaunch& launch) {
        std::optional<core::Results> results = machine(launch);
        results->records.resize(1);
        results->records.push_back(results->records.front());
        results->records.back().impl = "library";
        return results;
      },
      [](const AbLaunch&, const AbProgress&) {});
  EXPECT_THAT(machine.launches[2].records, UnorderedElementsAre("a f16 flash", "a f16 library"));
}

TEST(Ab, AnInterruptLeavesPairs) {
  Machine machine{.ratio = {{"a", 1.2}}, .jitter = 1e-3};
  machine.interrupted_at = 6;  // the second launch of the third round
  const AbOutcome outcome = run(machine, {});
  EXPECT_TRUE(outcome.interrupted);
  EXPECT_THAT(outcome.before, SizeIs(2));
  EXPECT_THAT(outcome.after, SizeIs(2));
  EXPECT_EQ(named(outcome, "a").time.change, Change::kInconclusive);

  Machine later{.ratio = {{"a", 1.2}}, .jitter = 1e-3};
  later.interrupted_at = 30;
  EXPECT_EQ(named(run(later, {}), "a").time.code, "not-confirmed");

  Machine at_once{.ratio = {{"a", 1.2}}};
  at_once.interrupted_at = 1;
  EXPECT_THAT(run(at_once, {}).comparison.cases, IsEmpty());
}

TEST(Ab, ASelfCheckRunsAllRoundsOfAllCases) {
  Machine machine{.ratio = {{"a", 1}, {"b", 1.2}}, .jitter = 1e-3};
  const AbOutcome outcome = run(machine, {.rounds = 16, .self_check = true});
  EXPECT_THAT(machine.launches, SizeIs(32));
  EXPECT_THAT(names_of(machine.launches.back()), SizeIs(2));
  EXPECT_EQ(outcome.slower + outcome.stopped_early, 0u);
}

// 5 cases by 4 implementations are 20 comparisons, for which 8 rounds are too few.
TEST(Ab, RoundsCountEachImplementationOfACase) {
  Machine machine{.ratio = {{"a", 1}, {"b", 1}, {"c", 1}, {"d", 1}, {"slow", 1.2}}, .jitter = 1e-3};
  AbOptions options;
  for (const auto& [name, ratio] : machine.ratio) options.cases.push_back(name + " f16");
  size_t compared = 0;
  const AbOutcome outcome = run_ab(
      options,
      [&](const AbLaunch& launch) {
        AbLaunch once = launch;  // the machine makes a record for each line
        std::set<std::string> names;
        std::erase_if(once.records, [&](const std::string& line) {
          return !names.insert(line.substr(0, line.find(' '))).second;
        });
        std::optional<core::Results> results = machine(once);
        for (const core::Record& record : std::vector(results->records))
          for (const char* impl : {"second", "third", "fails"}) {
            core::Record other = record;
            other.impl = impl;
            if (other.impl == "fails") other.outcome = {core::ReasonCode::kFailTolerance, "wrong"};
            results->records.push_back(std::move(other));
          }
        return results;
      },
      [&](const AbLaunch& last, const AbProgress& now) {
        if (!last.confirms) compared = now.compared;
      });
  EXPECT_EQ(compared, 15u) << "what fails is not compared";
  EXPECT_EQ(outcome.rounds, default_rounds(15, {}));
  EXPECT_EQ(outcome.before.size(), 12u) << "15 / 2^11 > 0.1 * 0.05";
  for (const Compared& one : outcome.comparison.cases)
    if (one.case_name == "slow" && one.impl != "fails") {
      EXPECT_EQ(one.time.change, Change::kWorse) << one.impl;
    }
}

TEST(Ab, ManyCasesNeedMoreRounds) {
  EXPECT_EQ(rounds_for(1, {}, core::kFastShare), 8u);
  EXPECT_EQ(rounds_for(11, {}, core::kFastShare), 8u) << "11 / 2^8 < 0.9 * 0.05";
  EXPECT_EQ(rounds_for(12, {}, core::kFastShare), 9u);
  EXPECT_EQ(rounds_for(100, {}, core::kFastShare), 12u);
  EXPECT_EQ(default_rounds(1, {}), 11u) << "2^-10 <= 0.1 * 0.01";
  EXPECT_EQ(default_rounds(10, {}), 11u) << "10 / 2^11 < 0.1 * 0.05";
  EXPECT_EQ(default_rounds(11, {}), 12u);
}

// Comparisons of builds that are equal, with looks before the last round, that call one slower or
// faster. The machines drift by 2 % and jitter by 1 %; some also become 5 % slower at a launch and
// stay so, and on some, one launch of ten takes a third longer.
uint64_t false_alarms(uint64_t comparisons) {
  constexpr uint64_t kCases = 20, kMachines = 4;
  uint64_t alarms = 0;
  for (uint64_t seed = 0; seed < comparisons / kCases; ++seed) {
    Machine machine{.drift = 0.02,
                    .jitter = 0.01,
                    .step = seed % 2 == 0 ? 0 : 0.05,
                    .outliers = seed % kMachines < 2 ? 0 : 0.1,
                    .seed = seed};
    for (uint64_t i = 0; i < kCases; ++i) machine.ratio["c" + std::to_string(i)] = 1;
    for (const Compared& one : run(machine, {.rounds = 16}).comparison.cases)
      alarms += one.time.change == Change::kWorse || one.time.change == Change::kBetter;
  }
  return alarms;
}

// ATTEST_COMPARISONS is their number, for a test by hand; 10,000 take some ten seconds, and
// --gtest_output=json has how many were wrong.
TEST(Ab, FalseAlarmsAreRare) {
  const char* const wanted = std::getenv("ATTEST_COMPARISONS");
  const uint64_t comparisons = wanted ? std::stoull(wanted) : 1000;
  const uint64_t alarms = false_alarms(comparisons);
  RecordProperty("false_alarms", std::to_string(alarms));
  EXPECT_LE(alarms, comparisons / 100);
}

// Of 40 kernels that are 3 % slower, 24 rounds find 38 at least, on a machine whose launches differ
// by 1 % and drift by 2 %.
TEST(Ab, FindsThreePercent) {
  int found = 0;
  for (uint64_t seed = 0; seed < 2; ++seed) {
    Machine machine{.drift = 0.02, .jitter = 0.01, .seed = seed};
    for (int i = 0; i < 20; ++i) machine.ratio["c" + std::to_string(i)] = 1.03;
    for (const Compared& one : run(machine, {.rounds = 24}).comparison.cases)
      found += one.time.change == Change::kWorse;
  }
  EXPECT_GE(found, 38);
}

}  // namespace
}  // namespace attest::cli
