// flash_cpu: tiled softmax attention with an online softmax, O(tokens * head_dim) memory,
// vectorised and threaded. Everything is computed in float32, whatever the storage. The kernel is
// simd/attend.cpp; this file shares out the work: one task is a group of query blocks of one
// (batch, head), which walks over all keys with the tiles in cache.
#include <algorithm>

#include "attest.hpp"
#include "simd/softmax.hpp"

namespace {

struct FlashCpu {
  static constexpr attest::Info kInfo{
      .name = "flash_cpu",
      .version = "1",
      .summary = "tiled online softmax in float32, SIMD and threads",
      .dtypes = ATTEST_BIT(ATTEST_F32) | ATTEST_BIT(ATTEST_F16) | ATTEST_BIT(ATTEST_BF16),
      .features = ATTEST_WITH_GQA | ATTEST_WITH_HEAD_DIM_V | ATTEST_WITH_CAUSAL |
                  ATTEST_WITH_WINDOW | ATTEST_WITH_DIAGONAL | ATTEST_WITH_SOFTCAP |
                  ATTEST_WITH_BIAS | ATTEST_WITH_MASK | ATTEST_WITH_LSE | ATTEST_WITH_VARLEN |
                  ATTEST_WITH_SEQ_LENS | ATTEST_WITH_PAGES | ATTEST_WITH_STRIDES |
                  ATTEST_WITH_UNALIGNED | ATTEST_WITH_ALIBI | ATTEST_WITH_SINKS};

  const attest_problem& problem;

  struct Plan {
    int64_t group, groups;  // queries a task, tasks a (batch, head)
    size_t scratch_bytes;   // of one thread
  };
  static Plan plan(const attest_problem& problem) {
    const attest_softmax_params& p = impls::softmax_params(problem);
    const impls::Tiling tiling = impls::tiling(p.head_dim, p.head_dim_v);
    const int64_t group =
        impls::group_queries(p.seq_len_q, p.batch * p.num_heads, problem.threads, tiling);
    return {group, (p.seq_len_q + group - 1) / group,
            impls::scratch_bytes(p.head_dim, p.head_dim_v, group)};
  }

  static const char* query(const attest_problem& problem, attest_support& support) {
    if (const char* reason = impls::why_not(problem)) return reason;
    const attest_softmax_params& p = impls::softmax_params(problem);
    impls::declare_float32(support);
    support.sum_chain = impls::tiling(p.head_dim, p.head_dim_v).sum_chain(p.seq_len_kv);
    support.workspace_bytes = static_cast<size_t>(problem.threads) * plan(problem).scratch_bytes;
    return nullptr;
  }

  struct Head {  // one (batch, head)
    impls::Lengths lengths;
    impls::Slice slice;
  };
  Head head_of(void* const* data, int64_t head) const {
    const int64_t heads = impls::softmax_params(problem).num_heads, b = head / heads;
    const impls::Lengths lengths = impls::lengths(problem, data, b);
    return {lengths, impls::softmax_slice(problem, data, b, head % heads, lengths)};
  }

  template <class T>
  void run(void* const* data, void* workspace, void* /*stream*/) const {
    const attest_softmax_params& p = impls::softmax_params(problem);
    const Plan work = plan(problem);
    impls::share(p.batch * p.num_heads * work.groups, problem.threads, workspace,
                 work.scratch_bytes, [&](int64_t task, void* scratch) {
                   const Head head = head_of(data, task / work.groups);
                   impls::Slice slice = head.slice;
                   // Tasks are taken last first, one a thread.
                   const int64_t next_head = (task - problem.threads) / work.groups;
                   Head next;
                   if (task >= problem.threads && next_head != task / work.groups) {
                     next = head_of(data, next_head);
                     slice.next = &next.slice;
                     slice.next_keys = next.lengths.kv;
                   }
                   const impls::Lengths& n = head.lengths;
                   const int64_t begin = task % work.groups * work.group, end = begin + work.group;
                   if (begin < n.q)
                     impls::attend(slice, {begin, std::min(end, n.q)}, {0, n.kv}, scratch);
                   if (end > n.q)
                     impls::clear_rows(slice, {std::max(begin, n.q), std::min(end, n.rows_q)});
                 });
  }
};

}  // namespace

ATTEST_PLUGIN(attest::table<FlashCpu>())
