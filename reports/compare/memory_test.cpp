// Which growth of memory is found, in launches that took turns and in others.
#include "reports/compare/memory.hpp"

#include <gtest/gtest.h>

#include "reports/testing/records.hpp"

namespace attest::reports {
namespace {

using attest::testing::file;
using attest::testing::passed;
using core::Change;
using core::Results;

constexpr double kKiB = 1 << 10;

/// Launches whose peaks are these.
std::vector<Results> with_peaks(const std::vector<double>& kib) {
  std::vector<Results> all;
  for (const double one : kib) {
    core::Record record = passed();
    record.memory.peak_bytes = uint64_t(one * kKiB);
    all.push_back(file({record}));
  }
  return all;
}
// Of one process more than of the next, by up to 1.4 MiB
const std::vector<double> kPeaks{5400, 5410, 6700, 5560, 6660, 5290, 5290, 5320};

std::vector<double> more(double factor, double kib = 0) {
  std::vector<double> all = kPeaks;
  for (double& one : all) one = one * factor + kib;
  return all;
}

core::Changed changed_memory(const std::vector<double>& before, const std::vector<double>& after,
                             bool in_turns = true) {
  const std::vector<Results> files_before = with_peaks(before), files_after = with_peaks(after);
  const Side was(files_before.begin(), files_before.end()),
      is(files_after.begin(), files_after.end());
  const Key key = core::question_of(files_before.front().records.front());
  return compare_memory(was, is, key, in_turns, {});
}

TEST(Memory, PairsShowATenthMoreInSpiteOfWhatLaunchesDiffer) {
  EXPECT_EQ(changed_memory(kPeaks, more(1.1)).change, Change::kWorse);
  EXPECT_EQ(changed_memory(kPeaks, more(1.1)).code, "paired");
  EXPECT_NEAR(changed_memory(kPeaks, more(1.1)).ratio, 1.1, 1e-3);
  EXPECT_EQ(changed_memory(more(1.1), kPeaks).change, Change::kBetter);
  EXPECT_EQ(changed_memory(kPeaks, more(1.1), false).change, Change::kSame);
}

TEST(Memory, GrowthBelow64KiBOrOnePercentIsNone) {
  EXPECT_EQ(changed_memory(kPeaks, more(1, 60)).change, Change::kSame);
  EXPECT_EQ(changed_memory(kPeaks, more(1, 80)).change, Change::kWorse);
  std::vector<double> large(8, 100000), larger(8, 100900);
  EXPECT_EQ(changed_memory(large, larger).change, Change::kSame);
}

TEST(Memory, WhatTookNothingMayGrow) {
  const std::vector<double> none(8, 0), some(8, 100), little(8, 60);
  EXPECT_EQ(changed_memory(none, some).change, Change::kWorse);
  EXPECT_EQ(changed_memory(none, little).change, Change::kSame);
  EXPECT_EQ(changed_memory(none, none).change, Change::kSame);
}

TEST(Memory, PairsThatDoNotDifferCountInTheFamily) {
  EXPECT_TRUE(changed_memory(kPeaks, kPeaks).paired);
  EXPECT_FALSE(changed_memory(kPeaks, kPeaks, false).paired);
}

TEST(Memory, OnePairThatDisagreesLeavesItAsItWas) {
  std::vector<double> after = more(1.1);
  after[2] = kPeaks[2];
  EXPECT_EQ(changed_memory(kPeaks, after).change, Change::kSame);
}

TEST(Memory, WithoutPairsAllLaunchesDifferByAMebibyte) {
  const std::vector<double> one{20000}, grown{20000 + 1100}, barely{20000 + 1000};
  EXPECT_EQ(changed_memory(one, grown, false).change, Change::kWorse);
  EXPECT_EQ(changed_memory(one, grown, false).code, "exact");
  EXPECT_EQ(changed_memory(one, barely, false).change, Change::kSame);
  EXPECT_EQ(changed_memory(one, barely, true).change, Change::kSame) << "one pair is too few";
}

}  // namespace
}  // namespace attest::reports
