// Bugs planted in gradients of softmax attention never pass, at 61 and at 1,021 keys, and the
// healthy kernel that they are planted in does.
#include <gtest/gtest.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "core/problem/spec.hpp"
#include "core/run/runner.hpp"
#include "testing/mutants/backward_pairs.hpp"
#include "testing/named.hpp"

namespace attest::testing {
namespace {

/// Where a bug is one: in a band of grouped heads, under a mask or a bias of pairs, a softcap,
/// slopes, sinks, a block mask, with global tokens, patches, lengths or packed sequences, in an
/// order, on a grid, with the gradient of a bias that all queries share, with tables of offsets and
/// sinks and their gradients, over the top_k keys of a row, in 8 bits with factors of blocks or of
/// whole sequences, and both together.
constexpr const char *kBand = "num_heads=4 num_kv_heads=2 head_dim=24 causal=bottom_right",
                     *kMask = "num_heads=2 head_dim=24 mask",
                     *kBias = "num_heads=2 head_dim=24 bias",
                     *kSoftcap = "num_heads=2 head_dim=24 softcap=2",
                     *kAlibi = "num_heads=2 head_dim=24 alibi_slopes",
                     *kSinks = "num_heads=2 head_dim=24 sinks",
                     *kBlocks = "num_heads=2 head_dim=24 block_mask block_q=16 block_kv=8",
                     *kGlobal =
                         "num_heads=2 head_dim=24 window_left=7 window_right=3 "
                         "global_tokens=3",
                     *kPatches = "num_heads=2 head_dim=24 patch_size=16",
                     *kLengths = "batch=3 num_heads=2 head_dim=24 seq_lens_kv",
                     *kPacked = "batch=3 num_heads=2 head_dim=24 cu_seqlens_q cu_seqlens_kv",
                     *kOrder = "num_heads=2 head_dim=24 causal order",
                     *kGrid =
                         "batch=2 num_heads=2 seq_len_q=96 head_dim=24 grid_height=8 grid_width=12 "
                         "window_height=4 window_width=4 shift_y=2 shift_x=1 shift_bias=-100 "
                         "bias=[1,1,96,96] dbias",
                     *kTables =
                         "batch=2 num_heads=2 seq_len_q=96 head_dim=24 sinks dsinks "
                         "grid_height=8 grid_width=12 window_height=4 window_width=4 shift_y=2 "
                         "shift_x=1 shift_bias=-100 rel_bias drel_bias",
                     *kTopK = "num_heads=4 num_kv_heads=2 head_dim=24 top_k=9 bias dbias",
                     *kStored =
                         "batch=2 num_heads=4 num_kv_heads=2 head_dim=24 q=f8e4m3 k=f8e4m3 "
                         "v=f8e4m3 descale_block_q=9 descale_block_kv=10 q_descale k_descale "
                         "v_descale",
                     *kCodes =
                         "num_heads=2 head_dim=24 q=f8e5m2 k=f8e5m2 v=f8e5m2 q_descale "
                         "k_descale=[1,1,1]",
                     *kPackedCodes =
                         "batch=3 num_heads=2 head_dim=24 cu_seqlens_q cu_seqlens_kv q=f8e5m2 "
                         "k=f8e5m2 v=f8e5m2 descale_block_kv=10 k_descale v_descale",
                     *kStoredTopK =
                         "num_heads=4 num_kv_heads=2 head_dim=24 top_k=9 q=f8e4m3 k=f8e4m3 "
                         "v=f8e4m3 descale_block_kv=10 q_descale k_descale v_descale",
                     *kBiasGradient = "batch=2 num_heads=2 head_dim=24 softcap=2";

const char* features_of(const std::string& bug) {
  if (bug == "backward_bias_of_next_key" || bug == "backward_low_rows_lost" ||
      bug == "backward_logits_cut")
    return kBias;
  if (bug == "backward_seam_seen" || bug == "backward_window_unshifted_in_dv" ||
      bug == "backward_dbias_of_positions")
    return kGrid;
  if (bug == "backward_f8_other_format" || bug == "backward_f8_subnormals_lost" ||
      bug == "backward_f8_stored_scores_cut")
    return kCodes;
  if (bug == "backward_f8_blocks_of_rows") return kPackedCodes;
  if (bug == "backward_f8_top_k_by_stored") return kStoredTopK;
  if (bug.starts_with("backward_f8_")) return kStored;
  if (bug.starts_with("backward_order_")) return kOrder;
  if (bug.starts_with("backward_top_k_")) return kTopK;
  if (bug.starts_with("backward_rel_bias_") || bug.starts_with("backward_drel_bias_") ||
      bug.starts_with("backward_dsinks_"))
    return kTables;
  if (bug.starts_with("backward_dbias_")) return kBiasGradient;
  if (bug.starts_with("backward_cap_")) return kSoftcap;
  if (bug == "backward_sink_divided_out") return kSinks;
  if (bug == "backward_blocks_of_next_key") return kBlocks;
  if (bug == "backward_global_queries_lost") return kGlobal;
  if (bug == "backward_length_ignored") return kLengths;
  if (bug == "backward_borrowed_keys_lost") return kPatches;
  if (bug == "backward_last_block_of_next_sequence" || bug == "backward_last_sequence_lost" ||
      bug == "backward_lse_at_padded_row")
    return kPacked;
  if (bug == "backward_slope_of_next_head" || bug == "backward_distance_signed") return kAlibi;
  return bug == "backward_mask_ignored_in_dv" || bug == "backward_hidden_leaks" ? kMask : kBand;
}

core::Plugin bugs() {
  return core::Plugin(
      ATTEST_BINARY_DIR "/tests/plugins/backward_bugs.so",
      {.executable = core::find_worker(), .cpus = "", .limits = {.threads = 2, .timeout_s = 120}});
}

/// Options of runs that judge outputs and do not time them.
core::RunOptions judged_with(core::RelationChoice relations) {
  core::RunOptions options;
  options.limits.threads = 2;
  options.timed = false;
  options.diagnosed = false;
  options.relations = relations;
  return options;
}

/// Q, K and V in 8 bits: without factors of K, which row-sum would change, and with those of V.
constexpr const char *kWithoutKeyFactors = " q=f8e4m3 k=f8e4m3 v=f8e4m3 q_descale v_descale",
                     *kWithoutFactors = " q=f8e4m3 k=f8e4m3 v=f8e4m3";

/// Bugs that no single run on ordinary inputs shows, and the relation that alone finds each. Fills
/// with large V or delta, "cancelling" and "f8_bands", find some of them, too.
struct Related {
  const char *name, *relation;
  std::vector<std::string> fills;  // that do not find it
  const char* features = "";
};
const std::vector<std::string> kOrdinary = {"random", "codebook", "codebook_peaked"},
                               kWithCancelling = {"random", "codebook", "codebook_peaked",
                                                  "cancelling"};
const Related kRelated[] = {
    {"backward_delta_off", "row-sum", kOrdinary},
    {"backward_delta_off", "row-sum", {"random"}, kWithoutKeyFactors},
    {"backward_delta_off", "row-sum", {"random"}, kWithoutFactors},
    {"backward_values_cut", "value-scale", kOrdinary},
    {"backward_values_cut", "value-scale", {"random", "late", "sized"}, kWithoutKeyFactors},
    {"backward_values_cut", "value-scale", {"random", "late"}, kWithoutFactors},
    {"backward_gradient_cut", "value-scale", kWithCancelling},
    {"backward_third_sequence", "batch-repetition", kWithCancelling},
    {"backward_fourth_head", "head-repetition", kWithCancelling}};

/// Global tokens, patches and an order need as many queries as keys; a grid has a number of its
/// own.
void try_bugs(const std::string& dtype, int queries, int keys) {
  core::Plugin plugin = bugs();
  core::RunOptions options = judged_with(core::RelationChoice::kNone);
  core::Rates rates;
  int caught = 0, healthy = 0;
  for (const char* features :
       {kBand,   kMask,         kBias,    kSoftcap, kAlibi,       kSinks,     kBlocks,
        kGlobal, kPatches,      kLengths, kPacked,  kOrder,       kGrid,      kTables,
        kTopK,   kBiasGradient, kStored,  kCodes,   kPackedCodes, kStoredTopK}) {
    if ((features == kOrder || features == kTopK || features == kStoredTopK) && keys > 100)
      continue;  // pairs that would take long
    const bool is_self = features == kGlobal || features == kPatches || features == kOrder;
    const std::string bias =
        features == kBiasGradient ? " bias=[1,1,1," + std::to_string(keys) + "] dbias" : "";
    const std::string sizes = features == kGrid || features == kTables
                                  ? ""
                                  : " seq_len_q=" + std::to_string(is_self ? keys : queries) +
                                        " seq_len_kv=" + std::to_string(keys);
    const core::Problem problem =
        core::parse_problem("softmax_backward dtype=" + dtype + sizes + " " + features + bias);
    core::CaseRunner runner(problem, core::print_problem(problem), {"", "case", "random", ""},
                            nullptr, options, rates);
    for (const core::Implementation& one : plugin.implementations()) {
      const bool is_healthy = one.name == "backward_none";
      if (!is_healthy && features != features_of(one.name)) continue;
      if (std::ranges::find(kRelated, one.name, &Related::name) != std::end(kRelated) ||
          kBackwardPairBugs.contains(one.name) || kBackwardLargeBugs.contains(one.name))
        continue;
      // f16 and bf16 outputs hide what such a rounding does to float32.
      const bool rounds = one.name.ends_with("_f16");
      if (rounds && dtype != "f32") continue;
      const core::Record record = runner.run(plugin, one);
      EXPECT_EQ(record.outcome.passes(), is_healthy)
          << one.name << ", " << features << ": " << record.outcome.reason;
      ++(is_healthy ? healthy : caught);
    }
  }
  EXPECT_EQ(healthy, keys > 100 ? 17 : 20);
  EXPECT_EQ(caught, dtype == "f32" ? 83 : keys > 100 ? 68 : 79);
}

TEST(BackwardBugs, NeverPassAt61Keys) {
  for (const char* dtype : {"f32", "f16"}) try_bugs(dtype, 61, 61);
}
TEST(BackwardBugs, NeverPassAt1021Keys) { try_bugs("bf16", 35, 1021); }

TEST(BackwardBugs, AreSeenByOneFillAlone) {
  struct Seen {
    std::string fill, features;
  };
  const std::map<std::string, Seen> seen_by = {
      {"backward_exp_of_parts", {"sized"}},
      {"backward_ds_cut", {"sized"}},
      {"backward_small_rows_lost", {"sized"}},
      {"backward_lse_cut", {"sized"}},
      {"backward_nan_weight_lost", {"wild"}},
      {"backward_nan_ds_zero", {"wild"}},
      {"backward_low_rows_lost", {"hidden", " bias"}},
      {"backward_logits_cut", {"hidden", " bias"}},
      {"backward_top_k_others_leak", {"top_k_wild", " top_k=9"}},
      {"backward_f8_subnormals_lost", {"f8_bands", " q=f8e5m2 k=f8e5m2 v=f8e5m2"}}};
  core::Plugin plugin = bugs();
  core::RunOptions options = judged_with(core::RelationChoice::kNone);
  options.all_checks = true;
  for (const auto& [name, seen] : seen_by) {
    const core::Record record =
        run_named(plugin, name.c_str(),
                  "softmax_backward num_heads=2 seq_len_q=61 head_dim=16" + seen.features, options);
    std::set<std::string> failing;
    for (const core::FillRecord& one : record.fills)
      if (!one.judgement.outcome.passes()) failing.insert(one.fill);
    EXPECT_EQ(failing, std::set<std::string>{seen.fill}) << name;
  }
}

// Their smallest problem, of 4,099 keys, whose judged sample has none of the tile.
TEST(BackwardBugs, LostQueriesOfOneTileAreSeenByRepeatedAlone) {
  core::Plugin plugin = bugs();
  core::RunOptions options = judged_with(core::RelationChoice::kNone);
  options.all_checks = true;
  options.fills = {"codebook", "repeated"};
  const auto run = [&](const char* name) {
    return run_named(plugin, name, kBackwardLargeBugs.at("backward_tile_loses_queries"), options);
  };
  const core::Record record = run("backward_tile_loses_queries");
  ASSERT_EQ(record.fills.size(), 2u);
  for (const core::FillRecord& one : record.fills)
    EXPECT_EQ(one.judgement.outcome.passes(), one.fill == "codebook") << one.fill;
  options.fills = {"repeated"};
  EXPECT_TRUE(run("backward_none").outcome.passes());
}

// A factor on one gradient is no mistake of the list: the factor itself is found.
TEST(BackwardBugs, FactorsOnAGradientAreNamed) {
  const std::pair<const char*, const char*> named[] = {
      {"backward_scale_of_dq_forgotten",
       "it is as if dq were multiplied by 4 (1 / softmax_scale, which is sqrt(head_dim))"},
      {"backward_scale_of_dk_twice",
       "it is as if dk were multiplied by 0.25 (softmax_scale, which is 1 / sqrt(head_dim))"}};
  core::Plugin plugin = bugs();
  core::RunOptions options = judged_with(core::RelationChoice::kNone);
  options.fills = {"random"};
  options.diagnosed = true;
  for (const auto& [name, words] : named) {
    const core::Record record =
        run_named(plugin, name, "softmax_backward num_heads=2 seq_len_q=61 head_dim=16", options);
    ASSERT_EQ(record.fills.size(), 1u) << name;
    EXPECT_EQ(record.fills[0].judgement.guess, words) << name;
  }
}

TEST(BackwardBugs, AreFoundByOneRelationAlone) {
  core::Plugin plugin = bugs();
  core::RunOptions options = judged_with(core::RelationChoice::kAuto);
  options.all_checks = true;
  const auto run = [&](const std::string& name, const std::string& features) {
    return run_named(plugin, name,
                     "softmax_backward num_heads=2 seq_len_q=61 head_dim=16" + features, options);
  };
  for (const auto& [name, relation, fills, features] : kRelated) {
    options.fills = fills;
    const core::Record record = run(name, features);
    EXPECT_EQ(record.fills.size(), fills.size()) << name << features;
    for (const core::FillRecord& fill : record.fills)
      EXPECT_TRUE(fill.judgement.outcome.passes())
          << name << features << " is found by " << fill.fill;
    std::set<std::string> found;
    for (const core::RelationRecord& one : record.relations)
      if (!one.judgement.outcome.passes()) found.insert(one.relation);
    found.erase("plan-reuse");  // it judges variants of the problem by their goldens
    EXPECT_EQ(found, std::set<std::string>{relation}) << name << features;
  }
  options.fills.clear();
  for (const char* features : {"", kWithoutKeyFactors, kWithoutFactors})
    EXPECT_TRUE(run("backward_none", features).outcome.passes()) << features;
}

}  // namespace
}  // namespace attest::testing
