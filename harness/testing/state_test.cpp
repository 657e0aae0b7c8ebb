// State: what an earlier run, another plan or the workspace has left. Each bug is right in the
// first run of the first plan of a process, so that every fill passes, and one check alone finds
// it, without timing.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <utility>

#include "core/run/runner.hpp"
#include "testing/named.hpp"

namespace attest::core {
namespace {

using ::testing::ContainsRegex;
using ::testing::HasSubstr;

constexpr const char *
    kTiny = "softmax seq_len_q=16 head_dim=8",  // so that 64 runs are short on a busy machine too
    *kPlain = "softmax num_heads=2 seq_len_q=61 head_dim=16",
   *kCausal = "softmax num_heads=2 seq_len_q=61 head_dim=16 window_right=0 lse",
   *kMask = "softmax num_heads=2 seq_len_q=61 head_dim=16 mask",
   *kGqa = "softmax num_heads=4 num_kv_heads=2 seq_len_q=61 head_dim=16",
   *kHalf = "softmax dtype=f16 num_heads=2 seq_len_q=61 head_dim=16",
   *kLengths = "softmax batch=3 num_heads=2 seq_len_q=40 head_dim=16 seq_lens_q seq_lens_kv lse",
   *kPacked = "softmax batch=3 num_heads=2 seq_len_q=40 head_dim=16 cu_seqlens_q cu_seqlens_kv",
   *kPages =
       "softmax batch=2 seq_len_q=5 seq_len_kv=61 head_dim=16 page_size=16 page_table "
       "seq_lens_kv",
   // Its page table is the same for two seeds, by chance, as long as the length is.
       *kSamePages =
           "softmax dtype=bf16 seq_len_q=1 seq_len_kv=576 head_dim=32 head_dim_v=1 "
           "diagonal_offset=18 page_size=256 lse seq_lens_kv page_table",
   *kOrder = "softmax seq_len_q=61 head_dim=16 order window_right=0",
   *kChunk = "softmax seq_len_q=20 seq_len_kv=61 head_dim=16 window_right=0",
   *kPatches = "softmax seq_len_q=61 head_dim=16 patch_size=16",
   *kGrid =
       "softmax num_heads=2 seq_len_q=48 head_dim=16 grid_height=6 grid_width=8 "
       "window_height=3 window_width=4 shift_y=1 shift_x=1 shift_bias=-100",
   *kBlocks = "softmax num_heads=2 seq_len_q=61 head_dim=16 block_mask block_q=16 block_kv=8",
   *kGlobal =
       "softmax num_heads=2 seq_len_q=61 head_dim=16 window_left=7 window_right=3 "
       "global_tokens=3",
   *kTopK = "softmax num_heads=2 seq_len_q=61 head_dim=16 top_k=9",
   *kF8 =
       "softmax num_heads=2 seq_len_q=61 head_dim=16 q=f8e4m3 k=f8e4m3 v=f8e4m3 q_descale "
       "k_descale "
       "v_descale",
   *kF8Blocks =
       "softmax num_heads=2 seq_len_q=61 head_dim=16 q=f8e4m3 k=f8e4m3 v=f8e4m3 "
       "descale_block_kv=16 k_descale v_descale",
   *kFourHeads = "softmax num_heads=4 seq_len_q=20 head_dim=16",
   *kPackedMore = "softmax batch=6 num_heads=2 seq_len_q=40 head_dim=16 cu_seqlens_q cu_seqlens_kv",
   *kMany = "softmax num_heads=2 seq_len_q=197 head_dim=16",
   *kManyMasked = "softmax num_heads=2 seq_len_q=197 head_dim=16 mask bias",
   *kTerms = "softmax num_heads=2 seq_len_q=61 head_dim=16 mask bias alibi_slopes sinks lse",
   *kRelative =
       "softmax num_heads=2 seq_len_q=48 head_dim=16 grid_height=6 grid_width=8 "
       "window_height=3 window_width=4 rel_bias",
   *kLinear = "linear num_heads=2 seq_len_q=61 head_dim=16 mask query_mask",
   *kManyLinear = "linear num_heads=2 seq_len_q=197 head_dim=16 mask query_mask";

std::unique_ptr<Plugin> plugin(const std::string& name, uint64_t memory_bytes = 0) {
  return std::make_unique<Plugin>(
      ATTEST_BINARY_DIR "/" + name + ".so",
      WorkerOptions{.executable = find_worker(),
                    .cpus = "",
                    .limits = {.threads = 1, .timeout_s = 60, .memory_bytes = memory_bytes}});
}

class State : public ::testing::Test {
 protected:
  // All relations: by default a busy machine may be too slow for them.
  State() {
    options_.timed = false;
    options_.diagnosed = false;
    options_.all_checks = true;
    options_.relations = RelationChoice::kAll;
  }
  // In a process of its own: what a bug keeps for the process is its own.
  Record run(const std::string& name, const std::string& spec,
             const std::string& library = "tests/plugins/state") {
    return testing::run_named(*plugin(library), name, spec, options_);
  }
  RunOptions options_;
};

std::string broken(const Record& record) {
  std::string names;
  for (const RelationRecord& relation : record.relations)
    if (relation.judgement.outcome.is_bad())
      names += (names.empty() ? "" : " ") + relation.relation;
  return names;
}

// The tensors that changed, from "3 of 3 changes in up to 0.4 s, by their goldens: q; k; v".
std::set<std::string> split(const std::string& names) {
  std::set<std::string> parts;
  for (size_t from = 0; from < names.size();) {
    const size_t to = std::min(names.find("; ", from), names.size());
    parts.insert(names.substr(from, to - from));
    from = to + 2;
  }
  return parts;
}
std::set<std::string> changes(const Record& record) {
  for (const RelationRecord& relation : record.relations)
    if (relation.relation == "changed-tensor")
      return split(relation.judgement.method.substr(relation.judgement.method.find(": ") + 2));
  return {};
}

struct Planted {
  const char *name, *spec;
  // Of a plan that runs twice or more, changed-tensor and plan-reuse see some bugs too.
  const char* relations;
  const char* reason;
};
constexpr Planted kPlanted[] = {
    {"state_run_2", kPlain, "repetition changed-tensor plan-reuse",
     "run 2 of one plan, on inputs of fill codebook"},
    {"state_run_3", kPlain, "repetition plan-reuse", "run 3 of one plan"},
    {"state_run_7", kPlain, "repetition", "run 7 of one plan"},
    {"state_run_13", kTiny, "repetition", "run 13 of one plan"},
    {"state_every_14", kTiny, "repetition", "run 14 of one plan"},
    {"state_from_run_10", kTiny, "repetition", "run 10 of one plan"},
    {"state_from_run_50", kTiny, "repetition", "run 50 of one plan"},
    {"state_from_run_60", kTiny, "repetition", "run 64 of one plan"},
    {"state_maximum_in_workspace", kPlain, "repetition",
     "numbers in .0, 1., on inputs of fill huge"},
    {"state_fractions", kPlain, "repetition", "run 3 of one plan"},
    {"state_large", kPlain, "repetition", "holds large numbers and NaN"},
    {"state_one", kPlain, "repetition", "large numbers and 1.0"},
    {"state_zero", kPlain, "repetition", "large numbers and zeros"},
    {"state_integer_one", kPlain, "repetition", "large numbers and the integer 1"},
    {"state_semaphore_left", kPlain, "repetition changed-tensor plan-reuse", "run 2 of one plan"},
    {"state_semaphore_kept", kPlain, "repetition", "run 3 of one plan"},
    {"state_by_address", kPlain, "repetition changed-tensor plan-reuse", "run 2 of one plan"},
    {"state_first_addresses", kPlain, "repetition", "run 3 of one plan"},
    {"state_integers_of_run_1", kLengths, "repetition changed-tensor",
     "run 2 of one plan, on inputs with other"},
    {"state_integers_of_run_1", kPacked, "repetition changed-tensor",
     "run 2 of one plan, on inputs with other"},
    {"state_integers_of_run_1", kPages, "repetition changed-tensor",
     "run 2 of one plan, on inputs with other"},
    {"state_integers_of_run_1", kOrder, "repetition changed-tensor",
     "run 2 of one plan, on inputs with other"},
    {"state_pages_of_run_1", kPages, "repetition changed-tensor",
     "run 2 of one plan, on inputs with other"},
    {"state_key_without_scale", kPlain, "plan-reuse", "variant 'scale'|the problem itself"},
    {"state_first_seq_len_q", kPlain, "plan-reuse", "variant 'seq_len_q'"},
    {"state_first_seq_len_kv", kPlain, "plan-reuse", "variant 'seq_len_kv'"},
    {"state_first_head_dim_v", kPlain, "plan-reuse", "variant 'head_dim_v'"},
    {"state_key_without_mask", kPlain, "plan-reuse", "variant 'mask'|the problem itself"},
    {"state_key_without_mask", kMask, "plan-reuse", "variant 'mask'|the problem itself"},
    {"state_key_without_window", kPlain, "plan-reuse", "window|the problem itself"},
    {"state_key_without_window", kCausal, "plan-reuse", "window|the problem itself"},
    {"state_key_without_window_left", kPlain, "plan-reuse", "variant '(second )?window_left'"},
    {"state_key_without_window_right", kPlain, "plan-reuse", "variant 'window(_right)?'"},
    {"state_key_without_diagonal", kChunk, "plan-reuse", "variant 'diagonal'|the problem itself"},
    {"state_key_without_offset", kPlain, "plan-reuse",
     "variant '(window|(second )?diagonal_offset)'"},
    {"state_key_of_offset_present", kPlain, "plan-reuse", "variant '(second )?diagonal_offset'"},
    {"state_key_without_softcap", kPlain, "plan-reuse", "softcap'|the problem itself"},
    {"state_key_of_softcap_present", kPlain, "plan-reuse", "variant '(second )?softcap'"},
    {"state_key_without_bias", kPlain, "plan-reuse", "variant 'bias'|the problem itself"},
    {"state_key_without_alibi", kPlain, "plan-reuse", "variant 'alibi_slopes'|the problem itself"},
    {"state_key_without_sinks", kPlain, "plan-reuse", "variant 'sinks'|the problem itself"},
    {"state_key_without_lse", kPlain, "plan-reuse", "variant 'lse'"},
    {"state_key_without_order", kCausal, "plan-reuse", "variant 'order'|the problem itself"},
    {"state_key_without_patches", kPatches, "plan-reuse",
     "variant 'patch_size'|the problem itself"},
    {"state_key_without_patches", kPlain, "plan-reuse",
     "variant '(second )?patch_size'|the problem itself"},
    {"state_key_of_patches_present", kPlain, "plan-reuse", "variant '(second )?patch_size'"},
    {"state_key_of_shift_present", kGrid, "plan-reuse", "variant 'shift_[yx]'|the problem itself"},
    {"state_key_without_shift", kGrid, "plan-reuse", "variant 'shift_[yx]'|the problem itself"},
    {"state_key_without_shift_bias", kGrid, "plan-reuse",
     "variant 'shift_bias'|the problem itself"},
    {"state_key_without_grid_window", kGrid, "plan-reuse",
     "variant 'window_height'|the problem itself"},
    {"state_key_without_rel_bias", kGrid, "plan-reuse", "variant 'rel_bias'|the problem itself"},
    {"state_key_without_strides", kPlain, "plan-reuse", "plan-reuse"},
    {"state_key_without_dtype", kPlain, "plan-reuse", "plan-reuse"},
    {"state_key_without_dtype", kHalf, "plan-reuse", "plan-reuse"},
    {"state_key_without_kv_heads", kPlain, "plan-reuse", "plan-reuse"},
    {"state_key_without_kv_heads", kGqa, "plan-reuse", "plan-reuse"},
    {"state_key_of_groups", kGqa, "plan-reuse", "plan-reuse"},
    {"state_key_of_groups", kFourHeads, "plan-reuse", "plan-reuse"},
    {"state_key_without_block_mask", kBlocks, "plan-reuse",
     "variant 'block_mask'|the problem itself"},
    {"state_key_without_block_sizes", kBlocks, "plan-reuse",
     "variant 'block_(q|kv)'|the problem itself"},
    {"state_key_without_global", kGlobal, "plan-reuse",
     "variant '(second )?global_tokens'|the problem itself"},
    {"state_key_of_global_present", kGlobal, "plan-reuse",
     "variant 'second global_tokens'|the problem itself"},
    {"state_key_without_top_k", kTopK, "plan-reuse",
     "variant '(second )?top_k'|the problem itself"},
    {"state_key_of_top_k_present", kTopK, "plan-reuse",
     "variant 'second top_k'|the problem itself"},
    {"state_key_without_descale", kF8, "plan-reuse", "variant '[qkv]_descale'|the problem itself"},
    {"state_key_without_descale_blocks", kF8Blocks, "plan-reuse",
     "variant 'descale_block_kv'|the problem itself"},
    {"state_key_without_lengths", kPlain, "plan-reuse", "plan-reuse"},
    // In both orders a plan of the usual scale comes before that of the variant, which is wrong by
    // the same bits in both.
    {"state_scale_by_sizes", kPlain, "plan-reuse", "variant 'scale'"},
    // The same, but right within the gate.
    {"state_rounds_by_sizes", kPlain, "plan-reuse", "variant 'scale' \\(in a process of its own"},
    {"state_lengths_kept", kLengths, "repetition changed-tensor plan-reuse", "run 2 of one plan"},
    {"state_last_created", kPlain, "plan-reuse", "plan-reuse"},
    {"state_dies_with_another", kPlain, "plan-reuse", "plan-reuse"},
    {"state_shared_by_problem", kPlain, "plan-reuse",
     "a second plan of the problem|the problem itself"},
    {"state_one_at_a_time_kept", kPlain, "plan-reuse", "variant 'scale'|the problem itself"},
};

// They remember for as long as some tensors stay. If nothing else than the first run counts,
// repetition finds them too.
constexpr Planted kMemories[] = {
    {"memory_output_by_q", kPlain, "changed-tensor", "other contents of (k|v) alone"},
    {"memory_output_by_q", kMany, "changed-tensor", "other contents of (k|v) alone"},
    {"memory_output_by_k", kPlain, "changed-tensor", "other contents of (q|v) alone"},
    {"memory_output_by_k", kMany, "changed-tensor", "other contents of (q|v) alone"},
    {"memory_output_by_v", kPlain, "changed-tensor", "other contents of (q|k) alone"},
    {"memory_output_by_v", kMany, "changed-tensor", "other contents of (q|k) alone"},
    {"memory_output_by_qk", kPlain, "changed-tensor", "other contents of v alone"},
    {"memory_output_by_qk", kMany, "changed-tensor", "other contents of v alone"},
    {"memory_output_by_qv", kPlain, "changed-tensor", "other contents of k alone"},
    {"memory_output_by_qv", kMany, "changed-tensor", "other contents of k alone"},
    {"memory_output_by_kv", kPlain, "changed-tensor", "other contents of q alone"},
    {"memory_output_by_kv", kMany, "changed-tensor", "other contents of q alone"},
    {"memory_output_by_qkv", kMask, "changed-tensor", "other contents of mask alone"},
    {"memory_output_by_qkv", kLengths, "changed-tensor", "other contents of seq_lens_q alone"},
    {"memory_q_by_k", kPlain, "changed-tensor", "other contents of q alone"},
    {"memory_q_by_k", kMany, "changed-tensor", "other contents of q alone"},
    {"memory_k_by_q", kPlain, "changed-tensor", "other contents of k alone"},
    {"memory_k_by_q", kMany, "changed-tensor", "other contents of k alone"},
    {"memory_k_by_v", kPlain, "changed-tensor", "other contents of k alone"},
    {"memory_k_by_v", kMany, "changed-tensor", "other contents of k alone"},
    {"memory_v_by_k", kPlain, "changed-tensor", "other contents of v alone"},
    {"memory_v_by_k", kMany, "changed-tensor", "other contents of v alone"},
    {"memory_kv_by_q", kPlain, "changed-tensor", "other contents of (k|v) alone"},
    {"memory_kv_by_q", kMany, "changed-tensor", "other contents of (k|v) alone"},
    {"memory_mask_by_q", kMask, "changed-tensor", "other contents of mask alone"},
    {"memory_mask_by_q", kManyMasked, "changed-tensor", "other contents of mask alone"},
    {"memory_mask_by_qkv", kMask, "changed-tensor", "other contents of mask alone"},
    {"memory_mask_by_qkv", kManyMasked, "changed-tensor", "other contents of mask alone"},
    {"memory_bias_by_q", kTerms, "changed-tensor", "other contents of bias alone"},
    {"memory_bias_by_q", kManyMasked, "changed-tensor", "other contents of bias alone"},
    {"memory_rel_bias_by_q", kRelative, "changed-tensor", "other contents of rel_bias alone"},
    {"memory_slopes_by_q", kTerms, "changed-tensor", "other contents of alibi_slopes alone"},
    {"memory_sinks_by_q", kTerms, "changed-tensor", "other contents of sinks alone"},
    {"memory_lengths_by_q", kLengths, "changed-tensor", "other contents of seq_lens_k?[qv] alone"},
    {"memory_lengths_by_q", kPackedMore, "changed-tensor",
     "other contents of cu_seqlens_k?[qv] alone"},
    {"memory_order_by_q", kOrder, "changed-tensor", "other contents of order alone"},
    {"memory_pages_by_q", kPages, "changed-tensor", "other contents of .*page_table alone"},
    {"memory_k_of_run_1", kPlain, "repetition changed-tensor", "run 2 of one plan"},
    {"memory_v_of_run_1", kPlain, "repetition changed-tensor", "run 2 of one plan"},
    {"memory_mask_of_run_1", kMask, "repetition changed-tensor", "run 2 of one plan"},
    {"memory_bias_of_run_1", kTerms, "repetition changed-tensor", "run 2 of one plan"},
    {"linear_memory_output_by_q", kLinear, "changed-tensor",
     "other contents of (k|v|mask|query_mask) alone"},
    {"linear_memory_output_by_q", kManyLinear, "changed-tensor",
     "other contents of (k|v|mask|query_mask) alone"},
    {"linear_memory_output_by_qk", kLinear, "changed-tensor",
     "other contents of (v|mask|query_mask) alone"},
    {"linear_memory_output_by_qk", kManyLinear, "changed-tensor",
     "other contents of (v|mask|query_mask) alone"},
    {"linear_memory_output_by_qv", kLinear, "changed-tensor",
     "other contents of (k|mask|query_mask) alone"},
    {"linear_memory_output_by_qv", kManyLinear, "changed-tensor",
     "other contents of (k|mask|query_mask) alone"},
    {"linear_memory_output_by_kv", kLinear, "changed-tensor",
     "other contents of (q|mask|query_mask) alone"},
    {"linear_memory_output_by_kv", kManyLinear, "changed-tensor",
     "other contents of (q|mask|query_mask) alone"},
    {"linear_memory_output_by_qkv", kLinear, "changed-tensor",
     "other contents of (mask|query_mask) alone"},
    {"linear_memory_state_by_k", kLinear, "changed-tensor", "other contents of v alone"},
    {"linear_memory_state_by_k", kManyLinear, "changed-tensor", "other contents of v alone"},
    {"linear_memory_state_by_v", kLinear, "changed-tensor", "other contents of k alone"},
    {"linear_memory_state_by_v", kManyLinear, "changed-tensor", "other contents of k alone"},
    {"linear_memory_state_by_kv", kLinear, "changed-tensor", "other contents of mask alone"},
    {"linear_memory_state_by_kv", kManyLinear, "changed-tensor", "other contents of mask alone"},
    {"linear_memory_query_mask_by_q", kLinear, "changed-tensor", "contents of query_mask alone"},
    {"linear_memory_state_of_run_1", kLinear, "repetition changed-tensor", "run 2 of one plan"},
};

void expect_found(const Planted& planted, const Record& record) {
  for (const FillRecord& fill : record.fills)
    EXPECT_EQ(fill.judgement.outcome.verdict(), Verdict::kPass)
        << planted.name << " is found by " << fill.fill << ": " << fill.judgement.outcome.reason;
  EXPECT_EQ(broken(record), planted.relations)
      << planted.name << " on " << planted.spec << ": " << record.outcome.reason;
  EXPECT_THAT(record.outcome.reason, ContainsRegex(planted.reason)) << planted.name;
}

// With one set of inputs no fill but the first sees a workspace of other content.
TEST_F(State, EachIsFoundByOneCheckAlone) {
  for (const Planted& planted : kPlanted) {
    options_.fills = {"random"};
    const bool second = std::string(planted.reason).find("run 2") == 0;
    if (second || planted.name == std::string("state_by_address"))
      options_.fills = {"random", "codebook"};
    if (planted.name == std::string("state_maximum_in_workspace"))
      options_.fills = {"random", "codebook", "cancelling", "huge"};
    expect_found(planted, run(planted.name, planted.spec));
  }
  for (const Planted& planted : kMemories) {
    const bool linear = std::string(planted.spec).starts_with("linear");
    options_.fills = {"random", linear ? "cancelling" : "codebook"};
    expect_found(planted, run(planted.name, planted.spec, "tests/plugins/memories"));
  }
}

// Every one that changed-tensor alone finds has been planted in the table above.
TEST_F(State, EveryMemoryIsPlanted) {
  std::set<std::string> planted;
  for (const Planted& one : kMemories) planted.insert(one.name);
  const std::unique_ptr<Plugin> memories = plugin("tests/plugins/memories");
  for (const Implementation& one : memories->implementations())
    EXPECT_EQ(planted.count(one.name) == 1, one.name.find("_none") == std::string::npos)
        << one.name;
}

// As a user has it: defaults, judged only.
TEST_F(State, EachIsFoundByTheDefaults) {
  options_.all_checks = false;
  options_.relations = RelationChoice::kAuto;
  const std::pair<const char*, std::span<const Planted>> kPlugins[] = {
      {"tests/plugins/state", kPlanted}, {"tests/plugins/memories", kMemories}};
  for (const auto& [library, planted] : kPlugins)
    for (const Planted& one : planted) {
      Record record;
      record.outcome = {};
      for (int tries = 0; tries < 3 && !record.outcome.is_bad(); ++tries)
        record = run(one.name, one.spec, library);
      EXPECT_TRUE(record.outcome.is_bad()) << one.name;
    }
}

// Ten runs of 12 ms have time where timed runs have a budget that is not small.
TEST_F(State, SmallBudgetsShortenRepetition) {
  options_.all_checks = false;
  options_.relations = RelationChoice::kAuto;
  EXPECT_EQ(broken(run("state_slow_from_run_10", kTiny)), "repetition");
  options_.limits.budget_s = 0.02;
  EXPECT_EQ(broken(run("state_slow_from_run_10", kTiny)), "");
}

TEST_F(State, RightOnesPass) {
  for (const char* spec : {kPlain, kCausal, kMask, kGqa, kHalf, kLengths, kPacked, kPages, kOrder,
                           kChunk, kPatches, kGrid}) {
    const Record record = run("state_none", spec);
    EXPECT_EQ(record.outcome.verdict(), Verdict::kPass) << spec << ": " << record.outcome.reason;
    EXPECT_EQ(record.relations.back().relation, "plan-reuse") << spec;
    EXPECT_GT(record.relations.back().judgement.exact_elements, 0) << spec;
  }
}

// Of q, k and v only as many change as have room: the others are not said to be judged.
TEST_F(State, FewerTensorsChangeInLittleMemory) {
  options_.fills = {"random"};
  constexpr uint64_t kTensor_bytes = 16 * 64 * 64 * 4;
  const Record record =
      testing::run_named(*plugin("tests/plugins/state", 4 * kTensor_bytes * (4 + 2 * 2 + 1)),
                         "state_none", "softmax num_heads=16 seq_len_q=64 head_dim=64", options_);
  EXPECT_EQ(record.outcome.verdict(), Verdict::kPass) << record.outcome.reason;
  EXPECT_EQ(changes(record).size(), 2u);
}

// Each tensor has changed once: integers alone where they may, or with those that follow from them.
TEST_F(State, EveryTensorChanges) {
  const std::pair<const char*, const char*> kChanges[] = {
      {kPlain, "q; k; v"},
      {kTerms, "q; k; v; bias; mask; alibi_slopes; sinks"},
      {kLengths, "q; k; v; seq_lens_q; seq_lens_kv"},
      {kPackedMore, "q; k; v; cu_seqlens_q; cu_seqlens_kv"},
      {kPages, "q; k; v; page_table; seq_lens_kv, page_table"},
      {kSamePages, "q; k; v; seq_lens_kv, page_table"},
      {kOrder, "q; k; v; order"},
      {kRelative, "q; k; v; rel_bias"},
      {kLinear, "q; k; v; mask; query_mask"}};
  for (const auto& [spec, names] : kChanges) {
    const bool linear = std::string(spec).starts_with("linear");
    const Record record =
        run(linear ? "linear_memory_none" : "memory_none", spec, "tests/plugins/memories");
    EXPECT_EQ(record.outcome.verdict(), Verdict::kPass) << spec << ": " << record.outcome.reason;
    const std::set<std::string> made = changes(record);
    EXPECT_EQ(made, split(names)) << spec;
  }
}

// Two million numbers are too many for all changes, whatever the time is.
TEST_F(State, ChangedTensorsHaveLessTimeWhereTimedRunsHaveASmallBudget) {
  options_.relations = RelationChoice::kAuto;
  options_.fills = {"random"};
  for (const auto& [budget_s, limit] : {std::pair(0.25, "0.4 s"), std::pair(0.02, "0.15 s")}) {
    options_.limits.budget_s = budget_s;
    const Record record =
        run("naive", "softmax seq_len_q=2 seq_len_kv=32768 head_dim=32", "plugins/naive");
    const auto changed =
        std::ranges::find(record.relations, "changed-tensor", &RelationRecord::relation);
    ASSERT_NE(changed, record.relations.end()) << record.outcome.reason;
    EXPECT_THAT(changed->judgement.method,
                HasSubstr(std::string(" of 3 changes in up to ") + limit + ", by their goldens: "))
        << budget_s;
  }
}

// Its outputs are judged by their goldens alone.
TEST_F(State, WhoDeclaresToBeNondeterministicPasses) {
  const Record record = run("state_rounds_declared", kPlain);
  EXPECT_EQ(record.outcome.verdict(), Verdict::kPass) << record.outcome.reason;
  EXPECT_THAT(record.relations.back().judgement.method, HasSubstr("plans, 0 of them"));
}

TEST_F(State, WhoRefusesASecondPlanPasses) {
  const Record record = run("state_one_at_a_time", kPlain);
  EXPECT_EQ(record.outcome.verdict(), Verdict::kPass) << record.outcome.reason;
  const Judgement& judgement = record.relations.back().judgement;
  EXPECT_EQ(judgement.outcome.code, ReasonCode::kUnsupportedPlans);
  EXPECT_THAT(judgement.outcome.reason, HasSubstr("has one plan at a time"));
}

TEST_F(State, BuiltInImplementationsPass) {
  const struct {
    const char *library, *name, *spec;
  } kBuiltIn[] = {
      {"plugins/naive", "naive", kPlain},
      {"plugins/naive", "naive", kLengths},
      {"plugins/naive", "naive", kPages},
      {"plugins/naive", "naive", kOrder},
      {"plugins/naive", "naive", kPatches},
      {"plugins/naive", "naive", kGrid},
      {"plugins/naive", "naive", kHalf},
      {"plugins/flash_cpu", "flash_cpu", kGqa},
      {"plugins/flash_cpu", "flash_cpu", kMask},
      {"plugins/window_cpu", "window_cpu",
       "softmax num_heads=2 seq_len_q=64 head_dim=16 grid_height=8 grid_width=8 window_height=4 "
       "window_width=4"},
      {"plugins/linear_cpu", "linear_cpu", "linear num_heads=2 seq_len_q=61 head_dim=16"},
      {"plugins/deformable_cpu", "deformable_cpu",
       "deformable num_heads=2 seq_len_q=61 head_dim_v=24 num_points=4 level_height_0=9 "
       "level_width_0=14"},
      {"plugins/flash_backward_cpu", "flash_backward_cpu",
       "softmax_backward num_heads=2 seq_len_q=61 seq_len_kv=130 head_dim=16"},
  };
  for (const auto& [library, name, spec] : kBuiltIn) {
    const Record record = run(name, spec, library);
    EXPECT_EQ(record.outcome.verdict(), Verdict::kPass)
        << name << " on " << spec << ": " << record.outcome.reason;
    EXPECT_EQ(record.relations.back().relation, "plan-reuse") << name << " on " << spec;
  }
}

// Once for each implementation and variant of a plugin; all of them where relations are asked for.
TEST_F(State, PlansAreReusedOnceForAllCases) {
  options_.relations = RelationChoice::kAuto;
  const std::unique_ptr<Plugin> one = plugin("tests/plugins/state");
  const auto tried = [&](const char* spec) {
    const Record record = testing::run_named(*one, "state_none", spec, options_);
    return record.relations.back().relation == "plan-reuse";
  };
  EXPECT_TRUE(tried(kTiny));
  EXPECT_FALSE(tried(kTiny));
  options_.relations = RelationChoice::kAll;
  EXPECT_TRUE(tried(kTiny));
}

TEST(RepeatedRuns, AreAsManyAsTimeAllows) {
  constexpr double kSmall_ns = 20e6, kLarge_ns = 0.25e9;  // budgets
  EXPECT_EQ(repeated_runs(1e6, kLarge_ns, false), 64);
  EXPECT_EQ(repeated_runs(1.2e6, kLarge_ns, false), 10);
  EXPECT_EQ(repeated_runs(15e6, kLarge_ns, false), 10);
  EXPECT_EQ(repeated_runs(21e6, kLarge_ns, false), 3);
  EXPECT_EQ(repeated_runs(0.6e6, kSmall_ns, false), 64);
  EXPECT_EQ(repeated_runs(0.7e6, kSmall_ns, false), 10);
  EXPECT_EQ(repeated_runs(9e6, kSmall_ns, false), 10);
  EXPECT_EQ(repeated_runs(11e6, kSmall_ns, false), 3);
  for (const double budget_ns : {kSmall_ns, kLarge_ns}) {
    EXPECT_EQ(repeated_runs(0.9e9, budget_ns, false), 3);
    EXPECT_EQ(repeated_runs(1.1e9, budget_ns, false), 0);
    EXPECT_EQ(repeated_runs(1.1e9, budget_ns, true), 3);
  }
}

}  // namespace
}  // namespace attest::core
