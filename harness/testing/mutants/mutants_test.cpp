// Planted bugs never pass, at any size, and the check that is expected to see each does; the
// healthy kernels that they are planted in always pass. This is the quick set; `scripts/mutants.sh`
// runs all. Relations of healthy kernels are asked for at 61 tokens of float32; in other dtypes
// they are the business of default_suite_test.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <optional>
#include <ostream>
#include <set>

#include "core/problem/spec.hpp"
#include "testing/mutants/expectations.hpp"
#include "testing/mutants/trial.hpp"
#include "testing/named.hpp"

namespace attest::testing {
namespace {

core::Plugin& plugin() {
  static core::Plugin made(
      ATTEST_BINARY_DIR "/tests/plugins/mutants.so",
      {.executable = core::find_worker(), .cpus = "", .limits = {.threads = 2, .timeout_s = 120}});
  return made;
}

core::Plugin& steps() {
  static core::Plugin made(
      ATTEST_BINARY_DIR "/tests/plugins/steps.so",
      {.executable = core::find_worker(), .cpus = "", .limits = {.threads = 2, .timeout_s = 120}});
  return made;
}

bool seen_by(const Trial& trial, const char* check) {
  return std::any_of(trial.catches.begin(), trial.catches.end(),
                     [&](const Catch& one) { return one.check == check; });
}

// Whether any mutant of mutants.so is wrong there; others are the business of steps.so alone.
bool concerns_any(const Family& family) {
  const auto& all = plugin().implementations();
  return std::any_of(all.begin(), all.end(),
                     [&](const core::Implementation& one) { return concerns(one.name, family); });
}

void try_case(const MutantCase& wanted, Checks checks) {
  SCOPED_TRACE(wanted.spec);
  Trials trials(plugin(), wanted, checks);
  std::optional<Trials> with_relations;  // for what no row expects, and no fill sees
  int caught = 0, equivalent = 0, unseen = 0;
  for (const core::Implementation& mutant : plugin().implementations()) {
    if (!concerns(mutant.name, *wanted.family)) continue;
    Trial trial = trials.run(mutant);
    const Expected* row = expected(mutant.name, wanted);
    if (checks == Checks::kFills && !row && trial.outcome == Trial::Outcome::kGotAway) {
      if (!with_relations) with_relations.emplace(plugin(), wanted, Checks::kAll);
      trial = with_relations->run(mutant);
    }
    ++(trial.outcome == Trial::Outcome::kCaught       ? caught
       : trial.outcome == Trial::Outcome::kEquivalent ? equivalent
                                                      : unseen);
    if (row && !row->check) continue;
    EXPECT_NE(trial.outcome, Trial::Outcome::kGotAway)
        << mutant.name << " gets away: " << trial.worst << " of its gates, " << trial.reason;
    if (!row) continue;
    EXPECT_EQ(trial.outcome, Trial::Outcome::kCaught)
        << mutant.name << " is as good as the healthy one";
    EXPECT_TRUE(checks == Checks::kFirst || seen_by(trial, row->check))
        << mutant.name << " is not seen by " << row->check;
  }
  std::printf("%s %s %lld: %d caught, %d equivalent, %d unseen\n", wanted.family->name,
              wanted.dtype.c_str(), static_cast<long long>(wanted.tokens), caught, equivalent,
              unseen);
}

struct Size {
  int64_t tokens;
  const char* dtype;
  std::vector<const char*> families;  // empty: all
  Checks checks = Checks::kFirst;
};

void PrintTo(const Size& size, std::ostream* out) {
  *out << size.tokens << " tokens of " << size.dtype;
}

class Mutants : public ::testing::TestWithParam<Size> {};

TEST_P(Mutants, NeverPass) {
  const Size& size = GetParam();
  for (const Family& family : families()) {
    const auto is_it = [&](const char* name) { return std::string(name) == family.name; };
    const bool wanted =
        size.families.empty() || std::any_of(size.families.begin(), size.families.end(), is_it);
    const bool slow =
        family.most_tokens == kSizes[0] && std::string(size.dtype) != "f16";  // a fixed, large size
    if (wanted && !slow && concerns_any(family) && size.tokens <= family.most_tokens)
      try_case(make_case(family, size.tokens, size.dtype), size.checks);
  }
}

INSTANTIATE_TEST_SUITE_P(
    Sizes, Mutants,
    ::testing::Values(Size{61, "f32", {}, Checks::kAll}, Size{61, "f16", {}, Checks::kFills},
                      Size{61, "bf16", {}, Checks::kFills}, Size{197, "f32", {}, Checks::kFills},
                      Size{197, "f16"}, Size{197, "bf16"},
                      Size{1021, "f16", {"causal", "window", "gqa"}}, Size{4099, "f32", {"causal"}},
                      Size{16411, "f16", {"plain"}}, Size{65551, "bf16", {"plain"}}),
    [](const auto& size) { return std::to_string(size.param.tokens) + "_" + size.param.dtype; });

// The other tests ask for verdicts alone. What says where outputs are wrong, and which known
// mistake gives them, meets every wrong output here.
TEST(WrongOutputs, AreLocated) {
  core::RunOptions options;
  options.limits.threads = 2;
  options.timed = false;
  options.relations = core::RelationChoice::kNone;
  int located = 0;
  for (const core::Implementation& mutant : plugin().implementations()) {
    const auto family = std::ranges::find_if(
        families(), [&](const Family& one) { return concerns(mutant.name, one); });
    if (family == families().end()) continue;  // healthy kernels
    const core::Record record =
        run_named(plugin(), mutant.name, make_case(*family, 61, "f16").spec, options);
    EXPECT_NE(record.outcome.verdict(), core::Verdict::kError)
        << mutant.name << ": " << record.outcome.reason;
    if (record.outcome.code != core::ReasonCode::kFailTolerance) continue;
    EXPECT_TRUE(record.fills.back().judgement.location) << mutant.name;
    ++located;
  }
  EXPECT_GT(located, 50);
}

bool needs_finite_biases(const std::string& mutant) {
  return mutant.starts_with("step_bias_hides") || mutant.starts_with("step_bias_to") ||
         mutant.starts_with("step_max_from_minus") || mutant.starts_with("step_bias_overflows") ||
         mutant.starts_with("step_bias_in_f16");
}

// The mutants of steps.so, each once a row of what is expected of it: on the smallest case that
// shows it.
TEST(Steps, AreSeenWhereTheyFirstShow) {
  constexpr int64_t kRelations = 61, kFills = 1021;  // tokens up to which they are all asked for
  std::map<std::string, const core::Implementation*> planted;
  for (const core::Implementation& one : steps().implementations()) planted[one.name] = &one;
  std::map<std::string, std::pair<MutantCase, std::vector<const Expected*>>> cases;  // by spec
  for (const Expected& row : expectations()) {
    if (!row.check || !planted.count(row.mutant)) continue;
    const MutantCase smallest = smallest_case(row);
    cases.try_emplace(smallest.spec, smallest, std::vector<const Expected*>())
        .first->second.second.push_back(&row);
  }
  EXPECT_GE(cases.size(), 10u);
  for (const auto& [spec, one] : cases) {
    SCOPED_TRACE(spec);
    const Checks checks = one.first.tokens <= kRelations ? Checks::kAll
                          : one.first.tokens <= kFills   ? Checks::kFills
                                                         : Checks::kFirst;
    Trials trials(steps(), one.first, checks);
    for (const Expected* row : one.second) {
      const Trial trial = trials.run(*planted.at(row->mutant));
      const bool caught = trial.outcome == Trial::Outcome::kCaught;
      EXPECT_TRUE(caught) << row->mutant << ": " << trial.worst << " of its gates";
      EXPECT_TRUE(!caught || checks == Checks::kFirst || seen_by(trial, row->check))
          << row->mutant << " is not seen by " << row->check;
      EXPECT_TRUE(row->check != std::string("wild") || trial.catches.size() == 1)
          << row->mutant << " is seen without NaN and infinities that rows see";
      if (needs_finite_biases(row->mutant)) {
        for (const Catch& by : trial.catches)
          EXPECT_TRUE(by.check == row->check ||
                      (row->check == std::string("random") && by.check == "wide") ||
                      by.check.starts_with("relation "))
              << row->mutant << " is seen without finite biases, by " << by.check;
      }
    }
  }
}

// No other mistake explains them.
TEST(Steps, ForgottenRescalesAreNamed) {
  const std::pair<const char*, const char*> named[] = {
      {"step_sum_kept_last_tile_t16",
       "it is as if the sum of p v were not rescaled where the maximum rises at keys 128 to 143 "
       "(tiles of 16)"},
      {"step_total_kept_last_tile_t64",
       "it is as if the normaliser were not rescaled where the maximum rises at keys 64 to 127 "
       "(tiles of 64)"},
      {"step_both_kept_middle_tile_t64",
       "it is as if the sums were not rescaled where the maximum rises at keys 64 to 127 (tiles of "
       "64)"}};
  core::RunOptions options;
  options.timed = false;
  options.relations = core::RelationChoice::kNone;
  options.fills = {"random"};
  for (const auto& [name, words] : named) {
    const core::Record record = run_named(
        steps(), name, "softmax dtype=f32 seq_len_q=61 seq_len_kv=150 head_dim=16", options);
    ASSERT_EQ(record.fills.size(), 1u) << name;
    EXPECT_EQ(record.fills[0].judgement.guess, words) << name;
  }
}

TEST(Steps, HaveATwinOfTheirTileSize) {
  EXPECT_EQ(twin_of("step_max_of_16_half_t64_l32"), "step_none_t64");
  EXPECT_EQ(twin_of("step_max_of_first_tile_t16"), "step_none_t16");
  EXPECT_EQ(twin_of("mutant_key_tail"), "");
  std::set<std::string> names;
  for (const core::Implementation& one : steps().implementations()) names.insert(one.name);
  EXPECT_TRUE(is_healthy(steps().implementations().front().name));
  for (const std::string& name : names) EXPECT_EQ(names.count(twin_of(name)), 1u) << name;
}

// A mutant that refuses a problem would have written what the healthy one writes.
TEST(Mutants, RefuseOnlyWhereNothingIsWrong) {
  setenv("ATTEST_MUTANTS_TAKE_ALL", "1", 1);
  core::Plugin taking_all(
      ATTEST_BINARY_DIR "/tests/plugins/mutants.so",
      {.executable = core::find_worker(), .cpus = "", .limits = {.threads = 2, .timeout_s = 120}});
  taking_all.implementations();
  unsetenv("ATTEST_MUTANTS_TAKE_ALL");
  int refused = 0;
  for (const Family& family : families()) {
    if (std::string(family.name).starts_with("many")) continue;  // slow, and like plain
    if (!concerns_any(family)) continue;
    const MutantCase wanted = make_case(family, 61, "f16");
    const core::Problem problem = core::parse_problem(wanted.spec);
    Trials trials(taking_all, wanted, Checks::kFirst);
    for (size_t i = 0; i < taking_all.implementations().size(); ++i) {
      const core::Implementation& mutant = taking_all.implementations()[i];
      if (!core::refuses(mutant, problem).empty() ||
          plugin().query(plugin().implementations()[i], problem).status == ATTEST_OK)
        continue;
      const Trial::Outcome outcome = trials.run(mutant).outcome;
      // Without a maximum other bits are rounded, and nothing is wrong where logits are small.
      const bool rounds_otherwise =
          mutant.name == "mutant_no_max" && outcome == Trial::Outcome::kGotAway;
      EXPECT_TRUE(rounds_otherwise || outcome == Trial::Outcome::kEquivalent)
          << mutant.name << " on " << wanted.spec;
      ++refused;
    }
  }
  EXPECT_GT(refused, 200);
}

// Fills that judge by default have to be worth a run. What codebook, codebook_peaked and cancelling
// see alone needs rows beyond a sample or subtler arithmetic: closed_form/fills_test.cpp,
// closed_form/codebook_test.cpp.
TEST(Mutants, EachDefaultFillAloneSeesOne) {
  const struct {
    const char *fill, *mutant, *family, *dtype, *more = "";
  } kAlone[] = {
      {"faint", "mutant_linear_eps_forgotten", "linear", "f16"},
      {"faint", "mutant_linear_phi_cut_12", "linear", "f32"},
      {"large", "mutant_linear_phi_of_both", "linear", "f32"},
      {"large", "mutant_linear_phi_capped", "linear", "f32"},
      {"large", "mutant_linear_value_cut", "linear", "bf16"},
      {"wild", "mutant_linear_nan_as_zero", "linear", "f32"},
      {"wild", "mutant_linear_nan_tail", "linear", "bf16"},
      {"wild", "mutant_deformable_nan_location", "deformable", "f32"},
      {"wild", "mutant_deformable_outside_clamped", "deformable", "f32"},
      {"wild", "mutant_deformable_nan_weight_zero", "deformable", "f32"},
      {"wild", "mutant_deformable_nan_inner_level", "deformable_levels", "f32"},
      {"wild", "mutant_deformable_beyond_level", "deformable_levels", "f16"},
      {"borders", "mutant_deformable_weight_cut", "deformable", "f32"},
      {"borders", "mutant_deformable_small_weight", "deformable", "f32"},
      {"borders", "mutant_deformable_value_cut", "deformable", "f32"},
      {"borders", "mutant_deformable_nearest_row", "deformable", "f32"},
      {"far", "mutant_deformable_wrap_32", "deformable", "bf16"},
      {"huge", "mutant_max_without_sink", "capped_sinks", "bf16"},
      {"wild", "mutant_max_of_sink", "capped_sinks", "f32"},
  };
  for (const auto& [fill, mutant, family_name, dtype, more] : kAlone) {
    MutantCase wanted = make_case(family(family_name), 61, dtype);
    wanted.spec += more;
    Trials trials(plugin(), wanted, Checks::kFills);
    int64_t tried = 0;
    for (const core::Implementation& one : plugin().implementations()) {
      if (one.name != mutant) continue;
      std::set<std::string> fills;
      for (const Catch& by : trials.run(one).catches) fills.insert(by.check);
      EXPECT_EQ(fills, std::set<std::string>{fill}) << mutant;
      ++tried;
    }
    EXPECT_EQ(tried, 1) << mutant;
  }
}

TEST(Mutants, AreAllExpectedSomewhere) {
  std::set<std::string> known, planted;
  for (const Expected& row : expectations()) known.insert(row.mutant);
  for (core::Plugin* one : {&plugin(), &steps()})
    for (const core::Implementation& mutant : one->implementations())
      if (!is_healthy(mutant.name)) planted.insert(mutant.name);
  EXPECT_EQ(known, planted);
  EXPECT_GE(planted.size(), 40u);
}

}  // namespace
}  // namespace attest::testing
