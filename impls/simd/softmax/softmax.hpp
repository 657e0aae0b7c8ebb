// From a softmax problem and its data to the slices that attend.hpp takes, and the sharing of their
// work among threads.
#pragma once

#include <omp.h>

#include <algorithm>
#include <cstdint>

#include "attest.h"
#include "simd/sizes.hpp"
#include "simd/softmax/attend.hpp"
#include "simd/storage.hpp"

namespace impls {

constexpr int64_t kMaxHeadDim = 512;

inline const attest_softmax_params& softmax_params(const attest_problem& problem) {
  return *static_cast<const attest_softmax_params*>(problem.params);
}

/// Why the tensors or sizes of a problem are not for these kernels; null if they are.
inline const char* why_not(const attest_problem& problem) {
  const attest_softmax_params& p = softmax_params(problem);
  if (p.head_dim > kMaxHeadDim || p.head_dim_v > kMaxHeadDim)
    return "head_dim or head_dim_v above 512";
  for (const int role : {ATTEST_Q, ATTEST_K, ATTEST_V, ATTEST_O}) {
    const attest_tensor& t = problem.tensor[role];
    if (t.dim[3] > 1 && t.stride[3] != 1)
      return "the elements of a row of Q, K, V or O are not contiguous";
  }
  return nullptr;
}

struct Lengths {              // of one sequence
  int64_t q, kv;              // rows that count
  int64_t rows_q;             // rows there are: those from q on get o = 0, lse = -inf
  int64_t first_q, first_kv;  // where its rows start (packed)
};

inline Lengths lengths(const attest_problem& problem, void* const* data, int64_t b) {
  const attest_softmax_params& p = softmax_params(problem);
  const auto ints = [&](int role) { return static_cast<const int32_t*>(data[role]); };
  const auto at = [&](int role, int64_t i) -> int64_t {
    return ints(role)[i * problem.tensor[role].stride[0]];
  };
  Lengths n{p.seq_len_q, p.seq_len_kv, p.seq_len_q, 0, 0};
  if (ints(ATTEST_CU_SEQLENS_Q) != nullptr) {
    n.first_q = at(ATTEST_CU_SEQLENS_Q, b);
    n.q = n.rows_q = at(ATTEST_CU_SEQLENS_Q, b + 1) - n.first_q;
  }
  if (ints(ATTEST_CU_SEQLENS_KV) != nullptr) {
    n.first_kv = at(ATTEST_CU_SEQLENS_KV, b);
    n.kv = at(ATTEST_CU_SEQLENS_KV, b + 1) - n.first_kv;
  }
  if (ints(ATTEST_SEQ_LENS_Q) != nullptr) n.q = std::min<int64_t>(n.q, at(ATTEST_SEQ_LENS_Q, b));
  if (ints(ATTEST_SEQ_LENS_KV) != nullptr)
    n.kv = std::min<int64_t>(n.kv, at(ATTEST_SEQ_LENS_KV, b));
  return n;
}

/// The slice of (batch b, head h), with all that is not a patch or a grid.
inline Slice softmax_slice(const attest_problem& problem, void* const* data, int64_t b, int64_t h,
                           const Lengths& n) {
  const attest_softmax_params& p = softmax_params(problem);
  const attest_tensor* const t = problem.tensor;
  const int64_t kv_head = h / (p.num_heads / p.num_kv_heads);
  const int64_t size = t[ATTEST_Q].dtype == ATTEST_F32 ? 4 : 2;
  const auto at = [&](int role, int64_t batch, int64_t head, int64_t row) {
    const int64_t element =
        batch * t[role].stride[0] + head * t[role].stride[1] + row * t[role].stride[2];
    return static_cast<char*>(data[role]) +
           element * (role == ATTEST_LSE                                 ? 4
                      : role == ATTEST_MASK || role == ATTEST_BLOCK_MASK ? 1
                                                                         : size);
  };
  const int64_t batch_q = data[ATTEST_CU_SEQLENS_Q] != nullptr ? 0 : b,
                batch_kv =
                    data[ATTEST_CU_SEQLENS_KV] != nullptr || data[ATTEST_PAGE_TABLE] != nullptr ? 0
                                                                                                : b;
  Slice s;
  s.dtype = t[ATTEST_Q].dtype;
  s.q = at(ATTEST_Q, batch_q, h, n.first_q);
  s.k = at(ATTEST_K, batch_kv, kv_head, n.first_kv);
  s.v = at(ATTEST_V, batch_kv, kv_head, n.first_kv);
  s.o = at(ATTEST_O, batch_q, h, n.first_q);
  s.q_stride = t[ATTEST_Q].stride[2];
  s.k_stride = t[ATTEST_K].stride[2];
  s.v_stride = t[ATTEST_V].stride[2];
  s.o_stride = t[ATTEST_O].stride[2];
  if (data[ATTEST_PAGE_TABLE] != nullptr) {
    s.pages =
        static_cast<const int32_t*>(data[ATTEST_PAGE_TABLE]) + b * t[ATTEST_PAGE_TABLE].stride[0];
    s.page_size = p.page_size;
    s.pages_stride = t[ATTEST_PAGE_TABLE].stride[1];
    s.k_page_stride = t[ATTEST_K].stride[0];
    s.v_page_stride = t[ATTEST_V].stride[0];
  }
  if (data[ATTEST_LSE] != nullptr) {
    s.lse = reinterpret_cast<float*>(at(ATTEST_LSE, batch_q, h, n.first_q));
    s.lse_stride = t[ATTEST_LSE].stride[2];
  }
  if (data[ATTEST_BIAS] != nullptr) {
    s.bias = at(ATTEST_BIAS, b, h, 0);
    s.bias_stride_q = t[ATTEST_BIAS].stride[2];
    s.bias_stride_kv = t[ATTEST_BIAS].stride[3];
  }
  if (data[ATTEST_MASK] != nullptr) {
    s.mask = reinterpret_cast<const uint8_t*>(at(ATTEST_MASK, b, h, 0));
    s.mask_stride_q = t[ATTEST_MASK].stride[2];
    s.mask_stride_kv = t[ATTEST_MASK].stride[3];
  }
  if (data[ATTEST_BLOCK_MASK] != nullptr) {
    s.block_mask = reinterpret_cast<const uint8_t*>(at(ATTEST_BLOCK_MASK, b, h, 0));
    s.block_mask_stride_q = t[ATTEST_BLOCK_MASK].stride[2];
    s.block_mask_stride_kv = t[ATTEST_BLOCK_MASK].stride[3];
    s.block_q = p.block_q;
    s.block_kv = p.block_kv;
  }
  s.global_tokens = p.global_tokens;
  if (data[ATTEST_SINKS] != nullptr)
    s.sink = static_cast<const float*>(data[ATTEST_SINKS])[h * t[ATTEST_SINKS].stride[0]];
  if (data[ATTEST_ALIBI_SLOPES] != nullptr)
    s.alibi_slope =
        static_cast<const float*>(data[ATTEST_ALIBI_SLOPES])[b * t[ATTEST_ALIBI_SLOPES].stride[0] +
                                                             h * t[ATTEST_ALIBI_SLOPES].stride[1]];
  s.head_dim = p.head_dim;
  s.head_dim_v = p.head_dim_v;
  s.softmax_scale = p.softmax_scale;
  s.softcap = p.softcap;
  s.window_left = p.window_left;
  s.window_right = p.window_right;
  s.offset = p.diagonal_offset + (p.diagonal == ATTEST_BOTTOM_RIGHT ? n.kv - n.q : 0);
  return s;
}

/// For how many queries TileKernel::scratch_bytes has to make room where calls have `queries`.
/// Blocks of queries may be smaller beside a block mask: two vectors instead of three.
inline int64_t scratch_queries(const attest_problem& problem, int64_t queries) {
  return (problem.features & ATTEST_WITH_BLOCK_MASK) != 0 ? (3 * queries + 1) / 2 : queries;
}

/// The longest chain of float additions in a row's sum over `keys` keys. Tiles are cut into pieces,
/// each with a sum of its own, where blocks are skipped and behind global tokens.
inline int64_t sum_chain(const attest_problem& problem, const Tiling& tiling, int64_t keys) {
  const attest_softmax_params& p = softmax_params(problem);
  int64_t pieces = p.global_tokens > 0 ? 1 : 0;
  if (p.block_kv > 0) pieces += keys / piece_keys(p.block_kv) + 1;
  return tiling.sum_chain(keys) + pieces;
}

/// Queries a task: as many as share a tile well, fewer where threads would go idle, even groups,
/// whole vectors.
inline int64_t group_queries(int64_t queries, int64_t slices, int threads, const Tiling& t) {
  const int64_t fair = threads == 1 ? queries : ceil_div(queries * slices, 3 * int64_t{threads});
  const int64_t most = std::clamp<int64_t>(round_up(fair, t.lanes), t.lanes, t.queries);
  const int64_t groups = std::max<int64_t>(1, ceil_div(queries, most));
  return round_up(ceil_div(queries, groups), t.lanes);
}

/// Calls work(task, scratch of the calling thread) for every task, last first: with a causal mask
/// the last are the longest.
template <class Work>
void share(int64_t tasks, int threads, void* workspace, size_t bytes_a_thread, const Work& work) {
#pragma omp parallel for schedule(dynamic, 1) num_threads(threads)
  for (int64_t task = 0; task < tasks; ++task)
    work(tasks - 1 - task, static_cast<char*>(workspace) +
                               static_cast<size_t>(omp_get_thread_num()) * bytes_a_thread);
}

}  // namespace impls
