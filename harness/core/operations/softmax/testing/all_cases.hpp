// For tests: small softmax problems that together use every feature.
#pragma once
#include <utility>
#include <vector>

#include "core/operations/softmax/testing/make_case.hpp"

namespace attest::core::testing {

using P = attest_softmax_params;

/// A grid of 8 x 9 tokens with windows of 4 x 3.
inline void on_grid(P& p) {
  p.grid_height = 8;
  p.grid_width = 9;
  p.window_height = 4;
  p.window_width = 3;
  p.seq_len_q = 72;
}

inline std::vector<Case> cases_of_shapes() {
  std::vector<Case> cases;
  cases.push_back(make_case("dense", [](P&) {}, {ATTEST_LSE}));
  cases.push_back(make_case("gqa, head_dim_v",
                            [](P& p) {
                              p.batch = 2;
                              p.num_heads = 4;
                              p.num_kv_heads = 2;
                              p.seq_len_kv = 53;
                              p.head_dim_v = 5;
                            },
                            {ATTEST_LSE}));
  cases.push_back(make_case("one of each",
                            [](P& p) {
                              p.num_heads = 1;
                              p.seq_len_q = 1;
                              p.seq_len_kv = 1;
                              p.head_dim = 1;
                            },
                            {ATTEST_LSE}));
  return cases;
}

inline std::vector<Case> cases_of_bands() {
  std::vector<Case> cases;
  cases.push_back(make_case("causal", [](P& p) { p.window_right = 0; }, {ATTEST_LSE}));
  cases.push_back(make_case("causal, bottom right",
                            [](P& p) {
                              p.window_right = 0;
                              p.diagonal = 1;
                              p.seq_len_kv = 50;
                            },
                            {ATTEST_LSE}));
  cases.push_back(make_case("causal, empty leading rows",
                            [](P& p) {
                              p.window_right = 0;
                              p.diagonal = 1;
                              p.seq_len_kv = 20;
                            },
                            {ATTEST_LSE}));
  cases.push_back(make_case("causal, moved",
                            [](P& p) {
                              p.window_right = 0;
                              p.diagonal_offset = 7;
                            },
                            {ATTEST_LSE}));
  cases.push_back(make_case("band",
                            [](P& p) {
                              p.window_left = 5;
                              p.window_right = 3;
                            },
                            {ATTEST_LSE}));
  cases.push_back(make_case("band beyond the end",
                            [](P& p) {
                              p.window_left = 2;
                              p.window_right = 1;
                              p.seq_len_kv = 20;
                              p.diagonal_offset = -4;
                            },
                            {ATTEST_LSE}));
  cases.push_back(make_case("left only", [](P& p) { p.window_left = 0; }, {ATTEST_LSE}));
  return cases;
}

inline std::vector<Case> cases_of_bias_and_mask() {
  std::vector<Case> cases;
  cases.push_back(make_case("softcap", [](P& p) { p.softcap = 0.7f; }, {ATTEST_LSE}));
  cases.push_back(make_case("scale", [](P& p) { p.softmax_scale = -2.5f; }, {ATTEST_LSE}));
  cases.push_back(make_case("bias, softcap",
                            [](P& p) {
                              p.batch = 2;
                              p.softcap = 1.5f;
                            },
                            {ATTEST_BIAS, ATTEST_LSE}));
  cases.push_back(
      broadcast(make_case("bias a key", [](P& p) { p.batch = 2; }, {ATTEST_BIAS, ATTEST_LSE}),
                ATTEST_BIAS, {0, 1, 2}));
  cases.push_back(
      broadcast(make_case("bias a query", [](P& p) { p.batch = 2; }, {ATTEST_BIAS, ATTEST_LSE}),
                ATTEST_BIAS, {0, 3}));
  cases.push_back(make_case("mask", [](P& p) { p.batch = 2; }, {ATTEST_MASK, ATTEST_LSE}));
  cases.push_back(broadcast(make_case("mask a key, causal",
                                      [](P& p) {
                                        p.batch = 3;
                                        p.window_right = 0;
                                      },
                                      {ATTEST_MASK, ATTEST_LSE}),
                            ATTEST_MASK, {1, 2}));
  cases.push_back(make_case("mask and bias, band",
                            [](P& p) {
                              p.window_left = 9;
                              p.window_right = 4;
                            },
                            {ATTEST_MASK, ATTEST_BIAS}));
  return cases;
}

inline std::vector<Case> cases_of_lengths() {
  std::vector<Case> cases;
  const std::vector<int32_t> packed{ATTEST_CU_SEQLENS_Q, ATTEST_CU_SEQLENS_KV, ATTEST_LSE};
  cases.push_back(make_case(
      "varlen",
      [](P& p) {
        p.batch = 5;
        p.seq_len_kv = 41;
      },
      packed));
  cases.push_back(make_case(
      "varlen, causal, bottom right",
      [](P& p) {
        p.batch = 5;
        p.seq_len_kv = 30;
        p.window_right = 0;
        p.diagonal = 1;
      },
      packed));
  cases.push_back(make_case("varlen, mask", [](P& p) { p.batch = 4; },
                            {ATTEST_CU_SEQLENS_Q, ATTEST_CU_SEQLENS_KV, ATTEST_MASK, ATTEST_LSE}));
  cases.push_back(
      make_case("queries packed", [](P& p) { p.batch = 3; }, {ATTEST_CU_SEQLENS_Q, ATTEST_LSE}));
  cases.push_back(
      make_case("keys packed", [](P& p) { p.batch = 4; }, {ATTEST_CU_SEQLENS_KV, ATTEST_LSE}));
  cases.push_back(make_case("seq_lens",
                            [](P& p) {
                              p.batch = 4;
                              p.window_right = 2;
                              p.diagonal = 1;
                            },
                            {ATTEST_SEQ_LENS_Q, ATTEST_SEQ_LENS_KV, ATTEST_LSE}));
  cases.push_back(
      make_case("seq_lens_kv", [](P& p) { p.batch = 1; }, {ATTEST_SEQ_LENS_KV, ATTEST_LSE}));
  cases.push_back(make_case("pages",
                            [](P& p) {
                              p.batch = 3;
                              p.num_heads = 4;
                              p.num_kv_heads = 1;
                              p.page_size = 8;
                            },
                            {ATTEST_PAGE_TABLE, ATTEST_SEQ_LENS_KV, ATTEST_LSE}));
  return cases;
}

inline std::vector<Case> cases_of_orders() {
  std::vector<Case> cases;
  cases.push_back(make_case("order",
                            [](P& p) {
                              p.batch = 2;
                              p.window_left = 6;
                              p.window_right = 0;
                            },
                            {ATTEST_ORDER, ATTEST_LSE}));
  cases.push_back(broadcast(make_case("one order for all",
                                      [](P& p) {
                                        p.batch = 3;
                                        p.window_right = 0;
                                      },
                                      {ATTEST_ORDER, ATTEST_LSE}),
                            ATTEST_ORDER, {0}));
  cases.push_back(make_case("order, seq_lens",
                            [](P& p) {
                              p.batch = 3;
                              p.window_right = 0;
                            },
                            {ATTEST_ORDER, ATTEST_SEQ_LENS_Q, ATTEST_SEQ_LENS_KV, ATTEST_LSE}));
  cases.push_back(make_case("order, bias", [](P&) {}, {ATTEST_ORDER, ATTEST_BIAS}));
  cases.push_back(
      make_case("patches", [](P& p) { p.patch_size = 16; }, {ATTEST_ORDER, ATTEST_LSE}));
  cases.push_back(make_case("patches that divide",
                            [](P& p) {
                              p.seq_len_q = 48;
                              p.patch_size = 16;
                            },
                            {ATTEST_LSE}));
  cases.push_back(make_case("a patch above all", [](P& p) { p.patch_size = 64; }, {ATTEST_LSE}));
  cases.push_back(make_case("patches, band",
                            [](P& p) {
                              p.patch_size = 16;
                              p.window_left = 6;
                              p.window_right = 2;
                            },
                            {ATTEST_LSE}));
  cases.push_back(make_case("patches, packed, order",
                            [](P& p) {
                              p.batch = 5;
                              p.patch_size = 16;
                            },
                            {ATTEST_CU_SEQLENS_Q, ATTEST_CU_SEQLENS_KV, ATTEST_ORDER, ATTEST_LSE}));
  cases.push_back(make_case("patches, seq_lens",
                            [](P& p) {
                              p.batch = 3;
                              p.patch_size = 16;
                            },
                            {ATTEST_SEQ_LENS_Q, ATTEST_SEQ_LENS_KV, ATTEST_LSE}));
  return cases;
}

inline std::vector<Case> cases_of_sinks_and_alibi() {
  std::vector<Case> cases;
  cases.push_back(make_case("sinks",
                            [](P& p) {
                              p.num_heads = 4;
                              p.num_kv_heads = 2;
                            },
                            {ATTEST_SINKS, ATTEST_LSE}));
  cases.push_back(make_case(
      "sinks, mask, rows without keys, bf16",
      [](P& p) {
        p.batch = 2;
        p.seq_len_kv = 20;
        p.window_right = 0;
        p.diagonal = 1;
      },
      {ATTEST_SINKS, ATTEST_MASK, ATTEST_LSE}, ATTEST_BF16));
  cases.push_back(make_case("sinks, varlen, window",
                            [](P& p) {
                              p.batch = 5;
                              p.window_left = 4;
                            },
                            {ATTEST_CU_SEQLENS_Q, ATTEST_CU_SEQLENS_KV, ATTEST_SINKS, ATTEST_LSE}));
  cases.push_back(make_case("alibi", [](P& p) { p.batch = 2; }, {ATTEST_ALIBI_SLOPES, ATTEST_LSE}));
  cases.push_back(broadcast(make_case("alibi, causal, bottom right",
                                      [](P& p) {
                                        p.batch = 2;
                                        p.seq_len_kv = 50;
                                        p.window_right = 0;
                                        p.diagonal = 1;
                                      },
                                      {ATTEST_ALIBI_SLOPES, ATTEST_LSE}),
                            ATTEST_ALIBI_SLOPES, {0}));
  cases.push_back(make_case("alibi, moved, mask, bias, band",
                            [](P& p) {
                              p.diagonal_offset = -6;
                              p.window_left = 9;
                              p.window_right = 4;
                            },
                            {ATTEST_ALIBI_SLOPES, ATTEST_BIAS, ATTEST_MASK, ATTEST_LSE}));
  cases.push_back(
      make_case("alibi, varlen, bottom right",
                [](P& p) {
                  p.batch = 5;
                  p.seq_len_kv = 30;
                  p.diagonal = 1;
                },
                {ATTEST_CU_SEQLENS_Q, ATTEST_CU_SEQLENS_KV, ATTEST_ALIBI_SLOPES, ATTEST_LSE}));
  cases.push_back(make_case(
      "alibi, equal keys far apart",
      [](P& p) {
        p.seq_len_kv = 300;
        p.head_dim = 1;
      },
      {ATTEST_ALIBI_SLOPES, ATTEST_LSE}, ATTEST_BF16));
  return cases;
}

inline std::vector<Case> cases_of_grids() {
  std::vector<Case> cases;
  cases.push_back(make_case("grid", [](P& p) { on_grid(p); }, {ATTEST_LSE}));
  cases.push_back(make_case("grid, shifted",
                            [](P& p) {
                              on_grid(p);
                              p.batch = 2;
                              p.shift_y = 2;
                              p.shift_x = 1;
                              p.shift_bias = -100;
                            },
                            {ATTEST_REL_BIAS, ATTEST_LSE}));
  cases.push_back(make_case("grid, shifted one way",
                            [](P& p) {
                              on_grid(p);
                              p.shift_x = 2;
                              p.shift_bias = -1;
                            },
                            {ATTEST_LSE}));
  cases.push_back(make_case("grid, shift_bias 0",
                            [](P& p) {
                              on_grid(p);
                              p.shift_x = 2;
                            },
                            {ATTEST_LSE}));
  cases.push_back(make_case("grid, mask, bias",
                            [](P& p) {
                              on_grid(p);
                              p.shift_y = 1;
                            },
                            {ATTEST_MASK, ATTEST_BIAS, ATTEST_REL_BIAS, ATTEST_LSE}));
  return cases;
}

inline std::vector<Case> cases_of_blocks_and_global_tokens() {
  std::vector<Case> cases;
  cases.push_back(make_case("block mask",
                            [](P& p) {
                              p.batch = 2;
                              p.block_q = 8;
                              p.block_kv = 5;
                            },
                            {ATTEST_BLOCK_MASK, ATTEST_LSE}));
  cases.push_back(broadcast(make_case("block mask of a sequence, mask, bias, causal",
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
  cases.push_back(broadcast(make_case("block mask of a head, packed, order, sinks",
                                      [](P& p) {
                                        p.batch = 4;
                                        p.block_q = p.block_kv = 6;
                                      },
                                      {ATTEST_BLOCK_MASK, ATTEST_CU_SEQLENS_Q, ATTEST_CU_SEQLENS_KV,
                                       ATTEST_ORDER, ATTEST_SINKS, ATTEST_LSE}),
                            ATTEST_BLOCK_MASK, {0}));
  cases.push_back(make_case("block mask, grid, rel_bias",
                            [](P& p) {
                              on_grid(p);
                              p.shift_y = 1;
                              p.block_q = 10;
                              p.block_kv = 7;
                            },
                            {ATTEST_BLOCK_MASK, ATTEST_REL_BIAS, ATTEST_LSE}));
  cases.push_back(make_case("block mask of one block",
                            [](P& p) {
                              p.batch = 2;
                              p.block_q = 37;
                              p.block_kv = 64;
                            },
                            {ATTEST_BLOCK_MASK, ATTEST_LSE}));
  cases.push_back(make_case("global tokens, band",
                            [](P& p) {
                              p.batch = 2;
                              p.window_left = 6;
                              p.window_right = 2;
                              p.global_tokens = 3;
                            },
                            {ATTEST_LSE}));
  cases.push_back(
      make_case("global tokens, causal, seq_lens, alibi",
                [](P& p) {
                  p.batch = 4;
                  p.window_right = 0;
                  p.global_tokens = 5;
                },
                {ATTEST_SEQ_LENS_Q, ATTEST_SEQ_LENS_KV, ATTEST_ALIBI_SLOPES, ATTEST_LSE}));
  cases.push_back(make_case(
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
  return cases;
}

inline std::vector<Case> cases_of_top_k() {
  std::vector<Case> cases;
  cases.push_back(make_case("top_k",
                            [](P& p) {
                              p.batch = 2;
                              p.top_k = 5;
                            },
                            {ATTEST_LSE}));
  cases.push_back(make_case("top_k, all ties, mask, bias, softcap, sinks",
                            [](P& p) {
                              p.num_heads = 4;
                              p.num_kv_heads = 2;
                              p.seq_len_kv = 50;
                              p.softcap = 3;
                              p.top_k = 9;
                              p.top_k_ties = ATTEST_TOP_K_ALL_TIES;
                            },
                            {ATTEST_MASK, ATTEST_BIAS, ATTEST_SINKS, ATTEST_LSE}));
  cases.push_back(make_case("top_k of one, causal, alibi",
                            [](P& p) {
                              p.window_right = 0;
                              p.top_k = 1;
                            },
                            {ATTEST_ALIBI_SLOPES, ATTEST_LSE}));
  cases.push_back(make_case("top_k of all, packed, order",
                            [](P& p) {
                              p.batch = 4;
                              p.top_k = p.seq_len_kv = p.seq_len_q;
                            },
                            {ATTEST_CU_SEQLENS_Q, ATTEST_CU_SEQLENS_KV, ATTEST_ORDER, ATTEST_LSE}));
  cases.push_back(make_case("top_k, grid, rel_bias",
                            [](P& p) {
                              on_grid(p);
                              p.shift_y = 1;
                              p.top_k = 4;
                            },
                            {ATTEST_REL_BIAS, ATTEST_LSE}));
  return cases;
}

inline std::vector<Case> cases_of_eight_bits() {
  std::vector<Case> cases;
  const std::vector<int32_t> factors{ATTEST_Q_DESCALE, ATTEST_K_DESCALE, ATTEST_V_DESCALE,
                                     ATTEST_LSE};
  cases.push_back(make_case("f8e4m3", [](P&) {}, {ATTEST_LSE}, ATTEST_F16, ATTEST_F8E4M3));
  cases.push_back(make_case(
      "f8e5m2, factors of heads, gqa, bias",
      [](P& p) {
        p.batch = 2;
        p.num_heads = 4;
        p.num_kv_heads = 2;
        p.seq_len_kv = 53;
      },
      {ATTEST_Q_DESCALE, ATTEST_K_DESCALE, ATTEST_V_DESCALE, ATTEST_BIAS, ATTEST_LSE}, ATTEST_F32,
      ATTEST_F8E5M2));
  cases.push_back(broadcast(make_case(
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
  cases.push_back(make_case(
      "f8e4m3, factors of blocks, packed, order",
      [](P& p) {
        p.batch = 4;
        p.descale_block_q = 5;
        p.descale_block_kv = 5;
        p.window_left = 9;
      },
      {ATTEST_CU_SEQLENS_Q, ATTEST_CU_SEQLENS_KV, ATTEST_ORDER, ATTEST_Q_DESCALE, ATTEST_K_DESCALE,
       ATTEST_V_DESCALE, ATTEST_LSE},
      ATTEST_F32, ATTEST_F8E4M3));
  cases.push_back(make_case(
      "f8e5m2, factors, pages, top_k",
      [](P& p) {
        p.batch = 3;
        p.page_size = 8;
        p.top_k = 6;
      },
      {ATTEST_PAGE_TABLE, ATTEST_SEQ_LENS_KV, ATTEST_K_DESCALE, ATTEST_V_DESCALE, ATTEST_LSE},
      ATTEST_F16, ATTEST_F8E5M2));
  cases.push_back(make_case(
      "f8e4m3, factors of blocks, grid",
      [](P& p) {
        on_grid(p);
        p.shift_x = 1;
        p.descale_block_q = 10;
        p.descale_block_kv = 13;
      },
      factors, ATTEST_F16, ATTEST_F8E4M3));
  return cases;
}

/// Memory holds one token's heads side by side, and V one channel's tokens.
inline Case heads_between_channels() {
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
  return c;
}

inline std::vector<Case> cases_of_storage_and_tiles() {
  std::vector<Case> cases;
  cases.push_back(
      make_case("f16", [](P& p) { p.head_dim = 24; }, {ATTEST_LSE, ATTEST_BIAS}, ATTEST_F16));
  cases.push_back(make_case("bf16", [](P& p) { p.head_dim = 24; }, {ATTEST_LSE}, ATTEST_BF16));
  cases.push_back(make_case("several tiles",
                            [](P& p) {
                              p.num_heads = 4;
                              p.num_kv_heads = 2;
                              p.seq_len_q = 131;
                              p.seq_len_kv = 700;
                              p.head_dim = 40;
                              p.head_dim_v = 24;
                            },
                            {ATTEST_LSE}));
  cases.push_back(make_case("several tiles, causal",
                            [](P& p) {
                              p.seq_len_q = 700;
                              p.window_right = 0;
                              p.head_dim = 17;
                            },
                            {ATTEST_LSE}));
  cases.push_back(heads_between_channels());
  return cases;
}

/// Small problems that together use every feature.
inline std::vector<Case> all_cases() {
  std::vector<Case> all;
  for (auto* const cases :
       {cases_of_shapes, cases_of_bands, cases_of_bias_and_mask, cases_of_lengths, cases_of_orders,
        cases_of_sinks_and_alibi, cases_of_grids, cases_of_blocks_and_global_tokens, cases_of_top_k,
        cases_of_eight_bits, cases_of_storage_and_tiles}) {
    for (Case& c : cases()) all.push_back(std::move(c));
  }
  return all;
}

}  // namespace attest::core::testing
