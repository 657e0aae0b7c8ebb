// What `attest explain` says of the problems that have a fill is so, of one problem for each
// feature.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <map>
#include <set>
#include <string>

#include "core/operations/operation.hpp"
#include "core/operations/softmax/softmax.hpp"
#include "core/operations/softmax_backward/backward.hpp"
#include "core/problem/spec.hpp"
#include "reports/words/fill_words.hpp"

namespace attest::cli {
namespace {

using core::Problem;
using Has = std::function<bool(const Problem&)>;

bool is(const Problem& problem, std::string_view operation) {
  return problem.operation->name() == operation;
}
bool is_softmax(const Problem& problem) { return is(problem, "softmax"); }
bool is_gradients(const Problem& problem) { return is(problem, "softmax_backward"); }
const attest_softmax_params& params(const Problem& problem) {
  return problem.as<attest_softmax_params>();
}
bool in_8_bits(const Problem& problem) { return core::is_f8(problem.tensor[ATTEST_Q].dtype); }
bool has_top_k(const Problem& problem) { return params(problem).top_k > 0; }
bool has_slopes(const Problem& problem) { return problem.has(ATTEST_ALIBI_SLOPES); }
bool has_band(const Problem& problem) {
  return params(problem).window_left >= 0 || params(problem).window_right >= 0;
}
bool has_mask(const Problem& problem) {
  return problem.has(ATTEST_MASK) || problem.has(ATTEST_BLOCK_MASK);
}
bool has_closed_form(const Problem& problem) {
  return !in_8_bits(problem) &&
         core::has_closed_form(core::backward::forward_problem(problem), {"codebook"});
}
bool sees_every_key(const Problem& problem) {
  const attest_softmax_params& p = params(problem);
  return !in_8_bits(problem) && !has_top_k(problem) && !has_band(problem) && !has_mask(problem) &&
         !has_slopes(problem) && p.patch_size == 0 && p.grid_height == 0 &&
         !problem.has(ATTEST_BIAS) && !problem.has(ATTEST_REL_BIAS);
}
bool is_large(const Problem& problem) {
  return core::softmax_operation().flops(core::backward::forward_problem(problem)) > 1e10;
}
// Gradients, but not large ones that have codebook or repeated.
bool is_small_gradients(const Problem& problem) {
  return is_gradients(problem) && !(is_large(problem) && has_closed_form(problem));
}
bool plain_softmax(const Problem& problem) {
  return is_softmax(problem) && !has_top_k(problem) && !in_8_bits(problem);
}
bool chooses(const Problem& problem) {
  return (is_softmax(problem) && has_top_k(problem) && !in_8_bits(problem)) ||
         (is_gradients(problem) && has_top_k(problem));
}

// By FillWords::problems, without what follows "; only with --fill", which is no other problem.
std::map<std::string, Has> rules() {
  const Has in_deformable = [](const Problem& p) { return is(p, "deformable"); },
            in_linear = [](const Problem& p) { return is(p, "linear"); };
  return {
      {"all but large gradients that have codebook or repeated; a case that takes tokens has the "
       "fill tokens in its place",
       [](const Problem& p) { return !is_gradients(p) || is_small_gradients(p); }},
      {"the cases of suites that take tokens, in place of random",
       [](const Problem&) { return false; }},
      {"softmax attention, but not with top_k or in 8 bits; gradients whose rows have a closed "
       "form, but not in 8 bits",
       [](const Problem& p) {
         return plain_softmax(p) || (is_gradients(p) && has_closed_form(p));
       }},
      {"softmax attention, but not with top_k or in 8 bits", plain_softmax},
      {"softmax attention, but not with top_k or in 8 bits; rising_2 and so on where rows are few, "
       "or where a bias, slopes or rel_bias meet a softcap below 46",
       plain_softmax},
      {"softmax attention with q, k and v in f16, but not with top_k",
       [](const Problem& p) { return plain_softmax(p) && p.tensor[ATTEST_Q].dtype == ATTEST_F16; }},
      {"softmax attention without top_k, linear attention without a query mask, deformable "
       "attention, gradients without top_k, but not large ones that have codebook or repeated; "
       "wild_2 and so on where queries are few",
       [](const Problem& p) {
         if (is(p, "linear")) return !p.has(ATTEST_QUERY_MASK);
         return is(p, "deformable") || (!has_top_k(p) && (is_softmax(p) || is_small_gradients(p)));
       }},
      {"softmax attention, but not with ALiBi, REL_BIAS, shift_bias, top_k or in 8 bits; linear "
       "attention, deformable attention with 3 points or more, gradients, but not large ones that "
       "have codebook or repeated",
       [](const Problem& p) {
         if (is(p, "deformable")) return p.as<attest_deformable_params>().num_points >= 3;
         return is(p, "linear") || is_small_gradients(p) ||
                (plain_softmax(p) && !has_slopes(p) && !p.has(ATTEST_REL_BIAS) &&
                 params(p).shift_bias == 0);
       }},
      {"linear attention", in_linear},
      {"deformable attention", in_deformable},
      {"gradients, but not large ones that have codebook or repeated", is_small_gradients},
      {"gradients in which every query sees every key: without a band, patches, a grid, a mask, "
       "biases, slopes, top_k and 8 bits; where the golden judges every row of other inputs",
       [](const Problem& p) { return is_gradients(p) && sees_every_key(p); }},
      {"gradients with a band, a mask, a bias or lengths of sequences, but not large ones that "
       "have codebook or repeated",
       [](const Problem& p) {
         return is_small_gradients(p) &&
                (has_band(p) || has_mask(p) || p.has(ATTEST_BIAS) || p.has(ATTEST_SEQ_LENS_Q) ||
                 p.has(ATTEST_SEQ_LENS_KV) || p.has(ATTEST_CU_SEQLENS_Q) ||
                 p.has(ATTEST_CU_SEQLENS_KV));
       }},
      {"softmax attention and gradients with q, k and v in 8 bits",
       [](const Problem& p) { return (is_softmax(p) || is_gradients(p)) && in_8_bits(p); }},
      {"softmax attention with top_k, but not in 8 bits; gradients with top_k", chooses},
      {"softmax attention with top_k, but not in 8 bits, and gradients with top_k, but neither "
       "with ALiBi, shift_bias or a softcap",
       [](const Problem& p) {
         return chooses(p) && !has_slopes(p) && params(p).shift_bias == 0 && params(p).softcap == 0;
       }},
  };
}

std::string without_request(std::string_view words) {
  const size_t asked =
      std::min({words.find("; only with --fill"), words.find(", only with --fill"), words.size()});
  return std::string(words.substr(0, asked));
}

constexpr const char* kFeatures[] = {
    "",
    " dtype=f16",
    " dtype=bf16 mask",
    " bias",
    " alibi_slopes",
    " sinks",
    " softcap=2",
    " causal=top_left",
    " window_left=5",
    " block_mask block_q=16 block_kv=8",
    " batch=3 seq_lens_q seq_lens_kv",
    " batch=3 cu_seqlens_q cu_seqlens_kv",
    " causal=top_left global_tokens=3",
    " patch_size=16",
    " top_k=7",
    " top_k=7 softcap=2",
    " top_k=7 alibi_slopes",
    " q=f8e4m3 k=f8e4m3 v=f8e4m3",
    " top_k=7 q=f8e4m3 k=f8e4m3 v=f8e4m3",
};

std::vector<std::string> specs() {
  std::vector<std::string> made;
  for (const std::string operation : {"softmax", "softmax_backward"}) {
    for (const std::string feature : kFeatures)
      made.push_back(operation + " seq_len_q=64 head_dim=16" + feature);
    const std::string grid = operation + " seq_len_q=48 head_dim=16 grid_height=6 grid_width=8" +
                             " window_height=3 window_width=4";
    made.push_back(grid + " rel_bias");
    made.push_back(grid + " shift_y=1 shift_x=2 shift_bias=-100");
  }
  // The forward pass of these is above 1e10 operations.
  for (const char* feature :
       {"", " causal=top_left", " causal=top_left global_tokens=3",
        " dtype=f16 q=f8e4m3 k=f8e4m3 v=f8e4m3", " batch=2 seq_lens_q", " mask"})
    made.push_back(std::string("softmax_backward num_heads=8 seq_len_q=8192 head_dim=16") +
                   feature);
  made.emplace_back("linear seq_len_q=37 head_dim=16");
  made.emplace_back("linear seq_len_q=37 head_dim=16 query_mask");
  for (const char* points : {"2", "3"})
    made.push_back(std::string("deformable seq_len_q=37 head_dim_v=16 level_height_0=5 "
                               "level_width_0=7 num_points=") +
                   points);
  return made;
}

TEST(FillWords, SayWhichProblemsHaveAFill) {
  const std::map<std::string, Has> has = rules();
  std::set<std::string> met;
  for (const std::string& spec : specs()) {
    const Problem problem = core::parse_problem(spec);
    const std::vector<std::string> known = core::known_fills(problem, false);
    for (const reports::FillWords& words : reports::all_fill_words()) {
      const auto rule = has.find(without_request(words.problems));
      ASSERT_NE(rule, has.end()) << "no rule for '" << words.problems << "'";
      const bool is_known = std::ranges::find(known, words.fill) != known.end();
      EXPECT_EQ(is_known, rule->second(problem)) << words.fill << " of " << spec;
      if (is_known) met.insert(rule->first);
    }
  }
  EXPECT_EQ(met.size(), has.size() - 1) << "all rules but that of tokens are met";
}

/// A problem, and whether it has further rounds of two fills.
struct Rounds {
  const char* spec;
  bool rising, wild;
};

// "rising_2 and so on where rows are few, or where a bias, slopes or rel_bias meet a softcap below
// 46", and "wild_2 and so on where queries are few". 8 x 512 rows are many.
constexpr Rounds kRounds[] = {
    {" num_heads=8 seq_len_q=512", false, false},
    {" num_heads=1 seq_len_q=20", true, false},
    {" num_heads=4 seq_len_q=3 seq_len_kv=2048", true, true},
    {" num_heads=8 seq_len_q=512 softcap=2", false, false},
    {" num_heads=8 seq_len_q=512 bias=[1,1,512,512]", false, false},
    {" num_heads=8 seq_len_q=512 bias=[1,1,512,512] softcap=45", true, false},
    {" num_heads=8 seq_len_q=512 bias=[1,1,512,512] softcap=46", false, false},
    {" num_heads=8 seq_len_q=512 alibi_slopes", false, false},
    {" num_heads=8 seq_len_q=512 alibi_slopes softcap=45", true, false},
    {" num_heads=8 seq_len_q=512 alibi_slopes softcap=46", false, false},
    {" num_heads=8 seq_len_q=768 grid_height=24 grid_width=32 window_height=12 window_width=16"
     " rel_bias",
     false, false},
    {" num_heads=8 seq_len_q=768 grid_height=24 grid_width=32 window_height=12 window_width=16"
     " rel_bias softcap=45",
     true, false},
    {" num_heads=8 seq_len_q=768 grid_height=24 grid_width=32 window_height=12 window_width=16"
     " rel_bias softcap=46",
     false, false},
};

TEST(FillWords, SayWhichProblemsHaveFurtherRounds) {
  for (const auto& [spec, rising, wild] : kRounds) {
    const std::vector<std::string> known =
        core::known_fills(core::parse_problem("softmax head_dim=16" + std::string(spec)), false);
    const auto has = [&](const char* fill) { return std::ranges::count(known, fill) > 0; };
    EXPECT_EQ(has("rising_2"), rising) << spec;
    EXPECT_EQ(has("wild_2"), wild) << spec;
  }
}

}  // namespace
}  // namespace attest::cli
