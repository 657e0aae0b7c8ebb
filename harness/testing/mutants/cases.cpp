#include "testing/mutants/cases.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "core/tensor/error.hpp"

namespace attest::testing {
namespace {

// From 16k tokens on a bug is tried with so many queries.
int64_t queries(int64_t tokens) { return tokens > 16000 ? 515 : tokens; }
// Less than there are keys, so that top left and bottom right differ.
int64_t fewer_queries(int64_t tokens) { return tokens > 4000 ? 515 : tokens - tokens / 4; }
// A mask of every pair is large.
int64_t pair_rows(int64_t tokens) { return tokens > 4000 ? 515 : tokens; }

std::string plain(int64_t n) {
  return fmt::format("softmax num_heads=2 seq_len_q={} seq_len_kv={} head_dim=64 lse", queries(n),
                     n);
}
std::string causal(int64_t n) {
  return fmt::format(
      "softmax num_heads=2 seq_len_q={} seq_len_kv={} head_dim=64 window_right=0 diagonal=1 lse",
      fewer_queries(n), n);
}
std::string window(int64_t n) {
  return fmt::format(
      "softmax num_heads=2 seq_len_q={} seq_len_kv={} head_dim=40 window_left={} window_right=3",
      queries(n), n, n / 8);
}
// Fewer keys than a tile has.
std::string narrow(int64_t n) {
  return fmt::format(
      "softmax num_heads=2 seq_len_q={} seq_len_kv={} head_dim=32 window_left=6 window_right=3 lse",
      queries(n), n);
}
// A key head for each end of a row, and one more.
std::string softcap(int64_t n) {
  return fmt::format("softmax num_heads=3 seq_len_q={} seq_len_kv={} head_dim=32 softcap=30 lse",
                     queries(n), n);
}
std::string empty_rows(int64_t n) {
  return fmt::format(
      "softmax num_heads=2 seq_len_q={} seq_len_kv={} head_dim=32 window_right=0 "
      "diagonal_offset=-9 lse",
      queries(n), n);
}
std::string gqa(int64_t n) {
  return fmt::format(
      "softmax batch=2 num_heads=4 num_kv_heads=2 seq_len_q={} seq_len_kv={} head_dim=24 "
      "head_dim_v=40",
      queries(n), n);
}
std::string bias(int64_t n) {
  return fmt::format("softmax num_heads=2 seq_len_q={} head_dim=32 softcap=2.5 bias=[1,2,{},{}]", n,
                     n, n);
}
std::string mask(int64_t n) {
  return fmt::format("softmax batch=2 num_heads=2 seq_len_q={} head_dim=32 mask=[2,1,{},{}]", n, n,
                     n);
}
// Masks and biases of each pair, in which runs of keys are hidden.
std::string pair_mask(int64_t n) {
  return fmt::format(
      "softmax num_heads=2 seq_len_q={} seq_len_kv={} head_dim=32 mask=[1,1,{},{}] lse",
      pair_rows(n), n, pair_rows(n), n);
}
std::string pair_bias(int64_t n) {
  return fmt::format(
      "softmax num_heads=2 seq_len_q={} seq_len_kv={} head_dim=32 bias=[1,1,{},{}] lse",
      pair_rows(n), n, pair_rows(n), n);
}
// TransFusion's decoder in Autoware: 500 queries over a BEV grid, whose weights may be nearly
// equal.
std::string cross(int64_t n) {
  return fmt::format("softmax num_heads=8 seq_len_q={} seq_len_kv={} head_dim=16",
                     std::min<int64_t>(n, 500), n);
}
// One head of it, for tests: sums as long in an eighth of the time.
std::string cross_head(int64_t n) {
  return fmt::format("softmax seq_len_q={} seq_len_kv={} head_dim=16", std::min<int64_t>(n, 500),
                     n);
}
std::string alibi(int64_t n) {
  return fmt::format(
      "softmax num_heads=2 seq_len_q={} seq_len_kv={} head_dim=32 window_right=0 diagonal=1 "
      "alibi_slopes",
      fewer_queries(n), n);
}
std::string sinks(int64_t n) {
  return fmt::format(
      "softmax num_heads=2 seq_len_q={} seq_len_kv={} head_dim=32 window_right=0 diagonal=1 lse "
      "sinks",
      fewer_queries(n), n);
}
std::string capped_sinks(int64_t n) { return sinks(n) + " softcap=20"; }
std::string varlen(int64_t n) {
  return fmt::format(
      "softmax batch=4 num_heads=2 seq_len_q={} seq_len_kv={} head_dim=32 window_right=0 "
      "diagonal=1 cu_seqlens_q cu_seqlens_kv "
      "lse",
      fewer_queries(n), n);
}
std::string seq_lens(int64_t n) {
  return fmt::format(
      "softmax batch=3 num_heads=2 seq_len_q={} seq_len_kv={} head_dim=32 seq_lens_q seq_lens_kv "
      "lse",
      queries(n), n);
}
std::string pages(int64_t n) {
  return fmt::format(
      "softmax batch=2 num_heads=2 seq_len_q=5 seq_len_kv={} head_dim=32 page_size=16 page_table "
      "seq_lens_kv",
      n);
}
std::string patches(int64_t n) {
  return fmt::format("softmax num_heads=2 seq_len_q={} head_dim=32 patch_size={} order", n,
                     n > 1000 ? 1024 : 32);
}
std::string grid(int64_t n) {
  const int64_t windows = n < 100 ? 2 : n < 1000 ? 4 : n < 4000 ? 9 : 18;  // along each side
  return fmt::format(
      "softmax num_heads=2 seq_len_q={} head_dim=16 grid_height={} grid_width={} window_height=3 "
      "window_width=4 shift_y=1 "
      "shift_x=1 "
      "shift_bias=-100 rel_bias",
      windows * windows * 12, windows * 3, windows * 4);
}
std::string many_heads(int64_t) {
  return "softmax batch=32771 num_heads=2 seq_len_q=1 seq_len_kv=5 head_dim=16";
}
// A quarter of the packed rows, and nearly half of the pages, lie beyond what 16 bits count.
std::string many_packed_queries(int64_t) {
  return "softmax batch=5 num_heads=1 seq_len_q=30000 seq_len_kv=3 head_dim=16 cu_seqlens_q "
         "cu_seqlens_kv";
}
std::string many_packed_keys(int64_t) {
  return "softmax batch=5 num_heads=1 seq_len_q=3 seq_len_kv=30000 head_dim=16 cu_seqlens_q "
         "cu_seqlens_kv";
}
std::string many_pages(int64_t) {
  return "softmax batch=3 num_heads=2 num_kv_heads=1 seq_len_q=5 seq_len_kv=61 head_dim=16 "
         "page_size=2 page_table seq_lens_kv k=[120000,1,2,16] v=[120000,1,2,16]";
}
// The second sequence's keys lie 2^31 elements behind the first one's.
std::string far_keys(int64_t) {
  return "softmax batch=2 num_heads=2 seq_len_q=61 head_dim=16 k.strides=[2147483648,1024,16,1] "
         "v.strides=[2147483648,1024,16,1]";
}
std::string many_queries(int64_t) {
  return "softmax num_heads=1 seq_len_q=131107 seq_len_kv=61 head_dim=16";
}
std::string linear(int64_t n) {
  return fmt::format(
      "linear batch=2 num_heads=4 num_kv_heads=2 seq_len_q={} seq_len_kv={} head_dim=24 "
      "head_dim_v=40",
      queries(n), n);
}
std::string linear_masked(int64_t n) {
  return fmt::format(
      "linear batch=2 num_heads=2 seq_len_q={} seq_len_kv={} head_dim=16 eps=0.001 mask query_mask",
      queries(n), n);
}

// The side of a square of at least n pixels, of 40,000 where n is larger.
int64_t side_of(int64_t n) {
  int64_t side = 4;
  while (side * side < std::min<int64_t>(n, 40000)) ++side;
  return side;
}
// Two levels whose sides follow the number of queries.
std::string deformable(int64_t n) {
  const int64_t side = side_of(n);
  return fmt::format(
      "deformable batch=2 num_heads=2 seq_len_q={} head_dim_v=24 num_points=4 level_height_0={} "
      "level_width_0={} level_height_1={} level_width_1={}",
      queries(n), side, side + 5, side / 2, side / 3);
}
// Three levels, of which the second one is smaller than a row of the others.
std::string deformable_levels(int64_t n) {
  const int64_t side = side_of(n);
  return fmt::format(
      "deformable num_heads=2 seq_len_q={} head_dim_v=24 num_points=4 level_height_0={} "
      "level_width_0={} level_height_1=3 level_width_1=5 level_height_2={} level_width_2={}",
      queries(n), side, side + 5, side / 2, side / 2 + 5);
}
std::string deformable_aligned(int64_t n) {
  const int64_t side = side_of(n);
  return fmt::format(
      "deformable num_heads=2 seq_len_q={} head_dim_v=40 num_points=3 level_height_0={} "
      "level_width_0={} level_height_1={} level_width_1=1 align_corners=1",
      queries(n), side + 2, side, side / 2);
}

}  // namespace

const std::vector<Family>& families() {
  constexpr int64_t kAny = 262147, kPairs = 1021, kFeature = 4099, kPairRows = 16411,
                    kLarge = 65551;
  static const std::vector<Family> all = {
      {"plain", kAny, plain},
      {"causal", kAny, causal},
      {"window", kLarge, window},
      {"narrow", kFeature, narrow},
      {"softcap", kPairs, softcap},
      {"empty_rows", kFeature, empty_rows},
      {"gqa", kFeature, gqa},
      {"bias", kPairs, bias},
      {"mask", kPairs, mask},
      {"pair_mask", kLarge, pair_mask},
      {"pair_bias", kPairRows, pair_bias},
      {"cross", kAny, cross},
      {"cross_head", kAny, cross_head},
      {"alibi", kLarge, alibi},
      {"sinks", kFeature, sinks},
      {"capped_sinks", kFeature, capped_sinks},
      {"varlen", kFeature, varlen},
      {"seq_lens", kFeature, seq_lens},
      {"pages", kLarge, pages},
      {"patches", kFeature, patches},
      {"grid", kFeature, grid},
      {"many_heads", 61, many_heads},
      {"many_queries", 61, many_queries},
      {"many_packed_queries", 61, many_packed_queries},
      {"many_packed_keys", 61, many_packed_keys},
      {"many_pages", 61, many_pages},
      {"far_keys", 61, far_keys},
      {"linear", kAny, linear},
      {"linear_masked", kLarge, linear_masked},
      {"deformable", kLarge, deformable},
      {"deformable_aligned", kLarge, deformable_aligned},
      {"deformable_levels", kPairs, deformable_levels},
  };
  return all;
}

const Family& family(const std::string& name) {
  for (const Family& one : families())
    if (one.name == name) return one;
  throw core::Error(fmt::format("no family of cases '{}'", name));
}

MutantCase make_case(const Family& family, int64_t tokens, const std::string& dtype) {
  const std::string spec = family.spec(tokens);
  const size_t word = spec.find(' ');
  return {&family, tokens, dtype,
          fmt::format("{} dtype={}{}", spec.substr(0, word), dtype, spec.substr(word))};
}

}  // namespace attest::testing
