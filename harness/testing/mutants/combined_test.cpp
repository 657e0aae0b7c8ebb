// Terms that no closed form has together: masks and biases of pairs beside ALiBi or on a grid, a
// bias with one number for each row, ALiBi with sinks, wide windows and many levels of REL_BIAS;
// and terms beside a softcap that bounds scores, where the term has the leads of "rising".
// Their problems get the inputs of all fills, so bugs of single steps show in them as in others.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <ostream>
#include <string>
#include <vector>

#include "core/problem/spec.hpp"
#include "testing/mutants/trial.hpp"

namespace attest::testing {
namespace {

// A small problem, and one of some 4,099 keys. A grid of some 4,099 tokens has one window. The
// small problem has two heads.
struct Kind {
  const char *name, *small, *large;
  int heads_of_large = 1;
};
void PrintTo(const Kind& kind, std::ostream* out) { *out << kind.name; }

const Kind kKinds[] = {
    {"mask_beside_alibi", "seq_len_q=197 mask=[1,1,197,197] alibi_slopes",
     "seq_len_q=131 seq_len_kv=4099 mask=[1,1,131,4099] alibi_slopes"},
    {"bias_beside_alibi", "seq_len_q=197 bias=[1,1,197,197] alibi_slopes",
     "seq_len_q=131 seq_len_kv=4099 bias=[1,1,131,4099] alibi_slopes"},
    {"mask_on_a_grid",
     "seq_len_q=210 grid_height=15 grid_width=14 window_height=15 window_width=14 "
     "mask=[1,1,210,210]",
     "seq_len_q=2050 grid_height=50 grid_width=41 window_height=50 window_width=41 "
     "mask=[1,1,2050,2050]"},
    {"bias_of_rows", "seq_len_q=197 bias=[1,1,197,1]",
     "seq_len_q=131 seq_len_kv=4099 bias=[1,1,131,1]"},
    {"alibi_with_sinks", "seq_len_q=197 alibi_slopes sinks",
     "seq_len_q=131 seq_len_kv=4099 alibi_slopes sinks"},
    {"wide_windows",
     "seq_len_q=285 grid_height=19 grid_width=15 window_height=19 window_width=15 rel_bias",
     "seq_len_q=2050 grid_height=50 grid_width=41 window_height=50 window_width=41 rel_bias"},
    {"many_levels",
     "seq_len_q=210 grid_height=15 grid_width=14 window_height=15 window_width=14 shift_y=5 "
     "shift_x=4 shift_bias=-2 rel_bias bias=[1,1,1,210]",
     "seq_len_q=2050 grid_height=50 grid_width=41 window_height=50 window_width=41 shift_y=5 "
     "shift_x=4 shift_bias=-2 rel_bias bias=[1,1,1,2050]"},
    {"softcap_with_bias", "seq_len_q=197 softcap=3 bias=[1,2,197,197]",
     "seq_len_q=131 seq_len_kv=4099 softcap=3 bias=[1,1,131,4099]"},
    {"softcap_with_shared_bias", "seq_len_q=197 softcap=3 bias=[1,1,197,197]",
     "seq_len_q=131 seq_len_kv=4099 softcap=20 bias=[1,1,131,4099]"},
    {"softcap_with_rel_bias",
     "seq_len_q=210 softcap=3 grid_height=15 grid_width=14 window_height=15 window_width=14 "
     "rel_bias",
     "seq_len_q=2050 softcap=3 grid_height=50 grid_width=41 window_height=50 window_width=41 "
     "rel_bias"},
    // A round has one slope for each head, so the rounds of one head do not have all slopes.
    {"softcap_with_alibi", "seq_len_q=197 softcap=3 alibi_slopes",
     "seq_len_q=2050 softcap=3 alibi_slopes", 2},
};

constexpr const char* kMutants[] = {"step_max_without_tail_t64", "step_sum_kept_flushed_t32",
                                    "step_max_of_16_t64_l64", "step_weights_from_e16_t64",
                                    "step_sum_kept_last_tile_t16"};

class Combined : public ::testing::TestWithParam<Kind> {
 public:
  // `terms`: the problem without dtype and heads.
  static void try_mutants(const char* terms, int heads) {
    try_spec(fmt::format("softmax dtype=f16 num_heads={} head_dim=32 {}", heads, terms),
             {std::begin(kMutants), std::end(kMutants)});
  }
  static void try_spec(const std::string& spec, const std::vector<std::string>& mutants) {
    core::Plugin plugin(ATTEST_BINARY_DIR "/tests/plugins/steps.so",
                        {.executable = core::find_worker(),
                         .cpus = "",
                         .limits = {.threads = 2, .timeout_s = 120}});
    const Family family{.name = "combined", .most_tokens = 0, .spec = nullptr};
    const MutantCase wanted{&family, 0, "f16", spec};
    Trials trials(plugin, wanted, Checks::kFirst);
    int tried = 0;
    for (const core::Implementation& one : plugin.implementations()) {
      if (std::ranges::find(mutants, one.name) == mutants.end()) continue;
      const Trial trial = trials.run(one);
      EXPECT_EQ(trial.outcome, Trial::Outcome::kCaught)
          << one.name << ": " << trial.worst << " of its gates, " << wanted.spec;
      ++tried;
    }
    EXPECT_EQ(tried, int(mutants.size()));
  }
};

TEST_P(Combined, ShowBugsOfSingleSteps) { try_mutants(GetParam().small, 2); }
TEST_P(Combined, ShowBugsOfSingleStepsInLongRows) {
  try_mutants(GetParam().large, GetParam().heads_of_large);
}

// A few rows, in which further rounds of "rising" ask for what the first one has no room for.
class FewRows : public Combined {};
TEST_P(FewRows, ShowBugsOfSingleSteps) {
  try_spec(GetParam().small, {std::begin(kMutants), std::end(kMutants)});
}

// One query of each head, of which each has a NaN or an infinity of its own in "wild" and its
// rounds.
TEST(FewQueries, ShowNanAndInfinitiesLostInEndTiles) {
  for (const char* spec : {"softmax dtype=f32 num_heads=8 head_dim=64 seq_len_q=1 seq_len_kv=1000",
                           "softmax dtype=f16 num_heads=2 head_dim=16 seq_len_q=1 seq_len_kv=130"})
    Combined::try_spec(
        spec, {"step_nan_score_dropped_first_tile_t16", "step_nan_score_dropped_last_tile_t64",
               "step_inf_score_hidden_first_tile_t64", "step_inf_score_hidden_last_tile_t16",
               "step_minus_inf_score_nan_first_tile_t16", "step_minus_inf_score_nan_last_tile_t64",
               "step_nan_value_zero_first_tile_t16", "step_nan_value_zero_last_tile_t64",
               "step_inf_value_cut_first_tile_t64", "step_inf_value_cut_last_tile_t16"});
}

// All heads share one key head, and every row sees nearly all keys: a NaN of K is in a sequence of
// its own, since it spoils all rows of it.
TEST(OneKeyHead, ShowsNanAndInfinitiesToRowsWithoutANan) {
  Combined::try_spec(
      "softmax dtype=f16 batch=2 num_heads=8 num_kv_heads=1 seq_len_q=51 seq_len_kv=867 "
      "head_dim=64 window_right=0 diagonal=1",
      {"step_nan_score_dropped_first_tile_t16", "step_nan_score_dropped_last_tile_t64",
       "step_inf_score_hidden_first_tile_t64", "step_inf_score_hidden_last_tile_t16",
       "step_minus_inf_score_nan_first_tile_t16", "step_nan_value_zero_last_tile_t64",
       "step_inf_value_cut_first_tile_t64"});
}

// The left end of the band hides most keys from all rows: what is NaN is among the others, also
// between the first and the last tile of a row.
TEST(LongCache, ShowsNanInsideABand) {
  Combined::try_spec(
      "softmax dtype=f16 seq_len_q=67 seq_len_kv=1021 head_dim=64 window_left=80 window_right=0 "
      "diagonal=1",
      {"step_nan_score_dropped_inner_tile_t16", "step_nan_value_zero_inner_tile_t16"});
}

const Kind kFewRows[] = {
    {"one_query",
     "softmax dtype=f16 num_heads=32 num_kv_heads=4 head_dim=32 seq_len_q=1 seq_len_kv=515 "
     "window_right=0 diagonal=1",
     ""},
    {"eight_rows", "softmax dtype=f32 num_heads=8 head_dim=64 seq_len_q=1 seq_len_kv=1000", ""},
    {"causal_rounds",
     "softmax dtype=f32 num_heads=2 head_dim=64 seq_len_q=197 softcap=3 bias=[1,2,197,197] "
     "window_right=0",
     ""},
    {"four_queries",
     "softmax dtype=f16 num_heads=8 head_dim=64 seq_len_q=4 seq_len_kv=515 window_right=0 "
     "diagonal=1",
     ""},
};
INSTANTIATE_TEST_SUITE_P(Decode, FewRows, ::testing::ValuesIn(kFewRows),
                         [](const auto& kind) { return std::string(kind.param.name); });

INSTANTIATE_TEST_SUITE_P(Terms, Combined, ::testing::ValuesIn(kKinds),
                         [](const auto& kind) { return std::string(kind.param.name); });

}  // namespace
}  // namespace attest::testing
