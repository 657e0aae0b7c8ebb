// Choices at sizes between and beyond those that were measured. html/decide_test.js has the same
// for the page.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "reports/choice/choice_text.hpp"
#include "reports/choice/measuring.hpp"
#include "reports/choice/why.hpp"
#include "reports/testing/choices.hpp"

namespace attest::reports {
namespace {

using ::testing::HasSubstr;

TEST(ChoiceOfSizes, SizesOnBothSidesDecide) {
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

// Of 4,096 and 8,192 tokens, no tile of a kernel is cut.
TEST(ChoiceOfSizes, ASizeIsNotJudgedByMultiplesThatItIsNot) {
  const std::vector<Record> sizes{sized(4096, 1), sized(8192, 1)};
  EXPECT_EQ(answer_of(sizes, {}, 5001), "a undecided alignment");
  EXPECT_EQ(answer_of(sizes, {}, 8192), "a usable");
  EXPECT_EQ(answer_of({sized(1000, 1), sized(4096, 1), sized(8192, 1)}, {}, 5000), "a usable")
      << "1,000 is a multiple of 8 too";
  EXPECT_EQ(answer_of({sized(1000, 1), sized(4096, 1), sized(8192, 1)}, {}, 5004),
            "a undecided alignment");
  EXPECT_EQ(
      answer_of({sized(1001, 1, core::ReasonCode::kFailTolerance), sized(4096, 1), sized(8192, 1)},
                {}, 5001),
      "a undecided alignment")
      << "it failed there";
  EXPECT_EQ(answer_of(sizes, {.deadline_ns = 0.5}, 5001), "a rejected deadline");
  Input input;
  input.runs = {attest::testing::file(sizes)};
  const ProblemRecords family = families(input).at(0);
  const Candidate one = choose(family, 5001, {}).candidates.at(0);
  EXPECT_EQ(why(one, 5001, {}),
            "only multiples of 4096 tokens were judged: pad the tokens to one, or measure 5001");
  EXPECT_THAT(command_of(family, 5001, one), HasSubstr("seq_len_q=5001"));
}

TEST(ChoiceOfSizes, SeveralCasesOfTheSizeAllCount) {
  Record other = sized(2000, 9, core::ReasonCode::kFailTolerance);
  other.case_name = "other";
  other.outcome.reason = "wrong";
  EXPECT_EQ(answer_of({sized(2000, 1), other}, {}, 2000), "a rejected fail");
  const Choice choice = chosen_from({sized(2000, 1), other}, 2000, {});
  EXPECT_EQ(why(choice.candidates[0], 2000, {}), "fail: wrong");
  other.outcome.code = core::ReasonCode::kPass;
  EXPECT_EQ(answer_of({sized(2000, 1), other}, {.deadline_ns = 5}, 2000), "a rejected deadline");
  other.time.reset();
  EXPECT_EQ(answer_of({sized(2000, 1), other}, {.deadline_ns = 5}, 2000), "a undecided time");
}

TEST(ChoiceOfSizes, NothingIsExtrapolated) {
  const std::vector<Record> sizes{sized(1000, 10), sized(4000, 40)};
  EXPECT_EQ(answer_of(sizes, {.deadline_ns = 100}, 4001), "a undecided range");
  EXPECT_EQ(answer_of(sizes, {.deadline_ns = 30}, 4001), "a rejected deadline");
  EXPECT_EQ(answer_of(sizes, {.deadline_ns = 1}, 999), "a undecided range");
  const Choice choice = chosen_from(sizes, 5000, {.deadline_ns = 30});
  EXPECT_THAT(why(choice.candidates[0], choice.tokens, {.deadline_ns = 30}),
              HasSubstr("at 4000 tokens: median 40.0 ns, slowest 40.0 ns: the median is 1.33 times "
                        "the deadline of 30.0 ns"));
}

TEST(ChoiceOfSizes, WhatIsUnsupportedForOneReasonIsSoAtAnySize) {
  const auto refused = [](int64_t tokens, const char* reason) {
    Record record = sized(tokens, 1, core::ReasonCode::kUnsupportedQuery);
    record.outcome.reason = reason;
    return record;
  };
  const Record at_most = refused(8000, "at most 4,000 tokens");
  EXPECT_EQ(answer_of({at_most}, {}, 1000), "a undecided range") << "this may depend on tokens";
  EXPECT_EQ(answer_of({at_most, refused(16000, "at most 4,096 tokens")}, {}, 1000),
            "a undecided range");
  EXPECT_EQ(answer_of({refused(4000, "no f32"), refused(8000, "no f32")}, {}, 1000),
            "a rejected unsupported");
  Record of_table = refused(4000, "does not take f32");
  of_table.outcome.code = core::ReasonCode::kUnsupportedTable;
  EXPECT_EQ(answer_of({of_table}, {}, 1000), "a rejected unsupported") << "a table has no tokens";
  Record of_kernels = refused(4000, "no kernel for sm_87: it has sm_90a");
  of_kernels.outcome.code = core::ReasonCode::kUnsupportedKernel;
  EXPECT_EQ(answer_of({of_kernels}, {}, 1000), "a rejected unsupported") << "nor has a device";
  EXPECT_EQ(answer_of({refused(1000, "no f32")}, {}, 4000), "a rejected unsupported");
  EXPECT_EQ(answer_of({refused(1000, "no f32"), refused(4000, "no f32")}, {}, 2000),
            "a rejected unsupported");
  Record other = refused(4000, "no GQA");
  other.case_name = "other";
  EXPECT_EQ(answer_of({refused(4000, "no f32"), other, refused(8000, "no f32")}, {}, 1000),
            "a undecided range");
  EXPECT_EQ(answer_of({sized(4000, 1, core::ReasonCode::kFailTolerance)}, {}, 1000),
            "a undecided range");
  const Choice choice = chosen_from({refused(4000, "no f32"), refused(8000, "no f32")}, 1000, {});
  EXPECT_EQ(why(choice.candidates[0], 1000, {}), "at 4000 tokens: unsupported: a says \"no f32\"")
      << "these are the implementation's own words";
}

TEST(ChoiceOfSizes, AProblemForTheLaunchCostIsInNoFamily) {
  Record smallest = sized(1, 1);
  smallest.sweep = core::SweepPoint{};
  EXPECT_EQ(answer_of({sized(4000, 40), smallest}, {}, 1000), "a undecided range");
  smallest.sweep->over = "seq_len_q";
  EXPECT_EQ(answer_of({sized(4000, 40), smallest}, {}, 1000), "a usable");
}

TEST(ChoiceOfSizes, TheGridIsThePowersOfTwoBetweenTheSizes) {
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
