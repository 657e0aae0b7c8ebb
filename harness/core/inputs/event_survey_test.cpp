// The events that the default fills make happen, on problems of every feature and size.
#include "core/inputs/event_survey.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <iterator>
#include <set>
#include <vector>

#include "core/inputs/event_ledger.hpp"
#include "core/inputs/prepared.hpp"
#include "core/problem/spec.hpp"

namespace attest::core {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::IsSupersetOf;

// Every feature, and sizes up to those whose rows a golden samples.
struct Trial {
  const char* line;
  std::vector<std::string> missed;  // events that its inputs still leave out
};
void PrintTo(const Trial& trial, std::ostream* out) { *out << trial.line; }

// An event that is listed and found makes the test fail until it is taken from the list. Values
// cancel over blocks of eight keys; ALiBi, REL_BIAS and shift_bias add different numbers to them.
// ALiBi leaves most of 4,099 keys next to no weight in 515 rows.
const Trial kTrials[] = {
    {"softmax dtype=f32 num_heads=2 seq_len_q=61 head_dim=64", {}},
    {"softmax dtype=f16 num_heads=2 seq_len_q=197 head_dim=64", {}},
    {"softmax dtype=bf16 num_heads=2 seq_len_q=1021 head_dim=64", {}},
    {"softmax dtype=f32 num_heads=2 seq_len_q=1024 head_dim=32", {}},
    {"softmax dtype=f16 num_heads=2 seq_len_q=4099 head_dim=64", {}},
    {"softmax dtype=bf16 num_heads=2 seq_len_q=16411 head_dim=64", {}},
    {"softmax dtype=f16 num_heads=2 seq_len_q=500 seq_len_kv=65536 head_dim=16", {}},
    {"softmax dtype=f32 num_heads=1 seq_len_q=500 seq_len_kv=262147 head_dim=16", {}},
    {"softmax dtype=f16 num_heads=2 seq_len_q=1021 head_dim=64 window_right=0", {}},
    {"softmax dtype=f32 num_heads=2 seq_len_q=4099 head_dim=64 window_left=256 window_right=256",
     {}},
    {"softmax dtype=f16 num_heads=4 num_kv_heads=2 seq_len_q=1021 head_dim=64", {}},
    {"softmax dtype=f32 num_heads=2 seq_len_q=1021 head_dim=64 softcap=50", {}},
    {"softmax dtype=f16 num_heads=2 seq_len_q=1021 head_dim=64 mask=[1,1,1021,1021]", {}},
    {"softmax dtype=f16 batch=2 num_heads=2 seq_len_q=1021 head_dim=64 mask=[2,1,1,1021]", {}},
    {"softmax dtype=f32 num_heads=2 seq_len_q=1021 head_dim=64 bias=[1,2,1021,1021]", {}},
    {"softmax dtype=f32 num_heads=2 seq_len_q=1021 head_dim=64 bias=[1,1,1,1021]", {}},
    {"softmax dtype=f16 batch=4 num_heads=2 seq_len_q=1021 head_dim=64 cu_seqlens_q cu_seqlens_kv",
     {}},
    {"softmax dtype=f16 batch=3 num_heads=4 num_kv_heads=2 seq_len_q=67 seq_len_kv=1021 "
     "head_dim=64 "
     "page_size=16 page_table seq_lens_kv",
     {}},
    {"softmax dtype=f16 num_heads=2 seq_len_q=4099 head_dim=16 patch_size=1024 order", {}},
    {"softmax dtype=f16 num_heads=3 seq_len_q=3136 head_dim=32 grid_height=56 grid_width=56 "
     "window_height=7 window_width=7 shift_y=3 shift_x=3 "
     "shift_bias=-100 rel_bias",
     {"cancels"}},
    {"softmax dtype=f32 num_heads=4 seq_len_q=1021 head_dim=64 alibi_slopes", {"cancels"}},
    {"softmax dtype=f32 num_heads=2 seq_len_q=1021 head_dim=64 sinks", {}},
    // Terms that no closed form has together
    {"softmax dtype=f16 num_heads=2 seq_len_q=197 head_dim=32 mask=[1,1,197,197] alibi_slopes",
     {"cancels"}},
    {"softmax dtype=f16 num_heads=2 seq_len_q=515 seq_len_kv=4099 head_dim=32 mask=[1,1,515,4099] "
     "alibi_slopes",
     {"cancels", "weights/key"}},
    {"softmax dtype=bf16 num_heads=2 seq_len_q=1021 head_dim=32 bias=[1,2,1021,1021] alibi_slopes",
     {"cancels"}},
    {"softmax dtype=f32 num_heads=2 seq_len_q=197 head_dim=32 bias=[1,2,197,1]", {}},
    {"softmax dtype=f16 num_heads=2 seq_len_q=4099 head_dim=32 bias=[1,1,4099,1]", {}},
    {"softmax dtype=f32 num_heads=2 seq_len_q=197 head_dim=32 alibi_slopes sinks", {"cancels"}},
    {"softmax dtype=bf16 num_heads=2 seq_len_q=4099 head_dim=32 alibi_slopes sinks", {"cancels"}},
    {"softmax dtype=f16 num_heads=2 seq_len_q=210 head_dim=32 grid_height=15 grid_width=14 "
     "window_height=15 window_width=14 mask=[1,1,210,210]",
     {}},
    {"softmax dtype=f16 seq_len_q=4104 head_dim=32 grid_height=57 grid_width=72 window_height=19 "
     "window_width=24 mask=[1,1,4104,4104]",
     {}},
    {"softmax dtype=f32 num_heads=2 seq_len_q=285 head_dim=32 grid_height=19 grid_width=15 "
     "window_height=19 window_width=15 rel_bias",
     {"cancels"}},
    {"softmax dtype=f16 seq_len_q=4104 head_dim=32 grid_height=57 grid_width=72 window_height=19 "
     "window_width=24 shift_y=5 shift_x=6 shift_bias=-100 rel_bias bias=[1,1,1,4104]",
     {"cancels"}},
    // A term beside a softcap, which has the leads in further rounds of "rising". No key but a few
    // may weigh much where scores lie within -3 .. 3. The two neighbours of a row's own key, 20
    // below it, do not show in f16. Biases of -inf hide from some rows the marks that they would
    // ask for.
    {"softmax dtype=f32 num_heads=2 seq_len_q=197 head_dim=64 softcap=3 bias=[1,1,197,197]",
     {"weights/key"}},
    {"softmax dtype=bf16 num_heads=4 seq_len_q=515 seq_len_kv=1021 head_dim=32 softcap=3 "
     "bias=[1,4,515,1021]",
     {"weights/key"}},
    {"softmax dtype=f16 num_heads=2 seq_len_q=197 head_dim=32 softcap=1 alibi_slopes",
     {"cancels", "gap/after_top/20", "gap/before_top/20", "spread/16/rise/2000",
      "spread/256/negative", "spread/gap/23000"}},
    {"softmax dtype=f32 num_heads=2 seq_len_q=197 head_dim=64 softcap=3 bias=[1,2,197,197] "
     "window_right=0",
     {"block/bias/32/all_but_one", "block/bias/64/all", "block/bias/64/all_but_one",
      "block/bias/128/all", "block/bias/128/first_row", "block/bias/128/last_row",
      "block/bias/128/all_but_one", "weights/key"}},
    {"softmax dtype=f32 num_heads=2 seq_len_q=100 head_dim=16 softcap=3 bias=[1,1,100,100] "
     "window_right=0",
     {"rise/32/last/much", "rise/32/last/over_64", "rise/32/last/over_88", "lane/64/32",
      "lane/64/33", "lane/64/34", "lane/64/35", "weights/key"}},
    {"softmax dtype=f32 num_heads=2 seq_len_q=197 head_dim=64 softcap=3 bias=[1,1,197,197] "
     "window_left=40 window_right=0",
     {"rise/32/last/over_64", "lane/32/20", "lane/64/20", "lane/64/37", "lane/64/38",
      "lane/64/39"}},
    {"softmax dtype=f16 num_heads=2 seq_len_q=210 head_dim=32 softcap=3 grid_height=15 "
     "grid_width=14 window_height=15 window_width=14 rel_bias",
     {"cancels", "rise/16/always"}},
    {"linear dtype=f32 num_heads=2 seq_len_q=61 head_dim=16", {}},
    {"linear dtype=f16 batch=2 num_heads=4 num_kv_heads=2 seq_len_q=197 head_dim=24 head_dim_v=40",
     {}},
    {"linear dtype=bf16 batch=2 num_heads=2 seq_len_q=1021 head_dim=16 mask query_mask", {}},
    {"linear dtype=f16 num_heads=4 seq_len_q=4099 head_dim=32", {}},
    {"linear dtype=bf16 num_heads=2 seq_len_q=515 seq_len_kv=65551 head_dim=24", {}},
    {"deformable num_heads=2 seq_len_q=61 head_dim_v=16 num_points=4 level_height_0=9 "
     "level_width_0=14 level_height_1=5 level_width_1=7 level_height_2=3 level_width_2=4",
     {}},
    {"deformable dtype=f16 batch=2 seq_len_q=197 head_dim_v=24 num_points=3 level_height_0=20 "
     "level_width_0=30 align_corners=1",
     {}},
    {"deformable dtype=bf16 num_heads=8 seq_len_q=1021 head_dim_v=32 num_points=8 "
     "level_height_0=50 level_width_0=84 level_height_1=25 level_width_1=42",
     {}},
    {"softmax_backward num_heads=2 seq_len_q=61 head_dim=16", {}},
    {"softmax_backward dtype=f16 num_heads=2 seq_len_q=197 head_dim=64 window_right=0", {}},
    {"softmax_backward dtype=bf16 num_heads=4 num_kv_heads=2 seq_len_q=61 seq_len_kv=197 "
     "head_dim=24 mask=[1,1,61,197] dq=f32",
     {}},
    {"softmax_backward dtype=f16 num_heads=2 seq_len_q=61 head_dim=16 bias=[1,2,61,61] dbias", {}},
    {"softmax_backward num_heads=2 seq_len_q=61 seq_len_kv=130 head_dim=16 top_k=9 "
     "mask=[1,2,61,130]",
     {}},
    {"softmax_backward batch=5 num_heads=2 seq_len_q=197 head_dim=16 cu_seqlens_q cu_seqlens_kv "
     "window_right=0",
     {"tail/keys/128"}},
    {"softmax_backward dtype=f16 num_heads=2 seq_len_q=61 head_dim=16 softcap=2.5", {}},
    {"softmax_backward num_heads=2 seq_len_q=61 head_dim=16 sinks dsinks", {}},
    {"softmax_backward num_heads=2 seq_len_q=61 head_dim=16 q=f8e5m2 k=f8e5m2 v=f8e5m2 q_descale "
     "k_descale v_descale",
     {}},
};

constexpr double kMostFlops = 1.5e9;  // of problems that are surveyed twice

EventSurvey survey(const Problem& problem) {
  const uint64_t seed = spec_seed(print_problem(problem));
  return survey_events(problem, seed, default_fills(problem, false));
}

class DefaultFills : public ::testing::TestWithParam<Trial> {};

TEST_P(DefaultFills, MissNoEventButThoseListed) {
  const auto& [line, listed] = GetParam();
  EXPECT_THAT(survey(parse_problem(line)).missed(), ::testing::UnorderedElementsAreArray(listed));
}

// With more than some 1,000 keys, or no more. The long rows take minutes under a sanitizer.
std::vector<Trial> trials(bool long_rows) {
  std::vector<Trial> found;
  std::ranges::copy_if(kTrials, std::back_inserter(found), [&](const Trial& trial) {
    return (parse_problem(trial.line).tensor[ATTEST_K].dim[2] > 1100) == long_rows;
  });
  return found;
}

INSTANTIATE_TEST_SUITE_P(EveryFeature, DefaultFills, ::testing::ValuesIn(trials(false)));
INSTANTIATE_TEST_SUITE_P(LongRows, DefaultFills, ::testing::ValuesIn(trials(true)));

// Of a few rows, further rounds of "rising" ask for what the first one has no room for.
TEST(EventSurvey, FewRowsMissNoRiseLaneOrGap) {
  for (const char* line : {
           "softmax dtype=f16 num_heads=32 num_kv_heads=8 seq_len_q=1 seq_len_kv=1000 "
           "head_dim=128 window_right=0 diagonal=1",
           "softmax dtype=bf16 num_heads=16 seq_len_q=1 seq_len_kv=4099 head_dim=64",
           "softmax dtype=f32 num_heads=8 seq_len_q=4 seq_len_kv=515 head_dim=64",
           "softmax dtype=f32 num_heads=8 seq_len_q=1 seq_len_kv=1000 head_dim=64",
           "softmax dtype=bf16 num_heads=2 seq_len_q=61 head_dim=16 window_right=0",
           "softmax dtype=f32 num_heads=2 seq_len_q=61 seq_len_kv=100 head_dim=16 window_right=0",
       }) {
    const EventSurvey found = survey(parse_problem(line));
    for (const std::string& name : found.missed())
      EXPECT_FALSE(name.starts_with("rise/") || name.starts_with("lane/") ||
                   name.starts_with("gap/"))
          << name << ", " << line;
    EXPECT_GT(found.missed("rising_2").size(), found.missed().size()) << line;
  }
}

// Three rows a round are not enough for every lane.
TEST(EventSurvey, RoundsHaveALimit) {
  const EventSurvey found =
      survey(parse_problem("softmax num_heads=3 seq_len_q=1 seq_len_kv=1000 head_dim=64"));
  EXPECT_EQ(found.fills.back().fill, "rising_24");
  for (const std::string& name : found.missed())
    EXPECT_FALSE(name.starts_with("rise/") || name.starts_with("gap/")) << name;
}

// Each makes events happen, in some problem, that no other does. One or two rows need all rounds.
TEST(EventSurvey, EveryDefaultFillIsNeeded) {
  std::set<std::string> needed, fills;
  std::vector<std::string> lines{"softmax num_heads=2 seq_len_q=1 seq_len_kv=1000 head_dim=64",
                                 "softmax num_heads=1 seq_len_q=1 seq_len_kv=515 head_dim=32",
                                 "softmax num_heads=1 seq_len_q=1 seq_len_kv=1000 head_dim=32",
                                 "softmax num_heads=2 seq_len_q=1 seq_len_kv=700 head_dim=32"};
  for (const auto& [line, listed] : kTrials) lines.emplace_back(line);
  for (const std::string& line : lines) {
    const Problem problem = parse_problem(line);
    if (problem.operation->flops(problem) > kMostFlops) continue;
    const EventSurvey found = survey(problem);
    const size_t missed = found.missed().size();
    for (const EventSurvey::OfFill& of : found.fills) {
      fills.insert(of.fill);
      if (found.missed(of.fill).size() > missed) needed.insert(of.fill);
    }
  }
  EXPECT_THAT(
      fills, IsSupersetOf({"alone",    "borders",   "cancelling",   "codebook",   "codebook_peaked",
                           "f8_bands", "faint",     "hidden",       "huge",       "large",
                           "late",     "random",    "rising",       "rising_2",   "rising_24",
                           "sized",    "subnormal", "top_k_levels", "top_k_wild", "wide",
                           "wild",     "wild_7"}));
  EXPECT_EQ(fills.size(), 18 + 24u + 7u) << "not all rounds of rising and wild";
  EXPECT_EQ(needed, fills);
}

// Each fill of linear attention alone causes some of its events, but for "random", which is like
// the inputs of programs. Where queries are masked, there is no "wild".
TEST(EventSurvey, LinearAttentionNeedsEachFill) {
  const std::string line = "linear dtype=f16 batch=2 num_heads=2 seq_len_q=197 head_dim=16";
  const EventSurvey plain = survey(parse_problem(line)),
                    masked = survey(parse_problem(line + " mask query_mask")),
                    longer = survey(parse_problem(line + " seq_len_kv=1021"));
  EXPECT_THAT(plain.missed("faint"), IsSupersetOf({"keys/few", "normaliser/eps", "phi/faint"}));
  EXPECT_THAT(longer.missed("large"), IsSupersetOf({"normaliser/65504"}));
  EXPECT_THAT(plain.missed("cancelling"), IsSupersetOf({"cancels"}));
  EXPECT_THAT(plain.missed("wild"),
              IsSupersetOf({"nan/k", "nan/q", "nan/v/first", "nan/v/last", "nan/v/middle"}));
  EXPECT_THAT(masked.missed("faint"), IsSupersetOf({"hidden/16", "hidden/64"}));
}

// Each fill of deformable attention alone causes some of its events, but for "random" and
// "cancelling"; "borders" has weights of both signs, so that some of its rows cancel as well.
TEST(EventSurvey, DeformableAttentionNeedsEachFill) {
  const EventSurvey found =
      survey(parse_problem("deformable num_heads=2 seq_len_q=197 head_dim_v=16 num_points=8 "
                           "level_height_0=40 level_width_0=50 level_height_1=20 level_width_1=25 "
                           "level_height_2=10 level_width_2=12"));
  EXPECT_THAT(found.missed(), IsEmpty());
  EXPECT_THAT(found.missed("borders"), IsSupersetOf({"value/256", "weight/small"}));
  EXPECT_THAT(found.missed("alone"), IsSupersetOf({"points/one_place"}));
  EXPECT_THAT(found.missed("far"), IsSupersetOf({"outside/far"}));
  EXPECT_THAT(found.missed("wild"),
              IsSupersetOf({"location/inf/x", "location/inf/y", "location/nan/x", "location/nan/y",
                            "nan/v", "nan/v/inner", "outside/nan_weight", "weight/nan"}));
}

// "random" and "top_k_close" have clear edges, ties and masks. Beside a softcap there is no
// "top_k_wild", which has the scores of "top_k_levels".
TEST(EventSurvey, TopKMissesNothing) {
  for (const char* line :
       {"softmax num_heads=2 seq_len_q=61 seq_len_kv=130 head_dim=16 top_k=9 mask=[1,2,61,130]",
        "softmax dtype=bf16 num_heads=2 seq_len_q=197 head_dim=32 top_k=16 top_k_ties=1 "
        "bias=[1,2,197,197]",
        "softmax dtype=f16 seq_len_q=130 head_dim=16 top_k=7 window_right=0"})
    EXPECT_THAT(survey(parse_problem(line)).missed(), IsEmpty()) << line;
  const EventSurvey capped = survey(parse_problem(
      "softmax num_heads=2 seq_len_q=61 seq_len_kv=130 head_dim=16 top_k=9 softcap=100"));
  EXPECT_THAT(capped.missed("top_k_levels"), IsSupersetOf({"top_k/below_zero", "top_k/far_above",
                                                           "top_k/far_below", "top_k/ties_64"}));
}

// Each fill of gradients alone causes some of their events, but for "random" and "repeated", whose
// rows are all judged where those of other fills are sampled.
TEST(EventSurvey, GradientsNeedEachFill) {
  const std::string line = "softmax_backward seq_len_q=61 head_dim=16";
  const EventSurvey plain = survey(parse_problem(line)),
                    biased = survey(parse_problem(line + " bias=[1,1,61,61]")),
                    chosen = survey(parse_problem(line + " seq_len_kv=130 top_k=9")),
                    f8 = survey(parse_problem(line + " q=f8e5m2 k=f8e5m2 v=f8e5m2"));
  EXPECT_THAT(plain.missed("cancelling"), IsSupersetOf({"delta/cancels"}));
  EXPECT_THAT(plain.missed("late"), IsSupersetOf({"key/one_query", "row/one_weight"}));
  EXPECT_THAT(plain.missed("sized"),
              IsSupersetOf({"ds/above_16", "lse/+88", "lse/-80", "lse/-10000"}));
  EXPECT_THAT(plain.missed("wild"), IsSupersetOf({"nan/do", "nan/q"}));
  EXPECT_THAT(plain.missed("codebook"), IsSupersetOf({"equal/several"}));
  EXPECT_THAT(plain.missed("codebook_peaked"), IsSupersetOf({"equal/one_weight"}));
  EXPECT_THAT(biased.missed("hidden"),
              IsSupersetOf({"hidden_nan/do", "hidden_nan/k", "hidden_nan/q", "hidden_nan/v",
                            "lse/-20000", "row/one_key"}));
  EXPECT_THAT(chosen.missed("top_k_levels"), IsSupersetOf({"top_k/spread"}));
  EXPECT_THAT(chosen.missed("top_k_wild"), IsSupersetOf({"nan/below_edge"}));
  EXPECT_THAT(f8.missed("f8_bands"), IsSupersetOf({"f8/bands"}));
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
  one.name = "x";
  one.suite = "s";
  one.misses = {{"a/b", "own"}, {"d", "no more"}, {"a/*", "shared", true}, {"e*", "gone", true}};
  EventLedger ledger;
  EventLedger::Missed missed = ledger.add(one, survey);
  EXPECT_THAT(missed.unsaid, IsEmpty());
  EXPECT_THAT(missed.excused,
              ElementsAre(::testing::Pair("a/b", "own"), ::testing::Pair("a/c", "shared")));
  EXPECT_THAT(ledger.stale(), ElementsAre("s/x: d", "s/x: e*"));
  one.misses = {{"a/b", "own"}};
  EXPECT_THAT(EventLedger().add(one, survey).unsaid, ElementsAre("a/c"));
}

}  // namespace
}  // namespace attest::core
