// Summaries: the sentence with its denominator, the order of the worst.
#include "reports/summary.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

namespace attest::reports {
namespace {

using core::ReasonCode;

core::Record record(const std::string& impl, ReasonCode code, double max_ratio = 0) {
  core::Record r;
  r.case_name = "x";
  r.impl = impl;
  r.outcome = {code, ""};
  r.max_ratio = max_ratio;
  return r;
}

Input input(std::vector<core::Record> records) {
  core::Results run;
  run.begun = run.complete = true;
  run.records = std::move(records);
  return make_input({run});
}

std::string sentence(std::vector<core::Record> records) {
  const Input all = input(std::move(records));
  return summary_of(all).sentence;
}

TEST(Summary, SaysWhatWasJudged) {
  EXPECT_EQ(sentence({}), "There are no records.");
  EXPECT_EQ(sentence({record("a", ReasonCode::kPass)}), "The one judged record passes.");
  EXPECT_EQ(
      sentence({record("a", ReasonCode::kPass), record("b", ReasonCode::kPass),
                record("b", ReasonCode::kUnsupportedTable), record("b", ReasonCode::kSkippedTime)}),
      "All 2 judged records pass; 2 more were not judged (1 unsupported, 1 skipped).");
  EXPECT_EQ(sentence({record("a", ReasonCode::kUnsupportedTable),
                      record("a", ReasonCode::kSkippedMemory)}),
            "Nothing was judged: of 2 records, 1 is unsupported and 1 skipped.");
}

TEST(Summary, NamesTheImplementationsThatDoNotPass) {
  EXPECT_EQ(sentence({record("a", ReasonCode::kPass), record("b", ReasonCode::kFailNan),
                      record("b", ReasonCode::kCrashSignal), record("b", ReasonCode::kPass),
                      record("c", ReasonCode::kUnsupportedQuery)}),
            "1 of 2 judged implementations does not pass (b): 2 of 4 judged records are bad (1 "
            "fail, 1 crash); 1 more was not judged (1 unsupported).");
  EXPECT_EQ(sentence({record("a", ReasonCode::kFailNan), record("b", ReasonCode::kFailNan),
                      record("c", ReasonCode::kSuspectZeros), record("d", ReasonCode::kTimeoutRun),
                      record("e", ReasonCode::kErrorRuntime)}),
            "5 of 5 judged implementations do not pass (a, b, c and 2 more): 5 of 5 judged records "
            "are bad (2 fail, 1 suspect, 1 error, 1 timeout).");
}

TEST(Summary, TheWorstComesFirst) {
  const Input all = input(
      {record("crash", ReasonCode::kCrashSignal), record("small", ReasonCode::kFailTolerance, 2),
       record("pass", ReasonCode::kPass, 0.5), record("large", ReasonCode::kFailTolerance, 1e6),
       record("nan", ReasonCode::kFailNan, NAN), record("zeros", ReasonCode::kSuspectZeros, 1e9)});
  std::vector<std::string> order;
  for (const Placed& one : summary_of(all).bad) order.push_back(one.record->impl);
  EXPECT_THAT(order, ::testing::ElementsAre("nan", "large", "small", "zeros", "crash"));
}

TEST(Summary, SpentTimeCountsEveryRun) {
  core::Record r = record("a", ReasonCode::kPass);
  r.fills = {core::FillRecord{.run_ns = 10}, core::FillRecord{.run_ns = 20}};
  r.relations = {core::RelationRecord{.run_ns = 100}};
  EXPECT_EQ(spent_ns(r), 130);
  r.time = core::TimeRecord{.samples_ns = {1, 2},
                            .cold_samples_ns = {5},
                            .iterations_per_sample = 10,
                            .warmup_ns = 1000,
                            .create_ns = 2000};
  EXPECT_EQ(spent_ns(r), 130 + 30 + 5 + 3000);
}

}  // namespace
}  // namespace attest::reports
