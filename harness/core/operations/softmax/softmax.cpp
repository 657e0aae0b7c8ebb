#include "core/operations/softmax/softmax.hpp"

#include <algorithm>
#include <cmath>

#include "core/operations/relation.hpp"
#include "core/operations/softmax/closed_form/codebook.hpp"
#include "core/operations/softmax/fills/f8.hpp"
#include "core/operations/softmax/fills/finite_biases.hpp"
#include "core/operations/softmax/fills/subnormal.hpp"
#include "core/operations/softmax/fills/top_k.hpp"
#include "core/operations/softmax/fills/wide.hpp"
#include "core/operations/softmax/problem/dequantised.hpp"
#include "core/operations/softmax/problem/geometry.hpp"
#include "core/tensor/error.hpp"
#include "core/tensor/random.hpp"

namespace attest::core {
namespace {

using Params = attest_softmax_params;
#define FIELD(name, neutral, help) ATTEST_FIELD(Params, name, neutral, help)
constexpr Field kFields[] = {
    FIELD(batch, 1, "sequences"),
    FIELD(num_heads, 1, "query heads"),
    FIELD(num_kv_heads, -1, "key and value heads; they divide num_heads; -1: num_heads"),
    FIELD(seq_len_q, 0, "queries of the longest sequence"),
    FIELD(seq_len_kv, -1, "keys of the longest sequence; -1: seq_len_q"),
    FIELD(head_dim, 0, "channels of Q and K"),
    FIELD(head_dim_v, -1, "channels of V and O; -1: head_dim"),
    FIELD(softmax_scale, 0, "factor of q.k; 0: 1 / sqrt(head_dim)"),
    FIELD(softcap, 0, "c > 0: scores become c tanh(s / c)"),
    FIELD(window_left, -1, "keys seen before the diagonal; -1: all"),
    FIELD(window_right, -1, "keys seen after the diagonal; 0: causal; -1: all"),
    FIELD(diagonal, 0, "0: it starts at the top left; 1: it ends at the bottom right"),
    FIELD(diagonal_offset, 0, "keys by which the diagonal is moved to the right"),
    FIELD(page_size, 0, "keys in a page; 0: no pages"),
    FIELD(patch_size, 0, "positions in a patch, which see one another; 0: no patches"),
    FIELD(grid_height, 0, "rows of a grid of tokens; 0: no grid"),
    FIELD(grid_width, 0, "columns of the grid"),
    FIELD(window_height, 0, "rows of a grid window"),
    FIELD(window_width, 0, "columns of a grid window"),
    FIELD(shift_y, 0, "rows by which the grid is rolled up before it is cut into windows"),
    FIELD(shift_x, 0, "columns by which it is rolled left"),
    FIELD(shift_bias, 0, "added between tokens that rolling brought together; Swin: -100"),
    FIELD(block_q, 0, "queries in a block of block_mask; 0: no block mask"),
    FIELD(block_kv, 0, "keys in a block of block_mask; 0: no block mask"),
    FIELD(global_tokens, 0, "first positions that the band leaves out: they see all, all see them"),
    FIELD(top_k, 0, "keys of a row that count, those of the largest logits; 0: all"),
    FIELD(top_k_ties, 0, "of equal logits at that edge count 0: the first keys; 1: all"),
    FIELD(descale_block_q, 0, "queries that share a factor of q_descale; 0: a whole sequence"),
    FIELD(descale_block_kv, 0, "keys that share a factor of k_descale and of v_descale; 0: all"),
};
#undef FIELD

using Content = Role::Content;
constexpr Role kRoles[] = {
    {ATTEST_Q, "q", ATTEST_READ, true, ATTEST_NONE, Content::kQueries},
    {ATTEST_K, "k", ATTEST_READ, true, ATTEST_NONE, Content::kKeys},
    {ATTEST_V, "v", ATTEST_READ, true, ATTEST_NONE, Content::kCentredKeys},
    {ATTEST_O, "o", ATTEST_WRITE, true, ATTEST_NONE},
    {ATTEST_LSE, "lse", ATTEST_WRITE, false, ATTEST_F32},
    {ATTEST_BIAS, "bias", ATTEST_READ, false, ATTEST_NONE},
    {ATTEST_MASK, "mask", ATTEST_READ, false, ATTEST_BOOL},
    {ATTEST_CU_SEQLENS_Q, "cu_seqlens_q", ATTEST_READ, false, ATTEST_I32},
    {ATTEST_CU_SEQLENS_KV, "cu_seqlens_kv", ATTEST_READ, false, ATTEST_I32},
    {ATTEST_SEQ_LENS_Q, "seq_lens_q", ATTEST_READ, false, ATTEST_I32},
    {ATTEST_SEQ_LENS_KV, "seq_lens_kv", ATTEST_READ, false, ATTEST_I32},
    {ATTEST_PAGE_TABLE, "page_table", ATTEST_READ, false, ATTEST_I32},
    {ATTEST_ORDER, "order", ATTEST_READ, false, ATTEST_I32, Content::kOrder},
    {ATTEST_REL_BIAS, "rel_bias", ATTEST_READ, false, ATTEST_NONE},
    {ATTEST_ALIBI_SLOPES, "alibi_slopes", ATTEST_READ, false, ATTEST_F32},
    {ATTEST_SINKS, "sinks", ATTEST_READ, false, ATTEST_F32},
    {ATTEST_BLOCK_MASK, "block_mask", ATTEST_READ, false, ATTEST_BOOL},
    {ATTEST_Q_DESCALE, "q_descale", ATTEST_READ, false, ATTEST_F32},
    {ATTEST_K_DESCALE, "k_descale", ATTEST_READ, false, ATTEST_F32},
    {ATTEST_V_DESCALE, "v_descale", ATTEST_READ, false, ATTEST_F32},
};

// No bug is known that these alone find: they judge whoever asks for them.
constexpr std::string_view kOnRequest[] = {"edges", "equal", "flat", "tiny"};

bool is_codebook(const Fill& fill) { return Codebook::knows(fill.name); }

// Packed tokens: as the first given spec says, its dim 2.
int64_t packed_tokens(const Problem& problem, std::initializer_list<int32_t> roles,
                      int64_t seq_len) {
  for (const int32_t role : roles) {
    const TensorSpec& spec = problem.tensor[size_t(role)];
    if (present(spec) && spec.rank >= 3) return spec.dim[2];
  }
  return seq_len + (problem.as<Params>().batch - 1) * seq_len / 2;
}
int64_t tokens_q(const Problem& problem) {
  return packed_tokens(problem, {ATTEST_Q, ATTEST_O, ATTEST_LSE}, problem.as<Params>().seq_len_q);
}
int64_t tokens_kv(const Problem& problem) {
  return packed_tokens(problem, {ATTEST_K, ATTEST_V}, problem.as<Params>().seq_len_kv);
}

std::vector<int64_t> query_dims(const Problem& problem) {
  const Params& p = problem.as<Params>();
  if (problem.has(ATTEST_CU_SEQLENS_Q)) return {1, p.num_heads, tokens_q(problem)};
  return {p.batch, p.num_heads, p.seq_len_q};
}

int64_t page_entries(const Params& p) { return (p.seq_len_kv + p.page_size - 1) / p.page_size; }

std::vector<int64_t> key_dims(const Problem& problem) {
  const Params& p = problem.as<Params>();
  if (p.page_size > 0) {
    int64_t pages = p.batch * page_entries(p);
    for (const int32_t role : {ATTEST_V, ATTEST_K})
      if (problem.has(role)) pages = problem.tensor[size_t(role)].dim[0];
    return {pages, p.num_kv_heads, p.page_size};
  }
  if (problem.has(ATTEST_CU_SEQLENS_KV)) return {1, p.num_kv_heads, tokens_kv(problem)};
  return {p.batch, p.num_kv_heads, p.seq_len_kv};
}

int64_t factor_blocks(int64_t tokens, int64_t block) {
  return block > 0 ? (tokens + block - 1) / block : 1;
}

// Throws Error if the blocks have no size.
std::vector<int64_t> block_mask_dims(const Params& p) {
  if (p.block_q <= 0 || p.block_kv <= 0)
    throw Error(
        "block_mask: needs block_q and block_kv, the positions in a block, e.g. block_q=64 "
        "block_kv=64");
  return {p.batch, p.num_heads, (p.seq_len_q + p.block_q - 1) / p.block_q,
          (p.seq_len_kv + p.block_kv - 1) / p.block_kv};
}

std::vector<int64_t> with(std::vector<int64_t> dims, int64_t last) {
  dims.push_back(last);
  return dims;
}

}  // namespace

const Operation& softmax_operation() {
  static const SoftmaxOperation operation;
  return operation;
}

std::span<const Field> SoftmaxOperation::fields() const { return kFields; }
std::span<const Role> SoftmaxOperation::roles() const { return kRoles; }

void SoftmaxOperation::complete(Problem& problem) const {
  Params& p = problem.as<Params>();
  if (p.num_kv_heads == -1) p.num_kv_heads = p.num_heads;
  if (p.seq_len_kv == -1) p.seq_len_kv = p.seq_len_q;
  if (p.head_dim_v == -1) p.head_dim_v = p.head_dim;
  if (p.softmax_scale == 0 && p.head_dim > 0)
    p.softmax_scale = float(1 / std::sqrt(double(p.head_dim)));
}

std::vector<int64_t> SoftmaxOperation::dims(const Problem& problem, int32_t role) const {
  const Params& p = problem.as<Params>();
  switch (role) {
    case ATTEST_Q: return with(query_dims(problem), p.head_dim);
    case ATTEST_O: return with(query_dims(problem), p.head_dim_v);
    case ATTEST_LSE: return query_dims(problem);
    case ATTEST_K: return with(key_dims(problem), p.head_dim);
    case ATTEST_V: return with(key_dims(problem), p.head_dim_v);
    case ATTEST_BIAS:
    case ATTEST_MASK: return {p.batch, p.num_heads, p.seq_len_q, p.seq_len_kv};
    case ATTEST_CU_SEQLENS_Q:
    case ATTEST_CU_SEQLENS_KV: return {p.batch + 1};
    case ATTEST_SEQ_LENS_Q:
    case ATTEST_SEQ_LENS_KV: return {p.batch};
    case ATTEST_PAGE_TABLE:
      if (p.page_size <= 0)
        throw Error("page_table: needs page_size, the keys of a page, e.g. page_size=16");
      return {p.batch, page_entries(p)};
    case ATTEST_ORDER:
      if (problem.has(ATTEST_CU_SEQLENS_Q)) return {1, tokens_q(problem)};
      return {p.batch, p.seq_len_q};
    case ATTEST_REL_BIAS:
      if (p.window_height <= 0 || p.window_width <= 0)
        throw Error(
            "rel_bias: needs grid windows: grid_height, grid_width, window_height, window_width");
      return {p.num_heads, 2 * p.window_height - 1, 2 * p.window_width - 1};
    case ATTEST_ALIBI_SLOPES: return {p.batch, p.num_heads};
    case ATTEST_SINKS: return {p.num_heads};
    case ATTEST_BLOCK_MASK: return block_mask_dims(p);
    case ATTEST_Q_DESCALE:
      return {p.batch, p.num_heads, factor_blocks(p.seq_len_q, p.descale_block_q)};
    case ATTEST_K_DESCALE:
    case ATTEST_V_DESCALE:
      if (p.page_size > 0) return {1, p.num_kv_heads, 1};  // a page belongs to no sequence
      return {p.batch, p.num_kv_heads, factor_blocks(p.seq_len_kv, p.descale_block_kv)};
    default: return {};
  }
}

bool SoftmaxOperation::may_broadcast(int32_t role, int axis) const {
  return role == ATTEST_BIAS || role == ATTEST_MASK || (role == ATTEST_BLOCK_MASK && axis < 2) ||
         role == ATTEST_Q_DESCALE || role == ATTEST_K_DESCALE || role == ATTEST_V_DESCALE ||
         ((role == ATTEST_ORDER || role == ATTEST_ALIBI_SLOPES) && axis == 0);
}

uint64_t SoftmaxOperation::features(const Problem& problem) const {
  const Params& p = problem.as<Params>();
  uint64_t bits = 0;
  auto add = [&bits](bool condition, uint64_t bit) { bits |= condition ? bit : 0; };
  add(p.num_kv_heads < p.num_heads, ATTEST_WITH_GQA);
  add(p.head_dim_v != p.head_dim, ATTEST_WITH_HEAD_DIM_V);
  add(p.window_right == 0, ATTEST_WITH_CAUSAL);
  add(p.window_left >= 0 || p.window_right > 0, ATTEST_WITH_WINDOW);
  add(p.diagonal != 0 || p.diagonal_offset != 0, ATTEST_WITH_DIAGONAL);
  add(p.softcap > 0, ATTEST_WITH_SOFTCAP);
  add(problem.has(ATTEST_BIAS), ATTEST_WITH_BIAS);
  add(problem.has(ATTEST_MASK), ATTEST_WITH_MASK);
  add(problem.has(ATTEST_LSE), ATTEST_WITH_LSE);
  add(problem.has(ATTEST_CU_SEQLENS_Q) || problem.has(ATTEST_CU_SEQLENS_KV), ATTEST_WITH_VARLEN);
  add(problem.has(ATTEST_SEQ_LENS_Q) || problem.has(ATTEST_SEQ_LENS_KV), ATTEST_WITH_SEQ_LENS);
  add(p.page_size > 0, ATTEST_WITH_PAGES);
  add(problem.has(ATTEST_ORDER), ATTEST_WITH_ORDER);
  add(p.patch_size > 0, ATTEST_WITH_PATCHES);
  add(p.grid_height > 0, ATTEST_WITH_GRID);
  add(problem.has(ATTEST_REL_BIAS), ATTEST_WITH_REL_BIAS);
  add(problem.has(ATTEST_ALIBI_SLOPES), ATTEST_WITH_ALIBI);
  add(problem.has(ATTEST_SINKS), ATTEST_WITH_SINKS);
  add(problem.has(ATTEST_BLOCK_MASK), ATTEST_WITH_BLOCK_MASK);
  add(p.global_tokens > 0, ATTEST_WITH_GLOBAL);
  add(p.top_k > 0, ATTEST_WITH_TOP_K);
  add(has_factors(problem), ATTEST_WITH_DESCALE);
  return bits;
}

double SoftmaxOperation::flops(const Problem& problem) const {
  const Params& p = problem.as<Params>();
  const std::vector<int64_t> length_q = sequence_lengths(problem, false),
                             length_kv = sequence_lengths(problem, true);
  double pairs = 0, weighed = 0;
  for (size_t b = 0; b < length_q.size(); ++b) {
    // Most batches repeat one pair of lengths, which is counted once.
    if (b > 0 && length_q[b] == length_q[0] && length_kv[b] == length_kv[0]) continue;
    double same = 1;
    for (size_t other = 1; b == 0 && other < length_q.size(); ++other)
      same += length_q[other] == length_q[0] && length_kv[other] == length_kv[0];
    const double seen = visible_pairs(p, length_q[b], length_kv[b]);
    // An upper bound where some rows see fewer keys than top_k and others more.
    pairs += same * seen;
    weighed += same * (p.top_k > 0 ? std::min(seen, double(length_q[b] * p.top_k)) : seen);
  }
  return double(p.num_heads) * 2 * (pairs * double(p.head_dim) + weighed * double(p.head_dim_v));
}

namespace {

// A fill that begins as "random" does, but with other numbers.
Fill with_stream(const Fill& fill, uint64_t stream) {
  return {fill.name, random_bits(fill.seed, stream), fill.other_lengths};
}

bool on_request(const std::string& name) {
  return std::ranges::find(kOnRequest, name) != std::end(kOnRequest);
}

}  // namespace

std::vector<std::string> SoftmaxOperation::fills(const Problem& problem) const {
  std::vector<std::string> names{"random"};
  if (has_f8(problem)) {
    names.emplace_back(kF8BandsName);
    if (problem.as<Params>().top_k == 0) names.emplace_back("wild");
    return names;
  }
  if (problem.as<Params>().top_k > 0) {
    for (std::string& name : top_k_fills(problem)) names.push_back(std::move(name));
    return names;
  }
  for (std::string& name : codebook_fills(problem))
    if (!on_request(name)) names.push_back(std::move(name));
  names.emplace_back(kWideName);
  if (is_in_f16(problem)) names.emplace_back(kSubnormalName);
  names.emplace_back("wild");
  const int64_t wild = wild_rounds(problem), rounds = rising_rounds(problem);
  for (int64_t round = 1; round < wild; ++round)
    names.push_back("wild_" + std::to_string(round + 1));
  for (int64_t round = 1; round < rounds; ++round)
    names.push_back("rising_" + std::to_string(round + 1));
  return names;
}

std::vector<std::string> SoftmaxOperation::more_fills(const Problem& problem) const {
  if (problem.as<Params>().top_k > 0 || has_f8(problem)) return {};
  std::vector<std::string> names = codebook_fills(problem);
  std::erase_if(names, [&](const std::string& name) { return !on_request(name); });
  return names;
}

void SoftmaxOperation::fill(const Problem& problem, const Fill& fill, const Tensors& tensors,
                            bool only_own) const {
  if (is_codebook(fill)) return fill_codebook(problem, fill, tensors, only_own);
  if (wild_round_of(fill.name) >= 0) return fill_wild(problem, fill, tensors, only_own);
  if (fill.name == kWideName && problem.as<Params>().top_k == 0 && !has_f8(problem)) {
    const Fill own = with_stream(fill, kWideStream);
    fill_random(problem, own, tensors, only_own);
    return write_wide(problem, own.seed, tensors);
  }
  if (fill.name == kSubnormalName && problem.as<Params>().top_k == 0) {
    if (!is_in_f16(problem))
      throw Error("fill 'subnormal': is for q, k and v in f16; give dtype=f16");
    const Fill own = with_stream(fill, kSubnormalStream);
    fill_random(problem, own, tensors, only_own);
    return write_subnormal(problem, own.seed, tensors);
  }
  if (fill.name == kF8BandsName && !has_f8(problem))
    throw Error("fill 'f8_bands': is for 8 bits; give them, e.g. q=f8e4m3 k=f8e4m3 v=f8e4m3");
  if (fill.name == kF8BandsName || is_top_k_fill(fill.name)) {
    if (is_top_k_fill(fill.name) && problem.as<Params>().top_k == 0)
      throw Error("fill '" + fill.name + "': is for problems with top_k; give top_k, e.g. top_k=8");
    Fill random = fill;
    random.name = "random";
    fill_random(problem, random, tensors, only_own);
    if (fill.name == kF8BandsName) return write_f8_bands(problem, fill, tensors);
    return write_top_k(problem, fill, tensors);
  }
  if (fill.name != "random" && fill.name != "tokens")
    throw Error(
        "fill '" + fill.name +
        "': softmax has random, tokens, wide, wild, wild_2 to wild_7, codebook, codebook_peaked, "
        "huge, rising, rising_2 to rising_24, cancelling, edges, equal, flat and tiny; in f16 "
        "subnormal; with top_k top_k_levels, top_k_close and top_k_wild, too, but not wide and "
        "subnormal; in 8 bits random, tokens, wild and f8_bands");
  fill_random(problem, fill, tensors, only_own);
  if (fill.name == "random") scale_to_codes(tensors);
  if (fill.name == "random" && tensors[ATTEST_BIAS]) write_finite_biases(problem, tensors);
}

namespace {

// Values of "random" do not depend on their keys; those of tokens, and of given tensors, may.
bool values_may_follow(const Fill& fill) {
  return fill.name != "random" && fill.name != kF8BandsName;
}

std::unique_ptr<Golden> golden_of_numbers(const Problem& problem, const Fill& fill,
                                          const Tensors& tensors) {
  if (has_closed_form(problem, fill)) return codebook_golden(problem, fill, tensors);
  if (is_codebook(fill)) return sampled_codebook_golden(problem, fill, tensors);
  if (wild_round_of(fill.name) >= 0) return wild_golden(problem, tensors);
  if (fill.name == kWideName) return wide_golden(problem, tensors);
  if (fill.name == kSubnormalName) return subnormal_golden(problem, tensors);
  if (is_top_k_fill(fill.name)) return top_k_golden(problem, fill, tensors);
  return softmax_golden(problem, tensors, nullptr, values_may_follow(fill));
}

// The golden of Q, K and V in 8 bits: of what they stand for.
class F8Golden final : public Golden {
 public:
  F8Golden(const Problem& problem, const Fill& fill, const Tensors& tensors)
      : stored_(problem),
        inputs_(stored_, tensors),
        golden_(golden_of_numbers(inputs_.problem(), fill, inputs_.tensors())) {}

  void expect(const Arithmetic& arithmetic, const Sink& sink) const override {
    golden_->expect(with_stored_operands(arithmetic, stored_), sink);
  }
  std::vector<int64_t> exact_rows(const Arithmetic& arithmetic, int32_t role) const override {
    return golden_->exact_rows(with_stored_operands(arithmetic, stored_), role);
  }
  int64_t distinct_rows() const override { return golden_->distinct_rows(); }
  int64_t independent_rows(const Arithmetic& arithmetic, int32_t role) const override {
    return golden_->independent_rows(with_stored_operands(arithmetic, stored_), role);
  }
  std::string method() const override { return golden_->method(); }

 private:
  const Problem stored_;
  const WithoutFactors inputs_;
  const std::unique_ptr<Golden> golden_;
};

}  // namespace

std::unique_ptr<Golden> SoftmaxOperation::golden(const Problem& problem, const Fill& fill,
                                                 const Tensors& tensors) const {
  if (has_f8(problem)) return std::make_unique<F8Golden>(problem, fill, tensors);
  return golden_of_numbers(problem, fill, tensors);
}

std::unique_ptr<Golden> SoftmaxOperation::golden_with(const GoldenDevice& device,
                                                      const Problem& problem, const Fill& fill,
                                                      const Tensors& tensors) const {
  if (has_closed_form(problem, fill) || wild_round_of(fill.name) >= 0 || is_top_k_fill(fill.name) ||
      has_f8(problem))
    return golden(problem, fill, tensors);
  if (is_codebook(fill)) return sampled_codebook_golden(problem, fill, tensors, &device);
  if (fill.name == kWideName) return wide_golden(problem, tensors, &device);
  if (fill.name == kSubnormalName) return subnormal_golden(problem, tensors, &device);
  return softmax_golden(problem, tensors, &device, values_may_follow(fill));
}

}  // namespace attest::core
