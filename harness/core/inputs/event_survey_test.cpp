// The events that the default fills make happen, on problems of every feature and size.
#include "core/inputs/event_survey.hpp"

#include <fmt/ranges.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/inputs/event_ledger.hpp"
#include "core/inputs/prepared.hpp"
#include "core/problem/glob.hpp"
#include "core/problem/spec.hpp"

namespace attest::core {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

// Every feature, and sizes up to those whose rows a golden samples.
struct Trial {
  const char* line;
  std::vector<std::string> missed;  // globs of events that its inputs still leave out
};
void PrintTo(const Trial& trial, std::ostream* out) { *out << trial.line; }

// What is listed as missed is left to do: inputs that have it make the test fail until it is taken
// from the list.
const Trial kTrials[] = {
    {"softmax dtype=f32 num_heads=2 seq_len_q=61 head_dim=64",
     {}},
    {"softmax dtype=f16 num_heads=2 seq_len_q=197 head_dim=64",
     {"gap/*/18", "rise/*/always"}},
    {"softmax dtype=bf16 num_heads=2 seq_len_q=1021 head_dim=64",
     {"rise/*/always"}},
    {"softmax dtype=f32 num_heads=2 seq_len_q=1024 head_dim=32",
     {"rise/*/always"}},
    {"softmax dtype=f16 num_heads=2 seq_len_q=4099 head_dim=64",
     {"inf/*", "nan/*"}},
    {"softmax dtype=bf16 num_heads=2 seq_len_q=16411 head_dim=64",
     {"inf/*", "nan/*"}},
    {"softmax dtype=f16 num_heads=2 seq_len_q=1021 head_dim=64 window_right=0",
     {"gap/*/20", "gap/cut/40", "lane/64/*", "rise/*/last/over_64", "rise/*/last/over_88"}},
    {"softmax dtype=f32 num_heads=2 seq_len_q=4099 head_dim=64 window_left=256 window_right=256",
     {"inf/*", "nan/*", "rise/*/always", "rise/*/last/over_64"}},
    {"softmax dtype=f16 num_heads=4 num_kv_heads=2 seq_len_q=1021 head_dim=64",
     {"gap/*/20", "inf/*", "nan/*", "rise/*/always"}},
    {"softmax dtype=f32 num_heads=2 seq_len_q=1021 head_dim=64 softcap=50",
     {"rise/*", "lane/*", "inf/*"}},
    {"softmax dtype=f16 num_heads=2 seq_len_q=1021 head_dim=64 mask=[1,1,1021,1021]",
     {"cancels", "gap/*/20", "gap/cut/40", "rise/*/always"}},
    {"softmax dtype=f16 batch=2 num_heads=2 seq_len_q=1021 head_dim=64 mask=[2,1,1,1021]",
     {"cancels", "gap/*/20", "gap/cut/40", "hidden/mask/*", "inf/*", "lane/64/*", "nan/*",
      "rise/*/always"}},
    {"softmax dtype=f32 num_heads=2 seq_len_q=1021 head_dim=64 bias=[1,2,1021,1021]",
     {"cancels", "gap/*/20", "inf/*", "nan/*", "rise/*/always", "rise/*/tail/over_64"}},
    {"softmax dtype=f32 num_heads=2 seq_len_q=1021 head_dim=64 bias=[1,1,1,1021]",
     {"rise/*", "lane/*", "gap/*", "hidden/bias/*", "weights/key", "cancels"}},
    {"softmax dtype=f16 batch=4 num_heads=2 seq_len_q=1021 head_dim=64 cu_seqlens_q cu_seqlens_kv",
     {"gap/*/20", "inf/*", "nan/*", "rise/*/always"}},
    {"softmax dtype=f16 batch=3 num_heads=4 num_kv_heads=2 seq_len_q=67 seq_len_kv=1021 head_dim=64 "
     "page_size=16 page_table seq_lens_kv",
     {"gap/*/20", "rise/*/always"}},
    {"softmax dtype=f16 num_heads=2 seq_len_q=4099 head_dim=16 patch_size=1024 order",
     {"gap/*/20", "lane/64/*", "rise/*/always"}},
    {"softmax dtype=f16 num_heads=3 seq_len_q=3136 head_dim=32 grid_height=56 grid_width=56 "
     "window_height=7 window_width=7 shift_y=3 shift_x=3 "
     "shift_bias=-100 rel_bias",
     {"cancels", "gap/*/18", "inf/*", "logit/*"}},
    {"softmax dtype=f32 num_heads=4 seq_len_q=1021 head_dim=64 alibi_slopes",
     {"rise/*", "lane/*", "gap/*", "nan/*", "inf/*", "logit/*", "cancels", "heavy"}},
    {"softmax dtype=f32 num_heads=2 seq_len_q=1021 head_dim=64 sinks",
     {"logit/*", "rise/*/always"}},
};

EventSurvey survey(const std::string& line) {
  const Problem problem = parse_problem(line);
  return survey_events(problem, spec_seed(print_problem(problem)), default_fills(problem, false));
}

class DefaultFills : public testing::TestWithParam<Trial> {};

TEST_P(DefaultFills, MissNoEventButThoseListed) {
  const auto& [line, listed] = GetParam();
  const std::vector<std::string> missed = survey(line).missed();
  for (const std::string& name : missed)
    EXPECT_TRUE(!listed.empty() && matches(name, listed)) << name << " is missed by " << line;
  for (const std::string& glob : listed) {
    const auto is_it = [&](const std::string& name) { return matches(name, {glob}); };
    EXPECT_TRUE(std::ranges::any_of(missed, is_it)) << glob << " is no longer missed by " << line;
  }
}

INSTANTIATE_TEST_SUITE_P(EveryFeature, DefaultFills, testing::ValuesIn(kTrials));

// Which problems need a fill: without it they miss events that they have with it.
TEST(EventSurvey, EveryDefaultFillIsNeeded) {
  std::map<std::string, std::vector<std::string>> needed_by;
  std::set<std::string> fills;
  for (const auto& [line, listed] : kTrials) {
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
