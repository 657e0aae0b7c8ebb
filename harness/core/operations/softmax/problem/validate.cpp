// Which softmax problems make sense. Every message names the field and what would be right.
#include <fmt/format.h>

#include <cmath>
#include <utility>

#include "core/operations/softmax/problem/dequantised.hpp"
#include "core/operations/softmax/problem/geometry.hpp"
#include "core/operations/softmax/softmax.hpp"
#include "core/tensor/error.hpp"

namespace attest::core {
namespace {

using Params = attest_softmax_params;

constexpr int64_t kMostTokens = int64_t(1) << 31;  // tables hold int32
constexpr int64_t kMostHeadDim = 1024;

void require(bool condition, const std::string& message) {
  if (!condition) throw Error(message);
}

void between(const char* field, int64_t value, int64_t least, int64_t most) {
  require(value >= least && value <= most,
          fmt::format("{}: {}; must lie in {} .. {}", field, value, least, most));
}

void check_sizes(const Params& p) {
  between("batch", p.batch, 1, kMostTokens - 1);
  between("num_heads", p.num_heads, 1, 65536);
  between("num_kv_heads", p.num_kv_heads, 1, p.num_heads);
  require(p.num_heads % p.num_kv_heads == 0,
          fmt::format("num_kv_heads: {}; must divide num_heads = {}", p.num_kv_heads, p.num_heads));
  between("seq_len_q", p.seq_len_q, 1, kMostTokens - 1);
  between("seq_len_kv", p.seq_len_kv, 1, kMostTokens - 1);
  between("head_dim", p.head_dim, 1, kMostHeadDim);
  between("head_dim_v", p.head_dim_v, 1, kMostHeadDim);
}

void check_scores(const Params& p) {
  require(std::isfinite(p.softmax_scale) && p.softmax_scale != 0,
          fmt::format("softmax_scale: {}; must be finite and not 0", p.softmax_scale));
  require(std::isfinite(p.softcap) && p.softcap >= 0,
          fmt::format("softcap: {}; must be finite, 0 (none) or more", p.softcap));
  between("window_left", p.window_left, -1, kMostTokens);
  between("window_right", p.window_right, -1, kMostTokens);
  between("diagonal", p.diagonal, ATTEST_TOP_LEFT, ATTEST_BOTTOM_RIGHT);
  between("diagonal_offset", p.diagonal_offset, -kMostTokens, kMostTokens);
}

void check_lengths(const Problem& problem) {
  const Params& p = problem.as<Params>();
  struct Side {
    const char* name;
    int32_t cu_seqlens, seq_lens, tensor;
    int64_t seq_len;
  };
  for (const Side& side :
       {Side{"q", ATTEST_CU_SEQLENS_Q, ATTEST_SEQ_LENS_Q, ATTEST_Q, p.seq_len_q},
        Side{"kv", ATTEST_CU_SEQLENS_KV, ATTEST_SEQ_LENS_KV, ATTEST_K, p.seq_len_kv}}) {
    if (!problem.has(side.cu_seqlens)) continue;
    require(!problem.has(side.seq_lens),
            fmt::format("seq_lens_{0}: packed tokens have their lengths in cu_seqlens_{0}; leave "
                        "one of them out",
                        side.name));
    const int64_t tokens = problem.operation->dims(problem, side.tensor)[2],
                  most = p.batch * side.seq_len;
    require(tokens >= side.seq_len && tokens <= most,
            fmt::format("cu_seqlens_{0}: {1} packed tokens; must lie in {2} .. {3}: the longest "
                        "sequence has seq_len_{0} = {2}, and there are {4}",
                        side.name, tokens, side.seq_len, most, p.batch));
  }
}

void check_pages(const Problem& problem) {
  const Params& p = problem.as<Params>();
  between("page_size", p.page_size, 0, kMostTokens);
  require((p.page_size > 0) == problem.has(ATTEST_PAGE_TABLE),
          fmt::format("page_size: {}; page_size > 0 and the tensor page_table go together",
                      p.page_size));
  if (p.page_size == 0) return;
  require(!problem.has(ATTEST_CU_SEQLENS_KV),
          "page_table: pages are not packed; lengths of a paged cache go into seq_lens_kv, not "
          "cu_seqlens_kv");
  require(!problem.has(ATTEST_ORDER),
          "order: a paged cache has none; leave order or page_table out");
}

// What ORDER, patches and global tokens ask for: queries and keys are the same tokens.
void check_self(const Problem& problem, const char* what) {
  const Params& p = problem.as<Params>();
  require(p.seq_len_q == p.seq_len_kv, fmt::format("{}: queries and keys must be the same tokens; "
                                                   "seq_len_kv {} where seq_len_q = {} is right",
                                                   what, p.seq_len_kv, p.seq_len_q));
  require(problem.has(ATTEST_CU_SEQLENS_Q) == problem.has(ATTEST_CU_SEQLENS_KV),
          fmt::format("{}: queries and keys must be the same tokens; give both cu_seqlens_q and "
                      "cu_seqlens_kv, or neither",
                      what));
  if (!problem.has(ATTEST_CU_SEQLENS_Q)) return;
  const int64_t q = problem.operation->dims(problem, ATTEST_Q)[2],
                kv = problem.operation->dims(problem, ATTEST_K)[2];
  require(q == kv,
          fmt::format("{}: queries and keys must be the same tokens; {} are packed in q, {} in k",
                      what, q, kv));
}

void check_same_lengths(const Problem& problem, const char* what) {
  require(problem.has(ATTEST_SEQ_LENS_Q) == problem.has(ATTEST_SEQ_LENS_KV),
          fmt::format("{}: queries and keys must be the same tokens; give both seq_lens_q and "
                      "seq_lens_kv, or neither",
                      what));
}

void check_grid(const Problem& problem) {
  const Params& p = problem.as<Params>();
  const bool grid = p.grid_height != 0 || p.grid_width != 0;
  if (!grid) {
    require(p.window_height == 0 && p.window_width == 0,
            "window_height: grid windows need grid_height and grid_width; a band is window_left "
            "and window_right");
    require(p.shift_y == 0 && p.shift_x == 0 && p.shift_bias == 0,
            "shift_y: only a grid is shifted; shift_y, shift_x and shift_bias need grid_height and "
            "grid_width");
    require(!problem.has(ATTEST_REL_BIAS),
            "rel_bias: needs grid windows: grid_height, grid_width, window_height, window_width");
    return;
  }
  between("grid_height", p.grid_height, 1, kMostTokens);
  between("grid_width", p.grid_width, 1, kMostTokens);
  between("window_height", p.window_height, 1, p.grid_height);
  between("window_width", p.window_width, 1, p.grid_width);
  require(p.grid_height % p.window_height == 0,
          fmt::format("grid_height: {}; must be a multiple of window_height = {}", p.grid_height,
                      p.window_height));
  require(p.grid_width % p.window_width == 0,
          fmt::format("grid_width: {}; must be a multiple of window_width = {}", p.grid_width,
                      p.window_width));
  between("shift_y", p.shift_y, 0, p.window_height - 1);
  between("shift_x", p.shift_x, 0, p.window_width - 1);
  require(!std::isnan(p.shift_bias) && p.shift_bias <= 1e30f,
          fmt::format("shift_bias: {}; must be a number (Swin: -100)", p.shift_bias));
  const int64_t tokens = p.grid_height * p.grid_width;
  require(p.seq_len_q == tokens,
          fmt::format("seq_len_q: {}; must be grid_height * grid_width = {}", p.seq_len_q, tokens));
  require(
      p.seq_len_kv == tokens,
      fmt::format("seq_len_kv: {}; must be grid_height * grid_width = {}", p.seq_len_kv, tokens));
  require(
      p.window_left == -1 && p.window_right == -1 && p.diagonal == 0 && p.diagonal_offset == 0,
      "window_left: a grid has no band; window_left, window_right, diagonal belong to sequences");
  require(
      p.patch_size == 0,
      "patch_size: a grid is cut into windows, not patches; leave patch_size or grid_height out");
  require(!problem.has(ATTEST_ALIBI_SLOPES),
          "alibi_slopes: distances count along a sequence; a grid has rel_bias");
  for (const int32_t role : {ATTEST_ORDER, ATTEST_CU_SEQLENS_Q, ATTEST_CU_SEQLENS_KV,
                             ATTEST_SEQ_LENS_Q, ATTEST_SEQ_LENS_KV, ATTEST_PAGE_TABLE})
    require(!problem.has(role),
            fmt::format(
                "{0}: a grid is dense and in the order of its rows; leave {0} or grid_height out",
                find_role(*problem.operation, role)->name));
}

void check_block_mask(const Problem& problem) {
  const Params& p = problem.as<Params>();
  const bool given = problem.has(ATTEST_BLOCK_MASK);
  for (const auto& [field, size] : {std::pair("block_q", p.block_q), {"block_kv", p.block_kv}}) {
    between(field, size, 0, kMostTokens);
    require((size > 0) == given,
            fmt::format("{}: {}; block_q > 0, block_kv > 0 and the tensor block_mask go together",
                        field, size));
  }
}

void check_global_tokens(const Problem& problem) {
  const Params& p = problem.as<Params>();
  between("global_tokens", p.global_tokens, 0, p.seq_len_q);
  if (p.global_tokens == 0) return;
  check_self(problem, "global_tokens");
  check_same_lengths(problem, "global_tokens");
  require(
      has_band(p),
      "global_tokens: without a band every token sees all; give window_left or window_right, or "
      "leave global_tokens out");
  require(p.patch_size == 0,
          "global_tokens: patches have none; leave global_tokens or patch_size out");
}

void check_top_k(const Params& p) {
  require(p.top_k >= 0 && p.top_k <= p.seq_len_kv,
          fmt::format("top_k: {}; must lie in 1 .. seq_len_kv = {}, or be 0: every key that a row "
                      "sees counts",
                      p.top_k, p.seq_len_kv));
  between("top_k_ties", p.top_k_ties, ATTEST_TOP_K_FIRST, ATTEST_TOP_K_ALL_TIES);
  require(p.top_k > 0 || p.top_k_ties == 0,
          "top_k_ties: without top_k every key counts; give top_k, or leave top_k_ties out");
}

// Q, K and V in 8 bits, and their factors.
void check_f8(const Problem& problem) {
  const Params& p = problem.as<Params>();
  const DType stored = problem.tensor[ATTEST_Q].dtype;
  // Gradients, which are checked here too, have no factors.
  const auto name_of = [](int32_t role) { return find_role(softmax_operation(), role)->name; };
  for (const int32_t role : {ATTEST_K, ATTEST_V}) {
    const DType dtype = problem.tensor[size_t(role)].dtype;
    require(dtype == stored || (!is_f8(dtype) && !is_f8(stored)),
            fmt::format("{}: dtype {} where q is {}; 8 bits are those of q, k and v alike",
                        name_of(role), dtype_name(dtype), dtype_name(stored)));
  }
  for (const auto& [role, factors] : kStoredRoles)
    require(is_f8(stored) || !problem.has(factors),
            fmt::format("{}: factors belong to 8 bits, and {} is {}; leave it out, or give q, k "
                        "and v f8e4m3 or f8e5m2",
                        name_of(factors), name_of(role), dtype_name(stored)));
  between("descale_block_q", p.descale_block_q, 0, kMostTokens);
  between("descale_block_kv", p.descale_block_kv, 0, kMostTokens);
  require(p.descale_block_q == 0 || problem.has(ATTEST_Q_DESCALE),
          "descale_block_q: without q_descale there are no factors; give q_descale, or leave "
          "descale_block_q out");
  require(p.descale_block_kv == 0 || problem.has(ATTEST_K_DESCALE) || problem.has(ATTEST_V_DESCALE),
          "descale_block_kv: without k_descale and v_descale there are no factors; give one of "
          "them, or leave descale_block_kv out");
  require(p.descale_block_kv == 0 || p.page_size == 0,
          "descale_block_kv: a page may belong to several sequences; leave descale_block_kv or "
          "page_size out");
}

}  // namespace

void SoftmaxOperation::check(const Problem& problem) const {
  const Params& p = problem.as<Params>();
  check_sizes(p);
  check_scores(p);
  check_pages(problem);
  check_lengths(problem);
  between("patch_size", p.patch_size, 0, kMostTokens);
  if (p.patch_size > 0) {
    check_self(problem, "patch_size");
    check_same_lengths(problem, "patch_size");
  }
  if (problem.has(ATTEST_ORDER)) check_self(problem, "order");
  check_grid(problem);
  check_block_mask(problem);
  check_global_tokens(problem);
  check_top_k(p);
  check_f8(problem);
}

}  // namespace attest::core
