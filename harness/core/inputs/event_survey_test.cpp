// The events that the default fills make happen, on problems of every feature and size.
#include "core/inputs/event_survey.hpp"

#include <fmt/ranges.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/inputs/event_ledger.hpp"
#include "core/inputs/prepared.hpp"
#include "core/problem/spec.hpp"

namespace attest::core {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

// Every feature, and sizes up to those whose rows a golden samples.
constexpr const char* kProblems[] = {
    "softmax dtype=f32 num_heads=2 seq_len_q=61 head_dim=64",
    "softmax dtype=f16 num_heads=2 seq_len_q=197 head_dim=64",
    "softmax dtype=bf16 num_heads=2 seq_len_q=1021 head_dim=64",
    "softmax dtype=f32 num_heads=2 seq_len_q=1024 head_dim=32",
    "softmax dtype=f16 num_heads=2 seq_len_q=4099 head_dim=64",
    "softmax dtype=bf16 num_heads=2 seq_len_q=16411 head_dim=64",
    "softmax dtype=f16 num_heads=2 seq_len_q=1021 head_dim=64 window_right=0",
    "softmax dtype=f32 num_heads=2 seq_len_q=4099 head_dim=64 window_left=256 window_right=256",
    "softmax dtype=f16 num_heads=4 num_kv_heads=2 seq_len_q=1021 head_dim=64",
    "softmax dtype=f32 num_heads=2 seq_len_q=1021 head_dim=64 softcap=50",
    "softmax dtype=f16 num_heads=2 seq_len_q=1021 head_dim=64 mask=[1,1,1021,1021]",
    "softmax dtype=f16 batch=2 num_heads=2 seq_len_q=1021 head_dim=64 mask=[2,1,1,1021]",
    "softmax dtype=f32 num_heads=2 seq_len_q=1021 head_dim=64 bias=[1,2,1021,1021]",
    "softmax dtype=f32 num_heads=2 seq_len_q=1021 head_dim=64 bias=[1,1,1,1021]",
    "softmax dtype=f16 batch=4 num_heads=2 seq_len_q=1021 head_dim=64 cu_seqlens_q cu_seqlens_kv",
    "softmax dtype=f16 batch=3 num_heads=4 num_kv_heads=2 seq_len_q=67 seq_len_kv=1021 head_dim=64 "
    "page_size=16 page_table seq_lens_kv",
    "softmax dtype=f16 num_heads=2 seq_len_q=4099 head_dim=16 patch_size=1024 order",
    "softmax dtype=f16 num_heads=3 seq_len_q=3136 head_dim=32 grid_height=56 grid_width=56 "
    "window_height=7 window_width=7 shift_y=3 shift_x=3 "
    "shift_bias=-100 rel_bias",
    "softmax dtype=f32 num_heads=4 seq_len_q=1021 head_dim=64 alibi_slopes",
    "softmax dtype=f32 num_heads=2 seq_len_q=1021 head_dim=64 sinks",
};

EventSurvey survey(const std::string& line) {
  const Problem problem = parse_problem(line);
  return survey_events(problem, spec_seed(print_problem(problem)), default_fills(problem, false));
}

class DefaultFills : public testing::TestWithParam<const char*> {};

TEST_P(DefaultFills, MissNoEvent) {
  const EventSurvey found = survey(GetParam());
  EXPECT_THAT(found.missed(), IsEmpty()) << GetParam();
}

INSTANTIATE_TEST_SUITE_P(EveryFeature, DefaultFills, testing::ValuesIn(kProblems));

// Which problems need a fill: without it they miss events that they have with it.
TEST(EventSurvey, EveryDefaultFillIsNeeded) {
  std::map<std::string, std::vector<std::string>> needed_by;
  std::set<std::string> fills;
  for (const char* line : kProblems) {
    const EventSurvey found = survey(line);
    const size_t missed = found.missed().size();
    for (const EventSurvey::OfFill& of : found.fills) {
      fills.insert(of.fill);
      const std::vector<std::string> without = found.missed(of.fill);
      if (without.size() > missed)
        needed_by[of.fill].push_back(fmt::format("{}: {} more", line, without.size() - missed));
    }
  }
  for (const std::string& fill : fills)
    EXPECT_FALSE(needed_by[fill].empty())
        << fill << " makes no event happen that no other fill does";
}

TEST(EventSurvey, NamesWhatIsMissed) {
  EventSurvey survey{.events = {{"a/b", ""}, {"c", ""}, {"d", "impossible"}, {"e", ""}},
                     .fills = {{"one", {"a/b"}}, {"two", {"a/b", "c"}}}};
  EXPECT_THAT(survey.missed(), ElementsAre("e"));
  EXPECT_THAT(survey.missed("two"), ElementsAre("c", "e"));
  EXPECT_THAT(survey.missed("one"), ElementsAre("e"));
}

TEST(EventSurvey, GroupsEvents) {
  EXPECT_EQ(event_group("rise/64/last/much"), "rise/64");
  EXPECT_EQ(event_group("nan/k"), "nan");
  EXPECT_EQ(event_group("cancels"), "cancels");
}

TEST(EventLedger, SetsReasonsAgainstWhatIsMissed) {
  const EventSurvey survey{.events = {{"a/b", ""}, {"a/c", ""}, {"d", ""}},
                           .fills = {{"one", {"d"}}}};
  Case one;
  one.name = "x", one.suite = "s";
  one.misses = {
      {"a/b", "own"}, {"d", "no more"}, {"a/*", "shared", true}, {"e*", "of another case", true}};
  EventLedger ledger;
  EventLedger::Missed missed = ledger.add(one, survey);
  EXPECT_THAT(missed.unsaid, IsEmpty());
  EXPECT_THAT(missed.excused,
              ElementsAre(testing::Pair("a/b", "own"), testing::Pair("a/c", "shared")));
  EXPECT_THAT(ledger.stale(false), ElementsAre("s/x: d"));
  EXPECT_THAT(ledger.stale(true), ElementsAre("s/x: d", "s: e*"));
  one.misses = {{"a/b", "own"}};
  EXPECT_THAT(EventLedger().add(one, survey).unsaid, ElementsAre("a/c"));
}

}  // namespace
}  // namespace attest::core
