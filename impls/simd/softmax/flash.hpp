// The scheduling of tiled softmax attention (flash_cpu, flash_cpu_bf16): one task is a group of
// query blocks of one (batch, head), which walks over all keys with the tiles in cache. Few queries
// have a task for each part of the keys.
//   struct Mine : impls::Float32Tiles { static constexpr attest::Info kInfo{...}; };
//   ATTEST_PLUGIN(attest::table<impls::Flash<Mine>>())
#pragma once

#include <algorithm>
#include <array>
#include <atomic>

#include "attest.hpp"
#include "simd/sizes.hpp"
#include "simd/softmax/flash_top_k.hpp"
#include "simd/softmax/softmax.hpp"

namespace impls {

constexpr uint64_t kFlashFeatures =
    ATTEST_WITH_GQA | ATTEST_WITH_HEAD_DIM_V | ATTEST_WITH_CAUSAL | ATTEST_WITH_WINDOW |
    ATTEST_WITH_DIAGONAL | ATTEST_WITH_SOFTCAP | ATTEST_WITH_BIAS | ATTEST_WITH_MASK |
    ATTEST_WITH_LSE | ATTEST_WITH_VARLEN | ATTEST_WITH_SEQ_LENS | ATTEST_WITH_PAGES |
    ATTEST_WITH_STRIDES | ATTEST_WITH_UNALIGNED | ATTEST_WITH_ALIBI | ATTEST_WITH_SINKS |
    ATTEST_WITH_BLOCK_MASK | ATTEST_WITH_GLOBAL;

/// An implementation by the tile kernel `Tiles` (attend.hpp), which has a kInfo besides.
template <class Tiles>
struct Flash {
  static constexpr attest::Info kInfo = Tiles::kInfo;

  const attest_problem& problem;

  /// One task is a group of query blocks of a head, with all keys or a part of them.
  struct Plan {
    const TileKernel* kernel;
    int64_t together;       // query heads of one query each that share K and V: one head of rows
    int64_t heads;          // of all sequences, those taken together counted once
    int64_t group, groups;  // queries a task, groups a head
    int64_t parts, part_keys;
    // The table of a bias that sequences share has as many heads as the bias. Each head takes
    // `table_floats` floats. There is no table if the stride is 0.
    int64_t table_stride = 0, table_heads = 0, table_floats = 0;
    size_t table_bytes = 0;
    size_t scratch_bytes;  // of a thread; of a task where there are parts
    size_t workspace_bytes;
    int64_t tasks() const { return heads * groups * parts; }
  };
  // A bias gets a table if at least kMinTableSequences sequences share it and the table has at most
  // kMaxTableBytes.
  static constexpr int64_t kMinTableSequences = 4, kMaxTableBytes = int64_t{4} << 20;
  // A few queries are split over keys, so that this many tasks keep the threads busy. It does not
  // depend on the threads: any number of them gives the same bits.
  static constexpr int64_t kPartTasks = 32, kMinPartKeys = 2048, kPartQueries = 16;

  static Plan plan(const attest_problem& problem) {
    const attest_softmax_params& p = softmax_params(problem);
    Plan work;
    work.kernel = &Tiles::kernel(problem, p.seq_len_q);
    const Tiling tiling = work.kernel->tiling(p.head_dim, p.head_dim_v);
    work.together = heads_together(problem, tiling);
    work.heads = p.batch * p.num_heads / work.together;
    const int64_t queries = p.seq_len_q * work.together;
    work.parts = parts_of(queries, work.heads, p.seq_len_kv);
    work.part_keys = round_up(ceil_div(p.seq_len_kv, work.parts), tiling.keys);
    const int threads = work.parts > 1 || work.together > 1 ? 1 : problem.threads;
    work.group = group_queries(queries, work.heads, threads, tiling);
    work.groups = ceil_div(queries, work.group);
    work.scratch_bytes =
        work.kernel->scratch_bytes(p.head_dim, p.head_dim_v, scratch_queries(problem, work.group));
    plan_table(problem, work);
    work.workspace_bytes =
        work.table_bytes +
        work.scratch_bytes *
            static_cast<size_t>(work.parts > 1 ? work.tasks() : int64_t{problem.threads});
    return work;
  }

  /// A bias that several sequences share is transposed once, not for each of them.
  static void plan_table(const attest_problem& problem, Plan& work) {
    constexpr uint64_t kNotInTable = ATTEST_WITH_MASK | ATTEST_WITH_BLOCK_MASK;
    const attest_softmax_params& p = softmax_params(problem);
    const attest_tensor& bias = problem.tensor[ATTEST_BIAS];
    if (bias.dtype == ATTEST_NONE || (problem.features & kNotInTable) != 0 || work.parts > 1 ||
        work.together > 1 || p.batch < kMinTableSequences || bias.dim[0] != 1 || bias.dim[2] == 1)
      return;
    const int64_t stride = round_up(p.seq_len_q, kWidestVector),
                  floats = stride * round_up(p.seq_len_kv, kPairKeys),
                  bytes = round_up(4 * floats * bias.dim[1], 256);
    if (bytes > kMaxTableBytes) return;
    work.table_stride = stride;
    work.table_heads = bias.dim[1];
    work.table_floats = floats;
    work.table_bytes = static_cast<size_t>(bytes);
  }
  void fill_tables(void* const* data, const Plan& work, float* tables) const {
    const attest_softmax_params& p = softmax_params(problem);
#pragma omp parallel for num_threads(problem.threads)
    for (int64_t h = 0; h < work.table_heads; ++h)
      work.kernel->fill_table(softmax_slice(problem, data, 0, h, {}), p.seq_len_q, p.seq_len_kv,
                              tables + h * work.table_floats, work.table_stride);
  }

  /// Decoding: the one query of each head that shares K and V stands beside the others.
  static int64_t heads_together(const attest_problem& problem, const Tiling& tiling) {
    const attest_softmax_params& p = softmax_params(problem);
    const int64_t repeat = p.num_heads / p.num_kv_heads;
    const bool differ = problem.features & (ATTEST_WITH_ALIBI | ATTEST_WITH_SINKS |
                                            ATTEST_WITH_BLOCK_MASK | ATTEST_WITH_GLOBAL);
    return p.seq_len_q == 1 && !differ && repeat <= tiling.queries ? repeat : 1;
  }
  static int64_t parts_of(int64_t queries, int64_t heads, int64_t keys) {
    if (queries > kPartQueries || heads >= kPartTasks) return 1;
    return std::max<int64_t>(1, std::min(kPartTasks / heads, keys / kMinPartKeys));
  }

  static const char* query(const attest_problem& problem, attest_support& support) {
    if (const char* reason = Tiles::refusal()) return reason;
    if (const char* reason = impls::why_not(problem)) return reason;
    const attest_softmax_params& p = softmax_params(problem);
    if (p.top_k > 0) {
      FlashTopK{problem}.declare(support);
      return nullptr;
    }
    const Plan work = plan(problem);
    Tiles::declare(support, problem, p.seq_len_q);
    support.sum_chain =
        sum_chain(problem, work.kernel->tiling(p.head_dim, p.head_dim_v), work.part_keys) +
        work.parts;
    support.workspace_bytes = work.workspace_bytes;
    return nullptr;
  }

  struct Head {
    Slice slice;
    Range keys;
    int64_t queries, rows;  // those from `queries` on do not count
  };
  Head head_of(void* const* data, const Plan& work, int64_t n) const {
    const int64_t heads = softmax_params(problem).num_heads, first = n * work.together;
    const Lengths lengths = impls::lengths(problem, data, first / heads);
    Head head{softmax_slice(problem, data, first / heads, first % heads, lengths),
              {0, lengths.kv},
              lengths.q * work.together,
              lengths.rows_q * work.together};
    if (work.together > 1) put_together(head);
    return head;
  }
  /// Heads of one query as rows of one head. All are at the same position.
  void put_together(Head& head) const {
    Slice& s = head.slice;
    const attest_tensor* const t = problem.tensor;
    s.q_stride = t[ATTEST_Q].stride[1];
    s.o_stride = t[ATTEST_O].stride[1];
    if (s.lse != nullptr) s.lse_stride = t[ATTEST_LSE].stride[1];
    if (s.bias != nullptr) s.bias_stride_q = t[ATTEST_BIAS].stride[1];
    if (s.mask != nullptr) s.mask_stride_q = t[ATTEST_MASK].stride[1];
    Range& keys = head.keys;
    if (s.window_left >= 0) keys.begin = std::max(keys.begin, s.offset - s.window_left);
    if (s.window_right >= 0) keys.end = std::min(keys.end, s.offset + s.window_right + 1);
    keys.end = std::max(keys.begin, keys.end);
    s.window_left = s.window_right = -1;
  }

  template <class T>
  void run(void* const* data, void* workspace, void* /*stream*/) const {
    if (softmax_params(problem).top_k > 0) return FlashTopK{problem}.run(data, workspace);
    const Plan work = plan(problem);
    if (work.parts > 1) return run_parts(data, work, static_cast<char*>(workspace));
    const float* tables = nullptr;
    if (work.table_stride > 0) {
      fill_tables(data, work, static_cast<float*>(workspace));
      tables = static_cast<const float*>(workspace);
    }
    share(work.tasks(), problem.threads, static_cast<char*>(workspace) + work.table_bytes,
          work.scratch_bytes, [&](int64_t task, void* scratch) {
            Head head = head_of(data, work, task / work.groups), next;
            if (tables != nullptr) {
              // If the bias has one head, all heads use that head's table.
              const int64_t h = task / work.groups % work.table_heads;
              head.slice.pair_table = tables + h * work.table_floats;
              head.slice.pair_table_stride = work.table_stride;
              head.slice.bias_in_table = true;
            }
            // Tasks are taken last first, one a thread.
            const int64_t next_head = (task - problem.threads) / work.groups;
            if (task >= problem.threads && next_head != task / work.groups) {
              next = head_of(data, work, next_head);
              head.slice.next = &next.slice;
              head.slice.next_keys = next.keys;
              head.slice.next_queries = {(work.groups - 1) * work.group, next.queries};
            }
            const int64_t begin = task % work.groups * work.group, end = begin + work.group;
            if (begin < head.queries)
              attend(*work.kernel, head.slice, {begin, std::min(end, head.queries)}, head.keys,
                     scratch);
            clear(head, {begin, end});
          });
  }

  /// Each part of a head's keys by itself. The thread that ends a head's last part merges them all.
  void run_parts(void* const* data, const Plan& work, char* workspace) const {
    const size_t bytes = work.scratch_bytes;
    std::array<std::atomic<int64_t>, kPartTasks> missing;  // parts of each head
    for (auto& count : missing) count = work.parts;
    share(work.tasks(), problem.threads, workspace, 0, [&](int64_t task, void*) {
      const int64_t n = task / work.parts, part = task % work.parts;
      const Head head = head_of(data, work, n);
      char* const of_head = workspace + static_cast<size_t>(n * work.parts) * bytes;
      if (head.queries > 0)
        work.kernel->attend_part(head.slice, {0, head.queries}, part_of(head.keys, work, part),
                                 of_head + static_cast<size_t>(part) * bytes);
      if (--missing[static_cast<size_t>(n)] > 0) return;
      if (head.queries > 0)
        work.kernel->merge(head.slice, {0, head.queries}, work.parts, of_head, bytes);
      clear(head, {0, head.rows});
    });
  }
  static Range part_of(Range keys, const Plan& work, int64_t part) {
    const int64_t begin = std::min(keys.begin + part * work.part_keys, keys.end);
    return {begin, std::min(begin + work.part_keys, keys.end)};
  }

  static void clear(const Head& head, Range queries) {
    const Range rows{std::max(queries.begin, head.queries), std::min(queries.end, head.rows)};
    if (rows.begin < rows.end) clear_rows(head.slice, rows);
  }
};

}  // namespace impls
