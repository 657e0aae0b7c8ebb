// What is called slower, faster and the same, against simulated machines: how often wrongly, and
// how often what is there is found. The machine: launches drift by 2 % (first-order
// autoregression), samples of a launch by 0.4 %, 20 samples a launch. Other work may make samples
// longer.
#include "core/statistics/change.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "core/statistics/statistics.hpp"
#include "core/tensor/random.hpp"

namespace attest::core {
namespace {

constexpr double kDrift = 0.02, kJitter = 0.004;

class Machine {
 public:
  /// `most_disturbed`: of the samples of a launch, a share of up to that takes up to 30 % longer.
  Machine(uint64_t seed, double memory, double most_disturbed = 0)
      : seed_(seed), memory_(memory), most_disturbed_(most_disturbed), state_(normal()) {}
  // A launch of what takes `ns`, the machine being where it has drifted to.
  Launch launch(double ns) {
    state_ = memory_ * state_ + std::sqrt(1 - memory_ * memory_) * normal();
    const double disturbed = most_disturbed_ * uniform();
    std::vector<double> samples;
    for (int i = 0; i < 20; ++i) {
      const double longer = uniform() < disturbed ? 1 + 0.3 * uniform() : 1;
      samples.push_back(ns * longer * std::exp(kDrift * state_ + kJitter * normal()));
    }
    const Summary s = summarise(samples);
    return {.median = s.median, .low = s.median_low, .high = s.median_high, .fast = s.p10};
  }

 private:
  double normal() { return double(random_normal(seed_, next_++)); }
  double uniform() { return double(random_bits(seed_, next_++) >> 11) * 0x1p-53; }
  uint64_t seed_, next_ = 0;
  double memory_, most_disturbed_, state_;
};

struct Sides {
  std::vector<Launch> before, after;
};

// Launches in the order A B B A A B B A ...
Sides in_turns(Machine& machine, size_t rounds, double change) {
  Sides sides;
  for (size_t i = 0; i < rounds; ++i) {
    if (i % 2 == 0) sides.before.push_back(machine.launch(1e6));
    sides.after.push_back(machine.launch(1e6 * change));
    if (i % 2 == 1) sides.before.push_back(machine.launch(1e6));
  }
  return sides;
}

std::map<Change, double> shares(double memory, size_t rounds, double change, bool paired,
                                int trials = 400) {
  std::map<Change, double> found;
  for (int t = 0; t < trials; ++t) {
    Machine machine(uint64_t(t) + 1, memory);
    const Sides sides = in_turns(machine, rounds, change);
    found[compare_launches(sides.before, sides.after, paired, {}).change] += 1.0 / trials;
  }
  return found;
}

TEST(Change, PairsAreQuietAndFindThreePercent) {
  for (const double memory : {0.9, 0.98}) {
    EXPECT_LE(shares(memory, 10, 1, true)[Change::kWorse], 0.005) << memory;
    EXPECT_LE(shares(memory, 10, 1, true)[Change::kBetter], 0.005) << memory;
  }
  EXPECT_GE(shares(0.98, 10, 1.03, true)[Change::kWorse], 0.95);
  EXPECT_GE(shares(0.98, 10, 1 / 1.03, true)[Change::kBetter], 0.95);
  EXPECT_GE(shares(0.9, 12, 1.05, true)[Change::kWorse], 0.95);
}

Sides by_medians_alone(Sides sides) {
  for (std::vector<Launch>* side : {&sides.before, &sides.after})
    for (Launch& one : *side) one.fast = 0;
  return sides;
}

TEST(Change, TheFastestRunsDecideOnADisturbedMachine) {
  constexpr int kTrials = 1000;
  int found = 0, found_by_medians = 0, alarms = 0;
  for (int t = 0; t < kTrials; ++t) {
    Machine machine(uint64_t(t) + 1, 0.98, 0.8);
    const Sides slower = in_turns(machine, 24, 1.03), same = in_turns(machine, 24, 1);
    const Sides medians = by_medians_alone(slower);
    found += compare_launches(slower.before, slower.after, true, {}).change == Change::kWorse;
    found_by_medians +=
        compare_launches(medians.before, medians.after, true, {}).change == Change::kWorse;
    const Change change = compare_launches(same.before, same.after, true, {}).change;
    alarms += change == Change::kWorse || change == Change::kBetter;
  }
  EXPECT_GE(found, 0.95 * kTrials);
  EXPECT_LE(found_by_medians, 0.6 * kTrials);
  EXPECT_LE(alarms, 0.01 * kTrials);
}

/// Pairs of launches whose medians and fastest runs differ by these factors.
Changed changed_by(size_t pairs, double median, double fast, const ChangeRule& rule = {}) {
  const std::vector<Launch> before(pairs, {.median = 100, .low = 99, .high = 101, .fast = 90});
  const std::vector<Launch> after(
      pairs, {.median = 100 * median, .low = 99 * median, .high = 101 * median, .fast = 90 * fast});
  return compare_launches(before, after, true, rule);
}

TEST(Change, MediansFindWhatSlowsOnlySomeOfTheRuns) {
  EXPECT_EQ(changed_by(11, 1.1, 1).change, Change::kWorse);
  EXPECT_EQ(changed_by(11, 1.1, 1).code, "paired");
  EXPECT_DOUBLE_EQ(changed_by(11, 1.1, 1).ratio, 1.1);
  EXPECT_DOUBLE_EQ(changed_by(11, 1.1, 1).p, sign_test(11, 11) / kMedianShare);
  EXPECT_EQ(changed_by(11, 1 / 1.1, 1).change, Change::kBetter);
  EXPECT_EQ(changed_by(10, 1.1, 1).change, Change::kInconclusive);
  EXPECT_EQ(changed_by(10, 1.1, 1).code, "median-alone");
  EXPECT_EQ(changed_by(8, 1, 1).change, Change::kSame);
}

TEST(Change, TheFastestRunsDecideFirst) {
  EXPECT_EQ(changed_by(8, 1, 1.1).change, Change::kWorse);
  EXPECT_EQ(changed_by(8, 1, 1.1).code, "paired-fast");
  EXPECT_DOUBLE_EQ(changed_by(8, 1.2, 1.1).ratio, 1.1);
  EXPECT_DOUBLE_EQ(changed_by(8, 1.2, 1.1).p, sign_test(8, 8) / kFastShare);
  EXPECT_EQ(changed_by(8, 1, 1).code, "paired-fast");
  EXPECT_EQ(changed_by(8, 1 / 1.1, 1.1).change, Change::kInconclusive);
  EXPECT_EQ(changed_by(8, 1 / 1.1, 1.1).code, "two-ways");
}

// The medians got slower by more than the timer resolves, the fastest runs did not.
TEST(Change, ResolutionIsThatOfTheTimeThatDecides) {
  std::vector<Launch> before(8,
                             {.median = 100, .low = 99, .high = 101, .resolution = 3, .fast = 20}),
      after = before;
  for (Launch& one : after) one.fast = 22;
  EXPECT_EQ(compare_launches(before, after, true, {}).code, "resolution");
  for (Launch& one : after) one.fast = 24;
  EXPECT_EQ(compare_launches(before, after, true, {}).code, "paired-fast");
}

TEST(Change, FastestRunsAreDividedByThoseOfAPeer) {
  const Launch own{.median = 100, .low = 99, .high = 101, .fast = 90},
      peer{.median = 200, .low = 198, .high = 202, .fast = 100};
  EXPECT_DOUBLE_EQ(own.relative_to(peer).fast, 0.9);
  EXPECT_EQ(own.relative_to({.median = 200, .low = 198, .high = 202}).fast, 0);
}

// At half the clock the fastest runs take twice as long and as many cycles.
TEST(Change, FastestRunsAreComparedInCyclesToo) {
  const std::vector<Launch> before(8, {.median = 100, .clock = 2000, .fast = 90}),
      slower_clock(8, {.median = 200, .clock = 1000, .fast = 180}),
      slower(8, {.median = 200, .clock = 2000, .fast = 180});
  EXPECT_EQ(compare_launches(before, slower_clock, true, {}).code, "clocks");
  EXPECT_EQ(compare_launches(before, slower, true, {}).code, "paired-fast");
}

TEST(Change, MediansAndFastestRunsHaveFloorsOfTheirOwn) {
  EXPECT_EQ(changed_by(11, 1.1, 1.1, {.paired_floor = 0.2}).code, "paired-fast");
  EXPECT_EQ(changed_by(11, 1.1, 1.1, {.fast_floor = 0.2}).code, "paired");
  EXPECT_EQ(changed_by(11, 1.1, 1.1, {.paired_floor = 0.2, .fast_floor = 0.2}).code,
            "within-floor");
  EXPECT_EQ(changed_by(11, 1.1, 1.1, {.floor = 0.2}).code, "within-floor");
}

// What a test that takes all samples together would say of the same machine: the reason for all of
// this.
TEST(Change, SamplesOfOneLaunchWouldCryWolf) {
  int alarms = 0;
  for (int t = 0; t < 200; ++t) {
    Machine machine(uint64_t(t) + 1, 0.5);
    const Launch was = machine.launch(1e6), is = machine.launch(1e6);
    alarms += is.low > 1.01 * was.high;
    const Changed changed = compare_launches({{was}}, {{is}}, false, {});
    EXPECT_EQ(changed.change, Change::kInconclusive);
    EXPECT_EQ(changed.code, "no-floor");
  }
  EXPECT_GE(alarms, 40);
}

TEST(Change, LaunchesThatDidNotTakeTurnsMakeTheirOwnFloor) {
  EXPECT_LE(shares(0, 8, 1, false)[Change::kWorse], 0.005);
  EXPECT_GE(shares(0, 8, 1.2, false)[Change::kWorse], 0.95);
  EXPECT_LE(shares(0, 8, 1.05, false)[Change::kWorse],
            0.2);  // hidden by the floor of 2 % drift: some 6 %
  std::vector<Launch> before(7, Launch{100, 99, 101}), after(1, Launch{120, 119, 121});
  EXPECT_EQ(compare_launches(before, after, false, {}).change, Change::kWorse);
  before.pop_back();
  EXPECT_EQ(compare_launches(before, after, false, {}).code, "no-floor");
  before.assign(7, Launch{100, 99, 101});
  before[3] = {125, 124, 126};
  EXPECT_EQ(compare_launches(before, after, false, {}).change, Change::kInconclusive);
}

TEST(Change, AFloorFromElsewhereDecides) {
  const ChangeRule rule{.floor = 0.05};
  const Launch was{100, 99, 101};
  const auto change = [&](const Launch& is) {
    return compare_launches({{was}}, {{is}}, false, rule);
  };
  EXPECT_EQ(change({110, 109, 111}).change, Change::kWorse);
  EXPECT_EQ(change({110, 109, 111}).code, "floor");
  EXPECT_NEAR(change({110, 109, 111}).ratio, 1.1, 1e-12);
  EXPECT_NEAR(change({110, 109, 111}).low, 109.0 / 101, 1e-12);
  EXPECT_EQ(change({90, 89, 91}).change, Change::kBetter);
  EXPECT_EQ(compare_launches({{{100, 99.8, 100.2}}}, {{{100, 99.9, 100.1}}}, false, rule).change,
            Change::kSame);
  EXPECT_EQ(change({101, 100, 102}).change, Change::kInconclusive) << "a floor makes nothing equal";
  EXPECT_EQ(change({101, 100, 102}).code, "within-floor");
  EXPECT_EQ(change({101, 0, INFINITY}).code, "one-sample");
  EXPECT_EQ(change({106, 105, 107}).change, Change::kInconclusive);  // 3.96 % to 8.1 %
  EXPECT_EQ(change({106, 105, 107}).code, "wide");
  EXPECT_EQ(change({110, 90, 130}).code, "wide");  // noise
}

TEST(Change, SevenPairsAreTooFew) {
  const std::vector<Launch> before(8, Launch{100, 100, 100}), after(8, Launch{110, 110, 110});
  EXPECT_TRUE(compare_launches(before, after, true, {}).paired);
  EXPECT_EQ(compare_launches(before, after, true, {}).change, Change::kWorse);
  const std::span seven_before(before.data(), 3), seven_after(after.data(), 3);
  EXPECT_FALSE(compare_launches(seven_before, seven_after, true, {}).paired);
  EXPECT_EQ(compare_launches(seven_before, seven_after, true, {}).code, "no-floor");
}

TEST(Change, CyclesAndTheTimerHaveAWord) {
  const ChangeRule rule{.floor = 0.05};
  const auto code = [&](const Launch& was, const Launch& is) {
    return compare_launches({{was}}, {{is}}, false, rule).code;
  };
  EXPECT_EQ(code({100, 99, 101, 0, 1980}, {120, 119, 121, 0, 1650}), "clocks");  // as many cycles
  EXPECT_EQ(code({100, 99, 101, 0, 1980}, {120, 119, 121, 0, 1980}), "floor");
  EXPECT_EQ(code({100, 99, 101, 0, 1980}, {120, 119, 121, 0, 0}), "floor");
  EXPECT_EQ(code({100, 99, 101, 50}, {120, 119, 121, 50}), "resolution");
  EXPECT_EQ(code({100, 99, 101, 10}, {120, 119, 121, 10}), "floor");
}

TEST(Change, AnotherInTheSameLaunchCancelsTheMachine) {
  const Launch fast{100, 99, 101}, slow{200, 198, 202};
  const Launch ratio = fast.relative_to(slow);
  EXPECT_DOUBLE_EQ(ratio.median, 0.5);
  EXPECT_DOUBLE_EQ(ratio.low, 99.0 / 202);
  EXPECT_DOUBLE_EQ(ratio.high, 101.0 / 198);
}

// A hundred cases without a difference, and one whose every round is slower.
TEST(Change, ManyCasesAreLookedAtTogether) {
  Changed one{.change = Change::kWorse, .code = "paired", .paired = true, .p = sign_test(10, 10)},
      alone = one;
  account_for_family({&alone}, {});
  EXPECT_EQ(alone.change, Change::kWorse);
  std::vector<Changed> others(
      100, Changed{.change = Change::kSame, .code = "paired", .paired = true, .p = 0.5});
  std::vector<Changed*> family{&one};
  for (Changed& other : others) family.push_back(&other);
  account_for_family(family, {});
  EXPECT_EQ(one.change, Change::kInconclusive);
  EXPECT_EQ(one.code, "many-cases");
  EXPECT_EQ(others[0].change, Change::kSame);
}

TEST(Change, ExactQuantitiesHaveNoNoise) {
  const auto change = [](std::vector<double> before, std::vector<double> after) {
    return compare_exact(before, after, 0.01, 4096).change;
  };
  EXPECT_EQ(change({1e6}, {1e6}), Change::kSame);
  EXPECT_EQ(change({1e6}, {1.02e6}), Change::kWorse);
  EXPECT_EQ(change({1.02e6}, {1e6}), Change::kBetter);
  EXPECT_EQ(change({1000}, {3000}), Change::kSame);           // below what is counted in
  EXPECT_EQ(change({1e6, 1.03e6}, {1.02e6}), Change::kSame);  // one launch had as much
  EXPECT_EQ(change({0}, {0}), Change::kSame);
  EXPECT_EQ(change({0}, {1e6}), Change::kWorse);
  EXPECT_EQ(change({}, {1}), Change::kInvalid);
}

}  // namespace
}  // namespace attest::core
