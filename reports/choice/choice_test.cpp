// Choices: every way in which an implementation is not to be used, and sizes between those that
// were measured. html/decide_test.js has the same for the page.
#include "reports/choice/choice.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <nlohmann/json.hpp>

#include "reports/choice/choice_text.hpp"
#include "reports/testing/records.hpp"

namespace attest::reports {
namespace {

using core::Record;
using ::testing::HasSubstr;

/// Passes in 10 ns (9 to 11, 15 at most) with 0.4 of its gate and 100 bytes, at 1,000 tokens.
Record taken(const std::function<void(Record&)>& change = [](Record&) {}) {
  Record record = attest::testing::passed("a");
  record.spec = "softmax dtype=f16 seq_len_q=1000 head_dim=64";
  record.max_ratio = 0.4;
  record.memory = {.workspace_bytes = 0, .peak_bytes = 100};
  record.time->median_ns = 10;
  record.time->median_low_ns = 9, record.time->median_high_ns = 11;
  record.time->max_ns = 15;
  change(record);
  return record;
}

Record sized(int64_t tokens, double ns, core::ReasonCode code = core::ReasonCode::kPass) {
  return taken([&](Record& r) {
    r.case_name = fmt::format("n{}", tokens);
    r.spec = fmt::format("softmax dtype=f16 seq_len_q={} head_dim=64", tokens);
    r.outcome.code = code;
    core::TimeRecord& time = *r.time;
    time.median_ns = time.median_low_ns = time.median_high_ns = time.max_ns = ns;
  });
}

Choice chosen_from(std::vector<Record> records, std::optional<int64_t> tokens,
                   const ChoiceLimits& limits) {
  static Input input;  // outlives the choice
  input.runs = {attest::testing::file(std::move(records))};
  const std::vector<ProblemRecords> problems = tokens ? families(input) : cases(input);
  return choose(problems.at(0), tokens, limits);
}

/// "b usable, a rejected deadline".
std::string answer_of(std::vector<Record> records, const ChoiceLimits& limits,
                      std::optional<int64_t> tokens = {}) {
  std::string text;
  for (const Candidate& one : chosen_from(std::move(records), tokens, limits).candidates)
    text += fmt::format("{}{} {}{}{}", text.empty() ? "" : ", ", one.impl, name(one.usable),
                        one.limit.empty() ? "" : " ", one.limit);
  return text;
}

TEST(Choice, AVerdictRejects) {
  const auto judged = [](core::ReasonCode code) {
    return taken([&](Record& r) { r.outcome.code = code; });
  };
  EXPECT_EQ(answer_of({judged(core::ReasonCode::kFailTolerance)}, {}), "a rejected fail");
  EXPECT_EQ(answer_of({judged(core::ReasonCode::kErrorRuntime)}, {}), "a rejected error");
  EXPECT_EQ(answer_of({judged(core::ReasonCode::kSkippedTime)}, {}), "a undecided skipped");
  EXPECT_EQ(answer_of({judged(core::ReasonCode::kFailTolerance), taken()}, {}), "a usable")
      << "the last record counts";
  EXPECT_EQ(answer_of({taken(), judged(core::ReasonCode::kFailTolerance)}, {}), "a rejected fail");
}

TEST(Choice, AnErrorAboveTheLimitRejects) {
  EXPECT_EQ(answer_of({taken()}, {.max_error_ratio = 0.4}), "a usable");
  EXPECT_EQ(answer_of({taken()}, {.max_error_ratio = 0.39}), "a rejected accuracy");
  EXPECT_EQ(answer_of({taken([](Record& r) { r.max_ratio = NAN; })}, {.max_error_ratio = 1}),
            "a rejected accuracy");
}

TEST(Choice, MemoryHasToBeMeasured) {
  EXPECT_EQ(answer_of({taken()}, {.memory_bytes = 100}), "a usable");
  EXPECT_EQ(answer_of({taken()}, {.memory_bytes = 99}), "a rejected memory");
  const auto with = [](core::MemoryRecord memory) {
    return taken([&](Record& r) { r.memory = std::move(memory); });
  };
  EXPECT_EQ(answer_of({with({.workspace_bytes = 1})}, {.memory_bytes = 99}), "a undecided memory");
  EXPECT_EQ(answer_of({with({.workspace_bytes = 100})}, {.memory_bytes = 99}), "a rejected memory");
  EXPECT_EQ(answer_of({with({.peak_bytes = 1, .unseen = "streams"})}, {.memory_bytes = 99}),
            "a undecided memory");
  EXPECT_EQ(answer_of({with({.workspace_bytes = 60, .peak_bytes = 1, .pool_peak_bytes = 40})},
                      {.memory_bytes = 99}),
            "a rejected memory");
}

TEST(Choice, TheSlowestHasToMeetTheDeadline) {
  EXPECT_EQ(answer_of({taken()}, {.deadline_ns = 15}), "a usable");
  EXPECT_EQ(answer_of({taken()}, {.deadline_ns = 14}), "a undecided deadline");
  EXPECT_EQ(answer_of({taken()}, {.deadline_ns = 8}), "a rejected deadline");
  EXPECT_EQ(
      answer_of({taken([](Record& r) { r.time->cold_samples_ns = {3, 20}; })}, {.deadline_ns = 16}),
      "a undecided deadline");
  const Record untimed = taken([](Record& r) { r.time.reset(); });
  EXPECT_EQ(answer_of({untimed}, {.deadline_ns = 8}), "a undecided time");
  EXPECT_EQ(answer_of({untimed}, {.deadline_ns = 8, .memory_bytes = 99}), "a rejected memory");
}

TEST(Choice, TheFastestThatMayBeUsedIsBest) {
  const auto other = [](const char* impl, double ns,
                        core::ReasonCode code = core::ReasonCode::kPass) {
    Record record = sized(1000, ns, code);
    record.case_name = "a";
    record.impl = impl;
    return record;
  };
  EXPECT_EQ(answer_of({taken(), other("b", 5), other("c", 1, core::ReasonCode::kFailTolerance)},
                      {.deadline_ns = 14}),
            "b usable, a undecided deadline, c rejected fail");
  const Choice none = chosen_from({taken()}, {}, {.deadline_ns = 14});
  EXPECT_EQ(none.best(), nullptr);
  EXPECT_EQ(none.usable(), Usable::kUnknown);
}

TEST(Choice, SizesOnBothSidesDecide) {
  const std::vector<Record> sizes{sized(1000, 10), sized(4000, 40)};
  EXPECT_EQ(answer_of(sizes, {.deadline_ns = 10}, 1000), "a usable");
  EXPECT_EQ(answer_of(sizes, {.deadline_ns = 40}, 2000), "a usable");
  EXPECT_EQ(answer_of(sizes, {.deadline_ns = 9}, 2000), "a rejected deadline");
  EXPECT_EQ(answer_of(sizes, {.deadline_ns = 30}, 2000), "a undecided between");
  EXPECT_EQ(answer_of({sized(1000, 1), sized(4000, 1, core::ReasonCode::kFailTolerance)}, {}, 2000),
            "a undecided between");
  EXPECT_EQ(
      answer_of({sized(1000, 1), sized(2000, 9, core::ReasonCode::kSkippedTime), sized(4000, 1)},
                {.deadline_ns = 1}, 2000),
      "a usable")
      << "a skipped size was not measured";
  EXPECT_EQ(chosen_from(sizes, 1999, {}).candidates[0].points[0]->case_name, "n1000");
  EXPECT_EQ(chosen_from(sizes, 2001, {}).candidates[0].points[0]->case_name, "n4000");
}

TEST(Choice, NothingIsExtrapolated) {
  const std::vector<Record> sizes{sized(1000, 10), sized(4000, 40)};
  EXPECT_EQ(answer_of(sizes, {.deadline_ns = 100}, 4001), "a undecided range");
  EXPECT_EQ(answer_of(sizes, {.deadline_ns = 30}, 4001), "a rejected deadline");
  EXPECT_EQ(answer_of(sizes, {.deadline_ns = 1}, 999), "a undecided range");
  const Choice choice = chosen_from(sizes, 5000, {.deadline_ns = 30});
  EXPECT_THAT(why(choice.candidates[0], choice.tokens, {.deadline_ns = 30}),
              HasSubstr("at 4000 tokens: its median is 40"));
}

TEST(Choice, OtherProblemsAndMachinesAreNotMixed) {
  Record wide = sized(4000, 1);
  wide.spec = "softmax dtype=f16 seq_len_q=4000 head_dim=128";
  EXPECT_EQ(answer_of({sized(1000, 1), wide}, {}, 2000), "a undecided range");
  Input input;
  input.runs = {attest::testing::file({sized(1000, 1)}), attest::testing::file({sized(4000, 1)})};
  EXPECT_EQ(families(input).size(), 1u);
  input.runs[1].header.environment["cpu"]["model"] = "another";
  EXPECT_EQ(families(input).size(), 2u);
  EXPECT_EQ(cases(input).size(), 2u);
}

TEST(Choice, AProblemForTheLaunchCostIsInNoFamily) {
  Record smallest = sized(1, 1);
  smallest.sweep = core::SweepPoint{};
  EXPECT_EQ(answer_of({sized(4000, 40), smallest}, {}, 1000), "a undecided range");
  smallest.sweep->over = "seq_len_q";
  EXPECT_EQ(answer_of({sized(4000, 40), smallest}, {}, 1000), "a usable");
}

TEST(Choice, TheGridIsThePowersOfTwoBetweenTheSizes) {
  Input input;
  input.runs = {attest::testing::file({sized(1000, 10), sized(4500, 45)})};
  const std::vector<ProblemRecords> found = families(input);
  const ChoiceLimits limits{.deadline_ns = 20};
  EXPECT_EQ(grid(found.at(0)), (std::vector<int64_t>{1024, 2048, 4096}));
  const nlohmann::json document = choices_json({}, found, limits);
  for (const nlohmann::json& size : document["grids"][0]["sizes"])
    EXPECT_EQ(size["answer"], "inconclusive") << "45 ns misses the deadline, 10 ns meets it";
  EXPECT_EQ(choices_json({}, found, {})["grids"][0]["sizes"][0]["best"], "a");
}

}  // namespace
}  // namespace attest::reports
