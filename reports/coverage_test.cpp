// Coverage: which axes are varied, pinned and never given, by records that were judged.
#include "reports/coverage.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "reports/testing/records.hpp"

namespace attest::reports {
namespace {

using ::testing::ElementsAre;
using State = AxisCoverage::State;

core::Record of(const std::string& spec, const std::string& dtype = "f32") {
  core::Record record = testing::passed();
  record.spec = spec;
  record.dtype = dtype;
  record.operation = spec.substr(0, spec.find(' '));
  return record;
}

Input input_of(std::vector<core::Record> records) {
  Input input = make_input({testing::file(std::move(records))});
  input.axes = {{"softmax", {"batch", "num_heads", "seq_len_q", "head_dim", "mask"}},
                {"linear", {"head_dim"}}};
  return input;
}

AxisCoverage axis(const std::vector<AxisCoverage>& axes, const std::string& name) {
  for (const AxisCoverage& one : axes)
    if (one.axis == name) return one;
  ADD_FAILURE() << name;
  return {};
}

TEST(Coverage, TellsVariedFromPinnedFromNever) {
  const std::vector<AxisCoverage> axes =
      axes_of(input_of({of("softmax num_heads=8 seq_len_q=1024 head_dim=64", "f16"),
                        of("softmax num_heads=8 seq_len_q=64 head_dim=64 mask"),
                        of("softmax num_heads=8 seq_len_q=197 head_dim=64")}));
  ASSERT_EQ(axes.size(), 6u);
  EXPECT_EQ(axes[0].axis, "dtype");
  EXPECT_THAT(axes[0].values, ElementsAre("f16", "f32"));
  EXPECT_EQ(axis(axes, "seq_len_q").state, State::kVaried);
  EXPECT_THAT(axis(axes, "seq_len_q").values, ElementsAre("64", "197", "1024"));
  EXPECT_EQ(axis(axes, "num_heads").state, State::kPinned);
  EXPECT_THAT(axis(axes, "mask").values, ElementsAre("-", "given"));
  EXPECT_EQ(axis(axes, "mask").state, State::kVaried);
  EXPECT_EQ(axis(axes, "batch").state, State::kNever);
}

TEST(Coverage, CountsWhatWasJudgedAlone) {
  core::Record skipped = of("softmax num_heads=4 mask");
  skipped.outcome = {core::ReasonCode::kSkippedTime, "too slow"};
  core::Record failed = of("softmax num_heads=2");
  failed.outcome = {core::ReasonCode::kFailTolerance, "wrong"};
  const std::vector<AxisCoverage> axes =
      axes_of(input_of({of("softmax num_heads=1"), failed, skipped}));
  EXPECT_THAT(axis(axes, "num_heads").values, ElementsAre("1", "2"));
  EXPECT_EQ(axis(axes, "mask").state, State::kNever);
}

TEST(Coverage, OperationsAreApartAndUnknownWordsComeLast) {
  const std::vector<AxisCoverage> axes =
      axes_of(input_of({of("linear head_dim=64"), of("softmax head_dim=32 of_tomorrow=1")}));
  EXPECT_EQ(axes[1].operation, "linear");
  EXPECT_THAT(axes[1].values, ElementsAre("64"));
  EXPECT_EQ(axes.back().axis, "of_tomorrow");
  EXPECT_EQ(axes.back().operation, "softmax");
}

TEST(Coverage, SaysWhatTheSuitesHaveBeside) {
  Input input = input_of({of("softmax num_heads=8 seq_len_q=64 head_dim=64")});
  EXPECT_FALSE(axes_of(input).at(0).in_suites.has_value()) << "no suites are known";
  input.suites.add("softmax", {{"dtype", "f16"}, {"num_heads", "8"}, {"seq_len_q", "64"}});
  input.suites.add("softmax", {{"dtype", "f32"},
                               {"num_heads", "8"},
                               {"seq_len_q", "197"},
                               {"mask", "given"},
                               {"unaligned", "given"}});
  input.suites.add("linear", {{"head_dim", "8"}});
  const std::vector<AxisCoverage> axes = axes_of(input);
  EXPECT_THAT(axis(axes, "dtype").only_in_suites, ElementsAre("f16"));
  EXPECT_EQ(axis(axes, "dtype").in_suites, State::kVaried);
  EXPECT_EQ(axis(axes, "num_heads").in_suites, State::kPinned);
  EXPECT_THAT(axis(axes, "num_heads").only_in_suites, ElementsAre());
  EXPECT_EQ(axis(axes, "seq_len_q").state, State::kPinned);
  EXPECT_THAT(axis(axes, "seq_len_q").only_in_suites, ElementsAre("197"));
  EXPECT_EQ(axis(axes, "mask").state, State::kNever);
  EXPECT_THAT(axis(axes, "mask").only_in_suites, ElementsAre("given"));
  EXPECT_EQ(axis(axes, "batch").in_suites, State::kNever);
  EXPECT_EQ(axis(axes, "unaligned").in_suites, State::kVaried) << "attest's list lacks it";
  EXPECT_THAT(operations_of_suites_alone(input), ElementsAre("linear"));
}

// A case of a sweep has "tokens", and its records have how many these are.
TEST(Coverage, ASweepsTokensAreJudgedByAnyNumber) {
  Input input = input_of({of("softmax seq_len_q=34688 head_dim=64 mask")});
  input.suites.add("softmax", {{"seq_len_q", "tokens"}, {"batch", "tokens"}, {"mask", "tokens"}});
  const std::vector<AxisCoverage> axes = axes_of(input);
  EXPECT_THAT(axis(axes, "seq_len_q").only_in_suites, ElementsAre());
  EXPECT_THAT(axis(axes, "batch").only_in_suites, ElementsAre("tokens"));
  EXPECT_THAT(axis(axes, "mask").only_in_suites, ElementsAre("tokens"));
}

// Else they would have no order beside numbers.
TEST(Coverage, WhatIsNoFiniteNumberIsAWord) {
  const std::vector<AxisCoverage> axes = axes_of(
      input_of({of("softmax scale=3"), of("softmax scale=nan"), of("softmax scale=20"),
                of("softmax scale=inf"), of("softmax scale=-1"), of("softmax scale=-nan")}));
  EXPECT_THAT(axis(axes, "scale").values, ElementsAre("-nan", "inf", "nan", "-1", "3", "20"));
}

}  // namespace
}  // namespace attest::reports
