// The launches of a results file.
#include "reports/compare/launches.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "reports/testing/records.hpp"

namespace attest::reports {
namespace {

using attest::testing::file;
using attest::testing::passed;
using core::Results;
using ::testing::ElementsAre;

/// A record of that launch.
core::Record of_launch(const std::string& launch, const std::string& impl) {
  core::Record record = passed(impl);
  record.launch = launch;
  return record;
}
std::vector<std::string> impls_of(const Results& launch) {
  std::vector<std::string> names;
  for (const core::Record& record : launch.records) names.push_back(record.impl);
  return names;
}

// Launches keep the order of the file, however their records lie among each other.
TEST(Launches, OfABaselineAreApart) {
  Results baseline = file({of_launch("noon", "a"), of_launch("dawn", "a"), of_launch("noon", "b"),
                           of_launch("dawn", "b")});
  baseline.complete = true;
  baseline.closing = core::Closing::of(baseline.records, "night");
  baseline.closing.never_judged["a"] = {"packed"};
  const std::vector<Results> launches = launches_in(baseline);
  ASSERT_EQ(launches.size(), 2u);
  EXPECT_EQ(launches[0].header.started, "noon");
  EXPECT_EQ(launches[1].header.started, "dawn");
  for (const Results& launch : launches) {
    EXPECT_THAT(impls_of(launch), ElementsAre("a", "b"));
    EXPECT_TRUE(launch.complete);
    EXPECT_EQ(launch.closing.results, 2u) << "of its own records, not of all";
    EXPECT_EQ(launch.closing.finished, "night");
    EXPECT_TRUE(launch.closing.never_judged.empty()) << "that is of all launches";
  }
}

TEST(Launches, OfAFileIsTheFile) {
  Results run = file({passed("a"), passed("b")});
  run.complete = true;
  run.closing = core::Closing::of(run.records, "night");
  run.closing.never_judged["a"] = {"packed"};
  const std::vector<Results> launches = launches_in(run);
  ASSERT_EQ(launches.size(), 1u);
  EXPECT_EQ(launches[0].header.started, run.header.started);
  EXPECT_THAT(impls_of(launches[0]), ElementsAre("a", "b"));
  EXPECT_EQ(launches[0].closing.never_judged.size(), 1u);
  run.records.clear();
  EXPECT_EQ(launches_in(run).size(), 1u) << "a launch without records";
}

}  // namespace
}  // namespace attest::reports
