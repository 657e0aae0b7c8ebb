// Softmax attention over the top_k keys of each row (flash_cpu): one task is a block of queries of
// one (batch, head). The kernel is simd/softmax/top_k.cpp.
#pragma once

#include <algorithm>

#include "simd/softmax/softmax.hpp"
#include "simd/softmax/top_k.hpp"

namespace impls {

struct FlashTopK {
  const attest_problem& problem;

  const attest_softmax_params& params() const { return softmax_params(problem); }
  TopK top_k() const {
    const attest_softmax_params& p = params();
    return {p.top_k, p.seq_len_kv, p.top_k_ties == ATTEST_TOP_K_ALL_TIES};
  }
  size_t scratch_bytes() const {
    return top_k_kernel().scratch_bytes(top_k(), params().head_dim, params().head_dim_v);
  }

  void declare(attest_support& support) const {
    const attest_softmax_params& p = params();
    support.stage[ATTEST_SOFTMAX_PROBABILITY].rel_error = kExp2Error;
    support.sum_chain = p.top_k_ties == ATTEST_TOP_K_ALL_TIES ? p.seq_len_kv : p.top_k;
    support.workspace_bytes = static_cast<uint64_t>(problem.threads) * scratch_bytes();
  }

  void run(void* const* data, void* workspace) const {
    const attest_softmax_params& p = params();
    const int64_t block = top_k_kernel().queries, blocks = ceil_div(p.seq_len_q, block);
    share(p.batch * p.num_heads * blocks, problem.threads, workspace, scratch_bytes(),
          [&](int64_t task, void* scratch) {
            const int64_t head = task / blocks, b = head / p.num_heads;
            const Lengths n = lengths(problem, data, b);
            const Slice slice = softmax_slice(problem, data, b, head % p.num_heads, n);
            const int64_t begin = task % blocks * block, end = begin + block;
            if (begin < n.q)
              top_k_kernel().attend(slice, top_k(), {begin, std::min(end, n.q)}, {0, n.kv},
                                    scratch);
            const Range unused{std::max(begin, n.q), std::min(end, n.rows_q)};
            if (unused.begin < unused.end) clear_rows(slice, unused);
          });
  }
};

}  // namespace impls
