// Relations between runs: each has a bug that it alone finds, and right implementations hold all of
// them on every kind of problem.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <map>
#include <set>

#include "core/problem/spec.hpp"
#include "core/run/runner.hpp"
#include "testing/named.hpp"

namespace attest::core {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Not;

std::string plugin_path(const char* name) {
  return std::string(ATTEST_BINARY_DIR "/tests/plugins/") + name + ".so";
}

class Relations : public ::testing::Test {
 protected:
  Relations() {
    options_.timed = false;
    options_.diagnosed = false;
    options_.all_checks = true;
    options_.relations = RelationChoice::kAll;
  }

  Record run(Plugin& plugin, const std::string& name, const std::string& spec) {
    return testing::run_named(plugin, name, spec, options_);
  }

  RunOptions options_;
};

std::set<std::string> names(const Record& record, bool broken) {
  std::set<std::string> found;
  for (const RelationRecord& relation : record.relations)
    if (!broken || relation.judgement.outcome.verdict() == Verdict::kFail)
      found.insert(relation.relation);
  return found;
}

constexpr const char *kDense = "softmax num_heads=2 seq_len_q=61 head_dim=16",
                     *kCausal = "softmax num_heads=2 seq_len_q=61 head_dim=16 window_right=0",
                     *kBlocks =
                         "softmax num_heads=2 seq_len_q=61 head_dim=16 block_mask block_q=16 "
                         "block_kv=8";

struct Planted {
  const char *name, *spec, *killer;
};
constexpr Planted kPlanted[] = {
    {"relation_drift", kDense, "repetition"},
    {"relation_leftover", kDense, "repetition"},
    {"relation_many_rises", kDense, "key-permutation"},
    {"relation_far_rises", kDense, "key-permutation (huge)"},
    {"relation_shared_maximum", kDense, "common-shift"},
    {"relation_third_sequence", kDense, "batch-repetition"},
    {"relation_fourth_head", kDense, "head-repetition"},
    {"relation_clamped_values", kDense, "value-scale"},
    {"relation_normaliser", kDense, "row-sum"},
    {"relation_maximum_of_all", kCausal, "hidden-values"},
    {"relation_times_zero", kCausal, "hidden-nan"},
    {"relation_maximum_of_all", kBlocks, "hidden-values"},
    {"relation_times_zero", kBlocks, "hidden-nan"},
    {"relation_lse_in_bits", kDense, "split-merge"},
};

// Every fill passes, and of the relations exactly one does not hold.
TEST_F(Relations, EachAloneFindsABug) {
  Plugin plugin(
      plugin_path("relations"),
      {.executable = find_worker(), .cpus = "", .limits = {.threads = 1, .timeout_s = 60}});
  for (const char* spec : {kDense, kCausal, kBlocks}) {
    const Record healthy = run(plugin, "relation_none", spec);
    EXPECT_EQ(healthy.outcome.verdict(), Verdict::kPass) << healthy.outcome.reason;
  }
  // "huge" is a common shift itself, where a problem has it.
  const std::vector<std::string> fills = {"random", "codebook", "codebook_peaked", "cancelling"};
  for (const Planted& planted : kPlanted) {
    // Fills beyond the first one have other workspaces themselves.
    options_.fills = planted.name == std::string("relation_leftover")
                         ? std::vector<std::string>{"random"}
                         : fills;
    if (std::string(planted.killer).ends_with("(huge)")) options_.fills = {"random", "huge"};
    const Record record = run(plugin, planted.name, planted.spec);
    for (const FillRecord& fill : record.fills)
      EXPECT_EQ(fill.judgement.outcome.verdict(), Verdict::kPass)
          << planted.name << " is found by " << fill.fill << ": " << fill.judgement.outcome.reason;
    const std::string killer = planted.killer;
    std::set<std::string> found = names(record, true);
    // It judges variants of the problem by their goldens, and may so see what is wrong with these.
    if (killer != "plan-reuse") found.erase("plan-reuse");
    EXPECT_EQ(found, std::set<std::string>{killer}) << planted.name;
    EXPECT_EQ(name(record.outcome.code), "fail:" + killer.substr(0, killer.find(' ')))
        << record.outcome.reason;
  }
}

// What each kind of problem is asked, and that a right implementation that reads every feature
// holds it.
TEST_F(Relations, ARightOneHoldsThemAll) {
  const struct {
    const char *spec, *has, *lacks;
  } kCases[] = {
      {"softmax num_heads=4 num_kv_heads=2 seq_len_q=45 seq_len_kv=70 head_dim=16 head_dim_v=24 "
       "lse",
       "split-merge", "hidden-nan"},
      {"softmax dtype=f16 num_heads=2 seq_len_q=61 head_dim=16 window_left=9 window_right=3 lse",
       "hidden-values", "key-permutation"},
      {"softmax num_heads=2 seq_len_q=20 seq_len_kv=61 head_dim=16 window_right=0 diagonal=1",
       "key-permutation", "query-permutation"},
      {"softmax dtype=bf16 num_heads=2 seq_len_q=61 head_dim=16 mask bias=[1,1,1,61]", "hidden-nan",
       "none"},
      {"softmax batch=2 num_heads=2 seq_len_q=33 head_dim=16 bias lse", "key-permutation", "none"},
      {"softmax num_heads=2 seq_len_q=61 head_dim=16 softcap=20", "value-scale", "common-shift"},
      {"softmax batch=3 num_heads=2 seq_len_q=40 head_dim=16 seq_lens_q seq_lens_kv lse",
       "hidden-nan", "split-merge"},
      {"softmax batch=3 num_heads=2 seq_len_q=40 head_dim=16 cu_seqlens_q cu_seqlens_kv",
       "query-permutation", "batch-repetition"},
      {"softmax batch=2 num_heads=2 seq_len_q=40 head_dim=16 page_size=8 page_table seq_lens_kv",
       "hidden-values", "head-repetition"},
      {"softmax batch=2 num_heads=2 seq_len_q=61 head_dim=16 block_mask block_q=16 block_kv=8 lse",
       "key-permutation", "split-merge"},
      {"softmax num_heads=2 seq_len_q=61 head_dim=16 window_right=0 global_tokens=3",
       "hidden-values", "key-permutation"},
      {"softmax num_heads=2 seq_len_q=100 head_dim=16 patch_size=32 order", "key-permutation",
       "split-merge"},
      {"softmax num_heads=2 seq_len_q=64 head_dim=16 grid_height=8 grid_width=8 window_height=4 "
       "window_width=4 shift_y=2 "
       "shift_x=2 "
       "shift_bias=-100 rel_bias",
       "row-sum", "key-permutation"},
      {"softmax num_heads=2 seq_len_q=61 head_dim=16 alibi_slopes lse", "split-merge",
       "key-permutation"},
  };
  Plugin plugin(
      plugin_path("naive_minimal"),
      {.executable = find_worker(), .cpus = "", .limits = {.threads = 1, .timeout_s = 60}});
  for (const auto& [spec, has, lacks] : kCases) {
    const Record record = run(plugin, "naive_minimal", spec);
    EXPECT_EQ(record.outcome.verdict(), Verdict::kPass) << spec << ": " << record.outcome.reason;
    EXPECT_THAT(names(record, false), Contains(has)) << spec;
    EXPECT_THAT(names(record, false), Not(Contains(lacks))) << spec;
    for (const RelationRecord& relation : record.relations)
      EXPECT_GT(relation.judgement.exact_elements, 0)
          << relation.relation << " compared nothing on " << spec;
  }
}

// Hidden values of "huge" are infinite. Once they are finite, an honest kernel rounds them to f16
// and multiplies them by 0, so they must not be more than f16 holds.
TEST_F(Relations, HiddenValuesFitIntoF16) {
  Plugin plugin(
      plugin_path("honest"),
      {.executable = find_worker(), .cpus = "", .limits = {.threads = 1, .timeout_s = 60}});
  options_.fills = {"huge"};
  const Record record =
      run(plugin, "honest_f16_probabilities",
          "softmax dtype=bf16 num_heads=2 seq_len_q=61 head_dim=16 softcap=20 bias=[1,1,1,61]");
  EXPECT_EQ(record.outcome.verdict(), Verdict::kPass) << record.outcome.reason;
  EXPECT_THAT(names(record, false), Contains("hidden-values"));
}

TEST_F(Relations, AreTriedWhereTheyAreCheapOrAskedFor) {
  const Problem small = parse_problem(kDense),
                large = parse_problem("softmax num_heads=16 seq_len_q=4096 head_dim=64");
  EXPECT_TRUE(wants_relations(RelationChoice::kAuto, small, 1e6));
  EXPECT_FALSE(wants_relations(RelationChoice::kAuto, small, 30e6));
  EXPECT_FALSE(wants_relations(RelationChoice::kAuto, large, 1e6));
  EXPECT_TRUE(wants_relations(RelationChoice::kAll, large, 1e12));
  EXPECT_FALSE(wants_relations(RelationChoice::kNone, small, 1));
}

// Alone each still finds its bug, and a bug that only another one sees passes.
TEST_F(Relations, OneAloneIsCheckedIfItIsNamed) {
  Plugin plugin(
      plugin_path("relations"),
      {.executable = find_worker(), .cpus = "", .limits = {.threads = 1, .timeout_s = 60}});
  options_.fills = {"random", "huge"};
  for (const auto& [name, only] :
       {std::pair("relation_drift", "repetition"), std::pair("relation_normaliser", "row-sum")}) {
    options_.only_relation = only;
    const Record found = run(plugin, name, kDense);
    EXPECT_EQ(names(found, false), std::set<std::string>{only});
    EXPECT_EQ(found.outcome.verdict(), Verdict::kFail) << only;
    options_.only_relation = "common-shift";
    const Record missed = run(plugin, name, kDense);
    EXPECT_EQ(names(missed, false), std::set<std::string>{"common-shift"});
    EXPECT_EQ(missed.outcome.verdict(), Verdict::kPass) << missed.outcome.reason;
  }
  for (const char* only : {"changed-tensor", "plan-reuse"}) {
    options_.only_relation = only;
    EXPECT_EQ(names(run(plugin, "relation_drift", kDense), false), std::set<std::string>{only});
  }
}

// Without all_checks the first that does not hold is the last.
TEST_F(Relations, StopAtTheFirstThatDoesNotHold) {
  options_.all_checks = false;
  Plugin plugin(
      plugin_path("relations"),
      {.executable = find_worker(), .cpus = "", .limits = {.threads = 1, .timeout_s = 60}});
  const Record record = run(plugin, "relation_drift", kDense);
  EXPECT_EQ(record.relations.size(), 1u);
  EXPECT_THAT(record.outcome.reason,
              HasSubstr("elements differ, and it does not declare itself nondeterministic"));
}

}  // namespace
}  // namespace attest::core
