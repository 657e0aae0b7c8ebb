// Problems of gradients with memory behind every tensor, for tests.
#pragma once
#include <array>
#include <functional>
#include <vector>

#include "core/operations/softmax_backward/backward.hpp"

namespace attest::core::testing {

struct BackwardShape {
  int64_t batch = 1, num_heads = 1, num_kv_heads = 1, seq_len_q = 0, seq_len_kv = -1, head_dim = 8,
          head_dim_v = -1;
  int64_t window_left = -1, window_right = -1;  // window_right 0: causal
  int32_t diagonal = ATTEST_TOP_LEFT;
  float softmax_scale = 0, softcap = 0;
  std::vector<int64_t> slopes = {};                            // dims of ALIBI_SLOPES; empty: none
  std::vector<int64_t> bias = {}, mask = {}, block_mask = {};  // dims; empty: none
  int64_t block_q = 0, block_kv = 0, global_tokens = 0, patch_size = 0;
  bool dbias = false, sinks = false, seq_lens_q = false, seq_lens_kv = false;
  bool cu_seqlens_q = false, cu_seqlens_kv = false, order = false;
  int64_t grid_height = 0, grid_width = 0, window_height = 0, window_width = 0, shift_y = 0,
          shift_x = 0;
  float shift_bias = 0;
  bool rel_bias = false, drel_bias = false, dsinks = false;
  int64_t top_k = 0;
  int32_t top_k_ties = ATTEST_TOP_K_FIRST;
  DType stored = ATTEST_NONE;  // of Q, K and V: 8 bits, or as the others
  // Dims of factors; empty: none.
  std::vector<int64_t> q_descale = {}, k_descale = {}, v_descale = {};
  int64_t descale_block_q = 0, descale_block_kv = 0;
  DType o_dtype = ATTEST_NONE, gradient_dtype = ATTEST_NONE;  // of O, of outputs; as the others
};

struct BackwardCase {
  Problem problem;
  Fill fill;
  std::array<std::vector<char>, ATTEST_ROLES> memory;
  Tensors tensors{};

  BackwardCase(const BackwardShape& s, DType dtype, const Fill& inputs)
      : problem(blank_problem(softmax_backward_operation(), dtype)), fill(inputs) {
    auto& p = problem.as<attest_softmax_params>();
    p.batch = s.batch;
    p.num_heads = s.num_heads;
    p.num_kv_heads = s.num_kv_heads;
    p.seq_len_q = s.seq_len_q;
    p.seq_len_kv = s.seq_len_kv;
    p.head_dim = s.head_dim;
    p.head_dim_v = s.head_dim_v;
    p.window_left = s.window_left;
    p.window_right = s.window_right;
    p.diagonal = s.diagonal;
    p.softmax_scale = s.softmax_scale;
    p.softcap = s.softcap;
    p.block_q = s.block_q;
    p.block_kv = s.block_kv;
    p.global_tokens = s.global_tokens;
    p.patch_size = s.patch_size;
    p.top_k = s.top_k;
    p.top_k_ties = s.top_k_ties;
    p.grid_height = s.grid_height;
    p.grid_width = s.grid_width;
    p.window_height = s.window_height;
    p.window_width = s.window_width;
    p.descale_block_q = s.descale_block_q;
    p.descale_block_kv = s.descale_block_kv;
    p.shift_y = s.shift_y;
    p.shift_x = s.shift_x;
    p.shift_bias = s.shift_bias;
    if (!s.bias.empty()) problem.tensor[ATTEST_BIAS] = dense_tensor(dtype, ATTEST_READ, s.bias);
    if (!s.mask.empty())
      problem.tensor[ATTEST_MASK] = dense_tensor(ATTEST_BOOL, ATTEST_READ, s.mask);
    if (!s.slopes.empty())
      problem.tensor[ATTEST_ALIBI_SLOPES] = dense_tensor(ATTEST_F32, ATTEST_READ, s.slopes);
    if (!s.block_mask.empty())
      problem.tensor[ATTEST_BLOCK_MASK] = dense_tensor(ATTEST_BOOL, ATTEST_READ, s.block_mask);
    if (s.sinks)
      problem.tensor[ATTEST_SINKS] =
          dense_tensor(ATTEST_F32, ATTEST_READ, std::vector<int64_t>{s.num_heads});
    for (const auto& [role, present] :
         {std::pair{ATTEST_SEQ_LENS_Q, s.seq_lens_q}, std::pair{ATTEST_SEQ_LENS_KV, s.seq_lens_kv}})
      if (present)
        problem.tensor[size_t(role)] =
            dense_tensor(ATTEST_I32, ATTEST_READ, std::vector<int64_t>{s.batch});
    for (const auto& [role, present] : {std::pair{ATTEST_CU_SEQLENS_Q, s.cu_seqlens_q},
                                        std::pair{ATTEST_CU_SEQLENS_KV, s.cu_seqlens_kv}})
      if (present)
        problem.tensor[size_t(role)] =
            dense_tensor(ATTEST_I32, ATTEST_READ, std::vector<int64_t>{s.batch + 1});
    if (s.order) problem.tensor[ATTEST_ORDER].dtype = ATTEST_I32;  // dims() sees that it is there
    softmax_backward_operation().complete(problem);
    if (s.order)
      problem.tensor[ATTEST_ORDER] = dense_tensor(
          ATTEST_I32, ATTEST_READ, softmax_backward_operation().dims(problem, ATTEST_ORDER));
    const auto set = [&](int32_t role, DType of, int32_t access) {
      if (of != ATTEST_NONE)
        problem.tensor[size_t(role)] =
            dense_tensor(of, access, softmax_backward_operation().dims(problem, role));
    };
    set(ATTEST_O, s.o_dtype, ATTEST_READ);
    for (const int32_t role : {ATTEST_Q, ATTEST_K, ATTEST_V}) set(role, s.stored, ATTEST_READ);
    for (const auto& [role, dims] : {std::pair(int32_t{ATTEST_Q_DESCALE}, s.q_descale),
                                     {ATTEST_K_DESCALE, s.k_descale},
                                     {ATTEST_V_DESCALE, s.v_descale}})
      if (!dims.empty()) problem.tensor[size_t(role)] = dense_tensor(ATTEST_F32, ATTEST_READ, dims);
    for (const int32_t role : {ATTEST_DQ, ATTEST_DK, ATTEST_DV})
      set(role, s.gradient_dtype, ATTEST_WRITE);
    if (s.rel_bias) set(ATTEST_REL_BIAS, dtype, ATTEST_READ);
    if (s.drel_bias)
      set(ATTEST_DREL_BIAS, s.gradient_dtype == ATTEST_NONE ? dtype : s.gradient_dtype,
          ATTEST_WRITE);
    if (s.dsinks) set(ATTEST_DSINKS, ATTEST_F32, ATTEST_WRITE);
    if (s.dbias)
      set(ATTEST_DBIAS, s.gradient_dtype == ATTEST_NONE ? dtype : s.gradient_dtype, ATTEST_WRITE);
    finish_problem(problem);
    for (size_t role = 0; role < ATTEST_ROLES; ++role) {
      memory[role].resize(size_t(extent_bytes(problem.tensor[role])));
      tensors[role] = {problem.tensor[role], memory[role].data()};
    }
    softmax_backward_operation().fill(problem, fill, tensors, false);
  }
  const attest_softmax_params& p() const { return problem.as<attest_softmax_params>(); }
};

}  // namespace attest::core::testing
