// For tests: small softmax problems that together use every feature, with their memory, and
// attention by brute force in long double, written from SEMANTICS and attest.h pair by pair,
// sharing nothing with the geometry and the golden.
#pragma once
#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <numeric>
#include <optional>
#include <string>
#include <vector>

#include "core/operations/softmax/softmax.hpp"

namespace attest::core::testing {

/// A problem with memory for its tensors.
struct Case {
  std::string name;
  Problem problem;
  std::vector<std::vector<std::byte>> memory;
  Tensors tensors{};

  const attest_softmax_params& params() const { return problem.as<attest_softmax_params>(); }
  void fill(uint64_t seed = 1) {
    softmax_operation().fill(problem, {"random", seed}, tensors, false);
  }
  void allocate() {
    memory.resize(ATTEST_ROLES);
    for (size_t role = 0; role < ATTEST_ROLES; ++role) {
      if (!present(problem.tensor[role])) continue;
      memory[role].assign(size_t(extent_bytes(problem.tensor[role])), std::byte{0x7f});
      tensors[role] = {problem.tensor[role], memory[role].data()};
    }
  }
};

/// `set` changes parameters; `with` are optional tensors, dense and in full. `f8`: the dtype of Q,
/// K and V where it is one of 8 bits.
inline Case make_case(const std::string& name,
                      const std::function<void(attest_softmax_params&)>& set,
                      const std::vector<int32_t>& with = {}, DType dtype = ATTEST_F32,
                      DType f8 = ATTEST_NONE) {
  Case c{.name = name, .problem = blank_problem(softmax_operation(), dtype), .memory = {}};
  auto& p = c.problem.as<attest_softmax_params>();
  p.num_heads = 2;
  p.seq_len_q = 37;
  p.head_dim = 8;
  set(p);
  softmax_operation().complete(c.problem);
  for (const int32_t role : with)
    c.problem.tensor[size_t(role)].dtype = ATTEST_I32;  // present, so that dims() sees all of them
  for (const int32_t role : with) {
    const Role& r = *find_role(softmax_operation(), role);
    TensorSpec& spec = c.problem.tensor[size_t(role)];
    spec = dense_tensor(r.dtype == ATTEST_NONE ? dtype : r.dtype, r.access,
                        softmax_operation().dims(c.problem, role));
  }
  for (const int32_t role : {ATTEST_Q, ATTEST_K, ATTEST_V})
    if (f8 != ATTEST_NONE)
      c.problem.tensor[size_t(role)] =
          dense_tensor(f8, ATTEST_READ, softmax_operation().dims(c.problem, role));
  finish_problem(c.problem);
  c.allocate();
  c.fill();
  return c;
}

/// The same with some dims of a tensor broadcast.
inline Case broadcast(Case c, int32_t role, const std::vector<int>& axes) {
  std::vector<int64_t> shape(dims(c.problem.tensor[size_t(role)]).begin(),
                             dims(c.problem.tensor[size_t(role)]).end());
  for (const int axis : axes) shape[size_t(axis)] = 1;
  c.problem.tensor[size_t(role)] =
      dense_tensor(c.problem.tensor[size_t(role)].dtype, ATTEST_READ, shape);
  finish_problem(c.problem);
  c.allocate();
  c.fill();
  return c;
}

inline std::vector<Case> all_cases() {
  using P = attest_softmax_params;
  std::vector<Case> cases;
  auto add = [&cases](Case c) { cases.push_back(std::move(c)); };
  add(make_case("dense", [](P&) {}, {ATTEST_LSE}));
  add(make_case("gqa, head_dim_v",
                [](P& p) {
                  p.batch = 2;
                  p.num_heads = 4;
                  p.num_kv_heads = 2;
                  p.seq_len_kv = 53;
                  p.head_dim_v = 5;
                },
                {ATTEST_LSE}));
  add(make_case("one of each",
                [](P& p) {
                  p.num_heads = 1;
                  p.seq_len_q = 1;
                  p.seq_len_kv = 1;
                  p.head_dim = 1;
                },
                {ATTEST_LSE}));
  add(make_case("causal", [](P& p) { p.window_right = 0; }, {ATTEST_LSE}));
  add(make_case("causal, bottom right",
                [](P& p) {
                  p.window_right = 0;
                  p.diagonal = 1;
                  p.seq_len_kv = 50;
                },
                {ATTEST_LSE}));
  add(make_case("causal, empty leading rows",
                [](P& p) {
                  p.window_right = 0;
                  p.diagonal = 1;
                  p.seq_len_kv = 20;
                },
                {ATTEST_LSE}));
  add(make_case("causal, moved",
                [](P& p) {
                  p.window_right = 0;
                  p.diagonal_offset = 7;
                },
                {ATTEST_LSE}));
  add(make_case("band",
                [](P& p) {
                  p.window_left = 5;
                  p.window_right = 3;
                },
                {ATTEST_LSE}));
  add(make_case("band beyond the end",
                [](P& p) {
                  p.window_left = 2;
                  p.window_right = 1;
                  p.seq_len_kv = 20;
                  p.diagonal_offset = -4;
                },
                {ATTEST_LSE}));
  add(make_case("left only", [](P& p) { p.window_left = 0; }, {ATTEST_LSE}));
  add(make_case("softcap", [](P& p) { p.softcap = 0.7f; }, {ATTEST_LSE}));
  add(make_case("scale", [](P& p) { p.softmax_scale = -2.5f; }, {ATTEST_LSE}));
  add(make_case("bias, softcap",
                [](P& p) {
                  p.batch = 2;
                  p.softcap = 1.5f;
                },
                {ATTEST_BIAS, ATTEST_LSE}));
  add(broadcast(make_case("bias a key", [](P& p) { p.batch = 2; }, {ATTEST_BIAS, ATTEST_LSE}),
                ATTEST_BIAS, {0, 1, 2}));
  add(broadcast(make_case("bias a query", [](P& p) { p.batch = 2; }, {ATTEST_BIAS, ATTEST_LSE}),
                ATTEST_BIAS, {0, 3}));
  add(make_case("mask", [](P& p) { p.batch = 2; }, {ATTEST_MASK, ATTEST_LSE}));
  add(broadcast(make_case("mask a key, causal",
                          [](P& p) {
                            p.batch = 3;
                            p.window_right = 0;
                          },
                          {ATTEST_MASK, ATTEST_LSE}),
                ATTEST_MASK, {1, 2}));
  add(make_case("mask and bias, band",
                [](P& p) {
                  p.window_left = 9;
                  p.window_right = 4;
                },
                {ATTEST_MASK, ATTEST_BIAS}));
  const std::vector<int32_t> packed{ATTEST_CU_SEQLENS_Q, ATTEST_CU_SEQLENS_KV, ATTEST_LSE};
  add(make_case(
      "varlen",
      [](P& p) {
        p.batch = 5;
        p.seq_len_kv = 41;
      },
      packed));
  add(make_case(
      "varlen, causal, bottom right",
      [](P& p) {
        p.batch = 5;
        p.seq_len_kv = 30;
        p.window_right = 0;
        p.diagonal = 1;
      },
      packed));
  add(make_case("varlen, mask", [](P& p) { p.batch = 4; },
                {ATTEST_CU_SEQLENS_Q, ATTEST_CU_SEQLENS_KV, ATTEST_MASK, ATTEST_LSE}));
  add(make_case("queries packed", [](P& p) { p.batch = 3; }, {ATTEST_CU_SEQLENS_Q, ATTEST_LSE}));
  add(make_case("keys packed", [](P& p) { p.batch = 4; }, {ATTEST_CU_SEQLENS_KV, ATTEST_LSE}));
  add(make_case("seq_lens",
                [](P& p) {
                  p.batch = 4;
                  p.window_right = 2;
                  p.diagonal = 1;
                },
                {ATTEST_SEQ_LENS_Q, ATTEST_SEQ_LENS_KV, ATTEST_LSE}));
  add(make_case("seq_lens_kv", [](P& p) { p.batch = 1; }, {ATTEST_SEQ_LENS_KV, ATTEST_LSE}));
  add(make_case("pages",
                [](P& p) {
                  p.batch = 3;
                  p.num_heads = 4;
                  p.num_kv_heads = 1;
                  p.page_size = 8;
                },
                {ATTEST_PAGE_TABLE, ATTEST_SEQ_LENS_KV, ATTEST_LSE}));
  add(make_case("order",
                [](P& p) {
                  p.batch = 2;
                  p.window_left = 6;
                  p.window_right = 0;
                },
                {ATTEST_ORDER, ATTEST_LSE}));
  add(broadcast(make_case("one order for all",
                          [](P& p) {
                            p.batch = 3;
                            p.window_right = 0;
                          },
                          {ATTEST_ORDER, ATTEST_LSE}),
                ATTEST_ORDER, {0}));
  add(make_case("order, seq_lens",
                [](P& p) {
                  p.batch = 3;
                  p.window_right = 0;
                },
                {ATTEST_ORDER, ATTEST_SEQ_LENS_Q, ATTEST_SEQ_LENS_KV, ATTEST_LSE}));
  add(make_case("order, bias", [](P&) {}, {ATTEST_ORDER, ATTEST_BIAS}));
  add(make_case("patches", [](P& p) { p.patch_size = 16; }, {ATTEST_ORDER, ATTEST_LSE}));
  add(make_case("patches that divide",
                [](P& p) {
                  p.seq_len_q = 48;
                  p.patch_size = 16;
                },
                {ATTEST_LSE}));
  add(make_case("a patch above all", [](P& p) { p.patch_size = 64; }, {ATTEST_LSE}));
  add(make_case("patches, band",
                [](P& p) {
                  p.patch_size = 16;
                  p.window_left = 6;
                  p.window_right = 2;
                },
                {ATTEST_LSE}));
  add(make_case("patches, packed, order",
                [](P& p) {
                  p.batch = 5;
                  p.patch_size = 16;
                },
                {ATTEST_CU_SEQLENS_Q, ATTEST_CU_SEQLENS_KV, ATTEST_ORDER, ATTEST_LSE}));
  add(make_case("patches, seq_lens",
                [](P& p) {
                  p.batch = 3;
                  p.patch_size = 16;
                },
                {ATTEST_SEQ_LENS_Q, ATTEST_SEQ_LENS_KV, ATTEST_LSE}));
  add(make_case("sinks",
                [](P& p) {
                  p.num_heads = 4;
                  p.num_kv_heads = 2;
                },
                {ATTEST_SINKS, ATTEST_LSE}));
  add(make_case(
      "sinks, mask, rows without keys, bf16",
      [](P& p) {
        p.batch = 2;
        p.seq_len_kv = 20;
        p.window_right = 0;
        p.diagonal = 1;
      },
      {ATTEST_SINKS, ATTEST_MASK, ATTEST_LSE}, ATTEST_BF16));
  add(make_case("sinks, varlen, window",
                [](P& p) {
                  p.batch = 5;
                  p.window_left = 4;
                },
                {ATTEST_CU_SEQLENS_Q, ATTEST_CU_SEQLENS_KV, ATTEST_SINKS, ATTEST_LSE}));
  add(make_case("alibi", [](P& p) { p.batch = 2; }, {ATTEST_ALIBI_SLOPES, ATTEST_LSE}));
  add(broadcast(make_case("alibi, causal, bottom right",
                          [](P& p) {
                            p.batch = 2;
                            p.seq_len_kv = 50;
                            p.window_right = 0;
                            p.diagonal = 1;
                          },
                          {ATTEST_ALIBI_SLOPES, ATTEST_LSE}),
                ATTEST_ALIBI_SLOPES, {0}));
  add(make_case("alibi, moved, mask, bias, band",
                [](P& p) {
                  p.diagonal_offset = -6;
                  p.window_left = 9;
                  p.window_right = 4;
                },
                {ATTEST_ALIBI_SLOPES, ATTEST_BIAS, ATTEST_MASK, ATTEST_LSE}));
  add(make_case("alibi, varlen, bottom right",
                [](P& p) {
                  p.batch = 5;
                  p.seq_len_kv = 30;
                  p.diagonal = 1;
                },
                {ATTEST_CU_SEQLENS_Q, ATTEST_CU_SEQLENS_KV, ATTEST_ALIBI_SLOPES, ATTEST_LSE}));
  add(make_case(
      "alibi, equal keys far apart",
      [](P& p) {
        p.seq_len_kv = 300;
        p.head_dim = 1;
      },
      {ATTEST_ALIBI_SLOPES, ATTEST_LSE}, ATTEST_BF16));
  auto grid = [](P& p) {
    p.grid_height = 8;
    p.grid_width = 9;
    p.window_height = 4;
    p.window_width = 3;
    p.seq_len_q = 72;
  };
  add(make_case("grid", [grid](P& p) { grid(p); }, {ATTEST_LSE}));
  add(make_case(
      "grid, shifted",
      [grid](P& p) { grid(p), p.batch = 2, p.shift_y = 2, p.shift_x = 1, p.shift_bias = -100; },
      {ATTEST_REL_BIAS, ATTEST_LSE}));
  add(make_case("grid, shifted one way",
                [grid](P& p) { grid(p), p.shift_x = 2, p.shift_bias = -1; }, {ATTEST_LSE}));
  add(make_case("grid, shift_bias 0", [grid](P& p) { grid(p), p.shift_x = 2; }, {ATTEST_LSE}));
  add(make_case("grid, mask, bias", [grid](P& p) { grid(p), p.shift_y = 1; },
                {ATTEST_MASK, ATTEST_BIAS, ATTEST_REL_BIAS, ATTEST_LSE}));
  add(make_case("block mask", [](P& p) { p.batch = 2, p.block_q = 8, p.block_kv = 5; },
                {ATTEST_BLOCK_MASK, ATTEST_LSE}));
  add(broadcast(make_case("block mask of a sequence, mask, bias, causal",
                          [](P& p) {
                            p.batch = 2;
                            p.num_heads = 4;
                            p.num_kv_heads = 2;
                            p.seq_len_kv = 50;
                            p.window_right = 0;
                            p.diagonal = 1;
                            p.block_q = 4;
                            p.block_kv = 16;
                          },
                          {ATTEST_BLOCK_MASK, ATTEST_MASK, ATTEST_BIAS, ATTEST_LSE}),
                ATTEST_BLOCK_MASK, {1}));
  add(broadcast(make_case("block mask of a head, packed, order, sinks",
                          [](P& p) { p.batch = 4, p.block_q = p.block_kv = 6; },
                          {ATTEST_BLOCK_MASK, ATTEST_CU_SEQLENS_Q, ATTEST_CU_SEQLENS_KV,
                           ATTEST_ORDER, ATTEST_SINKS, ATTEST_LSE}),
                ATTEST_BLOCK_MASK, {0}));
  add(make_case("block mask, grid, rel_bias",
                [grid](P& p) { grid(p), p.shift_y = 1, p.block_q = 10, p.block_kv = 7; },
                {ATTEST_BLOCK_MASK, ATTEST_REL_BIAS, ATTEST_LSE}));
  add(make_case("block mask of one block",
                [](P& p) { p.batch = 2, p.block_q = 37, p.block_kv = 64; },
                {ATTEST_BLOCK_MASK, ATTEST_LSE}));
  add(make_case("global tokens, band",
                [](P& p) {
                  p.batch = 2;
                  p.window_left = 6;
                  p.window_right = 2;
                  p.global_tokens = 3;
                },
                {ATTEST_LSE}));
  add(make_case("global tokens, causal, seq_lens, alibi",
                [](P& p) { p.batch = 4, p.window_right = 0, p.global_tokens = 5; },
                {ATTEST_SEQ_LENS_Q, ATTEST_SEQ_LENS_KV, ATTEST_ALIBI_SLOPES, ATTEST_LSE}));
  add(make_case(
      "global tokens, packed, order, moved band, block mask",
      [](P& p) {
        p.batch = 4;
        p.window_left = 4;
        p.window_right = 1;
        p.diagonal_offset = -3;
        p.global_tokens = 2;
        p.block_q = 9;
        p.block_kv = 4;
      },
      {ATTEST_CU_SEQLENS_Q, ATTEST_CU_SEQLENS_KV, ATTEST_ORDER, ATTEST_BLOCK_MASK, ATTEST_LSE}));
  add(make_case("top_k", [](P& p) { p.batch = 2, p.top_k = 5; }, {ATTEST_LSE}));
  add(make_case("top_k, all ties, mask, bias, softcap, sinks",
                [](P& p) {
                  p.num_heads = 4;
                  p.num_kv_heads = 2;
                  p.seq_len_kv = 50;
                  p.softcap = 3;
                  p.top_k = 9;
                  p.top_k_ties = ATTEST_TOP_K_ALL_TIES;
                },
                {ATTEST_MASK, ATTEST_BIAS, ATTEST_SINKS, ATTEST_LSE}));
  add(make_case("top_k of one, causal, alibi", [](P& p) { p.window_right = 0, p.top_k = 1; },
                {ATTEST_ALIBI_SLOPES, ATTEST_LSE}));
  add(make_case("top_k of all, packed, order",
                [](P& p) { p.batch = 4, p.top_k = p.seq_len_kv = p.seq_len_q; },
                {ATTEST_CU_SEQLENS_Q, ATTEST_CU_SEQLENS_KV, ATTEST_ORDER, ATTEST_LSE}));
  add(make_case("top_k, grid, rel_bias", [grid](P& p) { grid(p), p.shift_y = 1, p.top_k = 4; },
                {ATTEST_REL_BIAS, ATTEST_LSE}));
  const std::vector<int32_t> factors{ATTEST_Q_DESCALE, ATTEST_K_DESCALE, ATTEST_V_DESCALE,
                                     ATTEST_LSE};
  add(make_case("f8e4m3", [](P&) {}, {ATTEST_LSE}, ATTEST_F16, ATTEST_F8E4M3));
  add(make_case(
      "f8e5m2, factors of heads, gqa, bias",
      [](P& p) { p.batch = 2, p.num_heads = 4, p.num_kv_heads = 2, p.seq_len_kv = 53; },
      {ATTEST_Q_DESCALE, ATTEST_K_DESCALE, ATTEST_V_DESCALE, ATTEST_BIAS, ATTEST_LSE}, ATTEST_F32,
      ATTEST_F8E5M2));
  add(broadcast(make_case(
                    "f8e4m3, factors of blocks, causal, one for all values",
                    [](P& p) {
                      p.batch = 2;
                      p.seq_len_kv = 50;
                      p.window_right = 0;
                      p.descale_block_q = 8;
                      p.descale_block_kv = 7;
                    },
                    factors, ATTEST_BF16, ATTEST_F8E4M3),
                ATTEST_V_DESCALE, {0, 1, 2}));
  add(make_case(
      "f8e4m3, factors of blocks, packed, order",
      [](P& p) { p.batch = 4, p.descale_block_q = 5, p.descale_block_kv = 5, p.window_left = 9; },
      {ATTEST_CU_SEQLENS_Q, ATTEST_CU_SEQLENS_KV, ATTEST_ORDER, ATTEST_Q_DESCALE, ATTEST_K_DESCALE,
       ATTEST_V_DESCALE, ATTEST_LSE},
      ATTEST_F32, ATTEST_F8E4M3));
  add(make_case(
      "f8e5m2, factors, pages, top_k", [](P& p) { p.batch = 3, p.page_size = 8, p.top_k = 6; },
      {ATTEST_PAGE_TABLE, ATTEST_SEQ_LENS_KV, ATTEST_K_DESCALE, ATTEST_V_DESCALE, ATTEST_LSE},
      ATTEST_F16, ATTEST_F8E5M2));
  add(make_case(
      "f8e4m3, factors of blocks, grid",
      [grid](P& p) { grid(p), p.shift_x = 1, p.descale_block_q = 10, p.descale_block_kv = 13; },
      factors, ATTEST_F16, ATTEST_F8E4M3));
  add(make_case("f16", [](P& p) { p.head_dim = 24; }, {ATTEST_LSE, ATTEST_BIAS}, ATTEST_F16));
  add(make_case("bf16", [](P& p) { p.head_dim = 24; }, {ATTEST_LSE}, ATTEST_BF16));
  add(make_case("several tiles",
                [](P& p) {
                  p.num_heads = 4;
                  p.num_kv_heads = 2;
                  p.seq_len_q = 131;
                  p.seq_len_kv = 700;
                  p.head_dim = 40;
                  p.head_dim_v = 24;
                },
                {ATTEST_LSE}));
  add(make_case("several tiles, causal",
                [](P& p) {
                  p.seq_len_q = 700;
                  p.window_right = 0;
                  p.head_dim = 17;
                },
                {ATTEST_LSE}));
  {
    Case c = make_case("heads between channels",
                       [](P& p) {
                         p.batch = 2;
                         p.num_heads = 3;
                       },
                       {ATTEST_LSE});
    const int order[] = {0, 2, 1, 3};
    for (const int32_t role : {ATTEST_Q, ATTEST_K, ATTEST_V, ATTEST_O})
      c.problem.tensor[size_t(role)] =
          permuted_tensor(ATTEST_F32, c.problem.tensor[size_t(role)].access,
                          dims(c.problem.tensor[size_t(role)]), order);
    const int channels_out[] = {0, 1, 3, 2};
    c.problem.tensor[ATTEST_V] =
        permuted_tensor(ATTEST_F32, ATTEST_READ, dims(c.problem.tensor[ATTEST_V]), channels_out);
    finish_problem(c.problem);
    c.allocate();
    c.fill();
    add(std::move(c));
  }
  return cases;
}

/// One (query head, row of Q) with the keys that it sees, by rows of the tensors.
struct BruteRow {
  std::vector<std::pair<int64_t, int64_t>> cells;  // dim 0 and dim 2 of K
  std::vector<long double> scores, value_factors;
  int64_t b = 0, i = 0;  // sequence and place; meaningless where no place stands on the row
  std::optional<long double> sink;  // logit of what has no value
};

/// Brute force over all (query, key) pairs of one case.
class Brute {
 public:
  explicit Brute(const Case& c) : c_(c), p_(c.params()) {}

  /// By output row (leading 3); every row of O is there.
  std::map<int64_t, BruteRow> rows() const {
    std::map<int64_t, BruteRow> found;
    const int64_t rows = c_.problem.tensor[ATTEST_Q].dim[2],
                  outers = c_.problem.tensor[ATTEST_Q].dim[0];
    for (int64_t row = 0; row < outers * p_.num_heads * rows; ++row) found[row];
    for (int64_t b = 0; b < p_.batch; ++b)
      for (int64_t h = 0; h < p_.num_heads; ++h)
        for (int64_t i = 0; i < length(b, false); ++i) {
          const auto [outer, row] = cell(b, i, false);
          BruteRow& out = found[(outer * p_.num_heads + h) * rows + row];
          out.b = b;
          out.i = i;
          if (has(ATTEST_SINKS)) out.sink = static_cast<long double>(at(ATTEST_SINKS, {h}));
          for (int64_t j = 0; j < length(b, true); ++j)
            if (const auto s = score(b, h, i, j))
              out.cells.push_back(cell(b, j, true)), out.scores.push_back(*s),
                  out.value_factors.push_back(
                      factor(ATTEST_V_DESCALE, b, h / (p_.num_heads / p_.num_kv_heads), j));
          if (p_.top_k > 0) keep_top_k(out);
        }
    return found;
  }

  long double lse(const BruteRow& row) const {
    if (row.scores.empty()) return -std::numeric_limits<long double>::infinity();
    const long double largest = *std::max_element(row.scores.begin(), row.scores.end()),
                      m = row.sink ? std::max(largest, *row.sink) : largest;
    long double sum = row.sink ? std::exp(*row.sink - m) : 0;
    for (const long double s : row.scores) sum += std::exp(s - m);
    return m + std::log(sum);
  }

  std::vector<long double> o(const BruteRow& row, int64_t h) const {
    std::vector<long double> sums(size_t(p_.head_dim_v), 0);
    const long double z = lse(row);
    for (size_t k = 0; k < row.scores.size(); ++k) {
      const long double p = std::exp(row.scores[k] - z) * row.value_factors[k];
      for (int64_t d = 0; d < p_.head_dim_v; ++d)
        sums[size_t(d)] += p * static_cast<long double>(c_.tensors[ATTEST_V].at(
                                   {row.cells[k].first, h / (p_.num_heads / p_.num_kv_heads),
                                    row.cells[k].second, d}));
    }
    return sums;
  }

  double pairs() const { return pairs(std::numeric_limits<int64_t>::max()); }
  /// The same, with at most `most` pairs of a query.
  double pairs(int64_t most) const {
    double sum = 0;
    for (int64_t b = 0; b < p_.batch; ++b)
      for (int64_t i = 0; i < length(b, false); ++i) {
        int64_t of_query = 0;
        for (int64_t j = 0; j < length(b, true); ++j) of_query += allowed(b, i, j);
        sum += double(std::min(of_query, most));
      }
    return sum * double(p_.num_heads);
  }

 private:
  // Keys stand in the order of their places, which a stable sort keeps among equal scores.
  void keep_top_k(BruteRow& row) const {
    std::vector<size_t> order(row.scores.size());
    std::iota(order.begin(), order.end(), size_t(0));
    std::stable_sort(order.begin(), order.end(),
                     [&](size_t a, size_t b) { return row.scores[a] > row.scores[b]; });
    size_t kept = std::min(order.size(), size_t(p_.top_k));
    while (p_.top_k_ties == ATTEST_TOP_K_ALL_TIES && kept < order.size() &&
           row.scores[order[kept]] == row.scores[order[kept - 1]])
      ++kept;
    BruteRow cut = row;
    cut.cells.clear(), cut.scores.clear(), cut.value_factors.clear();
    for (size_t n = 0; n < kept; ++n) {
      cut.cells.push_back(row.cells[order[n]]);
      cut.scores.push_back(row.scores[order[n]]);
      cut.value_factors.push_back(row.value_factors[order[n]]);
    }
    row = std::move(cut);
  }

  double at(int32_t role, std::initializer_list<int64_t> index) const {
    return c_.tensors[size_t(role)].at(index);
  }
  bool has(int32_t role) const { return bool(c_.tensors[size_t(role)]); }
  // What a stored number of a position is multiplied by.
  long double factor(int32_t role, int64_t b, int64_t head, int64_t i) const {
    if (!has(role)) return 1;
    const int64_t block = role == ATTEST_Q_DESCALE ? p_.descale_block_q : p_.descale_block_kv;
    return static_cast<long double>(at(role, {b, head, block > 0 ? i / block : 0}));
  }

  int64_t length(int64_t b, bool kv) const {
    const int32_t cu = kv ? ATTEST_CU_SEQLENS_KV : ATTEST_CU_SEQLENS_Q,
                  lens = kv ? ATTEST_SEQ_LENS_KV : ATTEST_SEQ_LENS_Q;
    if (has(cu)) return int64_t(at(cu, {b + 1}) - at(cu, {b}));
    if (has(lens)) return int64_t(at(lens, {b}));
    return kv ? p_.seq_len_kv : p_.seq_len_q;
  }
  // Dim 0 and dim 2 of what stands at a place (a token on a grid).
  std::pair<int64_t, int64_t> cell(int64_t b, int64_t place, bool kv) const {
    if (kv && has(ATTEST_PAGE_TABLE))
      return {int64_t(at(ATTEST_PAGE_TABLE, {b, place / p_.page_size})), place % p_.page_size};
    const int32_t cu = kv ? ATTEST_CU_SEQLENS_KV : ATTEST_CU_SEQLENS_Q;
    const int64_t outer = has(cu) ? 0 : b, row = has(cu) ? int64_t(at(cu, {b})) + place : place;
    return {outer, has(ATTEST_ORDER) ? int64_t(at(ATTEST_ORDER, {outer, row})) : row};
  }

  // Swin's construction: roll, slice into regions, cut into windows.
  struct GridPlace {
    int64_t window, y, x, region;
  };
  GridPlace grid_place(int64_t token) const {
    const int64_t y = (token / p_.grid_width - p_.shift_y + p_.grid_height) % p_.grid_height,
                  x = (token % p_.grid_width - p_.shift_x + p_.grid_width) % p_.grid_width;
    auto slice = [](int64_t at, int64_t size, int64_t window, int64_t shift) {
      return at < size - window ? 0 : at < size - shift ? 1 : 2;
    };
    return {(y / p_.window_height) * 1000 + x / p_.window_width, y % p_.window_height,
            x % p_.window_width,
            slice(y, p_.grid_height, p_.window_height, p_.shift_y) * 3 +
                slice(x, p_.grid_width, p_.window_width, p_.shift_x)};
  }

  bool allowed(int64_t b, int64_t i, int64_t j) const {
    if (p_.grid_height > 0) return grid_place(i).window == grid_place(j).window;
    const int64_t p =
        i + p_.diagonal_offset + (p_.diagonal ? length(b, true) - length(b, false) : 0);
    if (std::min(i, j) < p_.global_tokens) return true;
    if (p_.window_left >= 0 && j < p - p_.window_left) return false;
    if (p_.window_right >= 0 && j > p + p_.window_right) return false;
    if (p_.patch_size == 0) return true;
    const int64_t size = p_.patch_size, n = length(b, true),
                  full = n / size * size;  // places from `full` on are the short last patch
    return i < full ? i / size == j / size : j >= n - std::min(size, n);
  }

  std::optional<long double> score(int64_t b, int64_t h, int64_t i, int64_t j) const {
    if (!allowed(b, i, j) || (has(ATTEST_MASK) && at(ATTEST_MASK, {b, h, i, j}) == 0))
      return std::nullopt;
    if (has(ATTEST_BLOCK_MASK) &&
        at(ATTEST_BLOCK_MASK, {b, h, i / p_.block_q, j / p_.block_kv}) == 0)
      return std::nullopt;
    const double bias = has(ATTEST_BIAS) ? at(ATTEST_BIAS, {b, h, i, j}) : 0;
    if (bias == -std::numeric_limits<double>::infinity()) return std::nullopt;
    const auto [q_outer, q_row] = cell(b, i, false);
    const auto [k_outer, k_row] = cell(b, j, true);
    long double s = 0;
    for (int64_t d = 0; d < p_.head_dim; ++d)
      s += static_cast<long double>(at(ATTEST_Q, {q_outer, h, q_row, d})) *
           static_cast<long double>(
               at(ATTEST_K, {k_outer, h / (p_.num_heads / p_.num_kv_heads), k_row, d}));
    s *= factor(ATTEST_Q_DESCALE, b, h, i) *
         factor(ATTEST_K_DESCALE, b, h / (p_.num_heads / p_.num_kv_heads), j);
    s *= static_cast<long double>(p_.softmax_scale);
    if (p_.softcap > 0)
      s = static_cast<long double>(p_.softcap) *
          std::tanh(s / static_cast<long double>(p_.softcap));
    s += static_cast<long double>(bias);
    if (has(ATTEST_ALIBI_SLOPES)) {
      const int64_t corner = p_.diagonal ? length(b, true) - length(b, false) : 0;
      s -= static_cast<long double>(at(ATTEST_ALIBI_SLOPES, {b, h})) *
           std::fabs(static_cast<long double>(i + p_.diagonal_offset + corner - j));
    }
    if (p_.grid_height == 0) return s;
    const GridPlace query = grid_place(i), key = grid_place(j);
    if (has(ATTEST_REL_BIAS))
      s += static_cast<long double>(at(ATTEST_REL_BIAS, {h, query.y - key.y + p_.window_height - 1,
                                                         query.x - key.x + p_.window_width - 1}));
    if (query.region != key.region) s += static_cast<long double>(p_.shift_bias);
    return s;
  }

  const Case& c_;
  const attest_softmax_params& p_;
};

}  // namespace attest::core::testing
