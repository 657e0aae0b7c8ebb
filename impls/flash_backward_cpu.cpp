// flash_backward_cpu: the gradients of softmax attention in one pass over tiles of pairs, in
// float32, SIMD and threads. p is computed again from LSE, so that memory grows with the tokens.
//
// A task is a part of the keys of one key head. It walks over all queries that see some of them,
// and sums dk and dv in its own memory. To dq of a block of queries each task adds in its turn, by
// the order of the parts: any number of threads gives the same bits. So it is with DBIAS where
// sequences or heads share a bias. The kernel is simd/softmax_backward/backward.cpp.
#include <omp.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>
#include <limits>
#include <new>
#include <thread>

#include "attest.hpp"
#include "simd/sizes.hpp"
#include "simd/softmax/grid_windows.hpp"
#include "simd/softmax/softmax.hpp"
#include "simd/softmax_backward/backward.hpp"

namespace {

using impls::BackwardSlice, impls::Range, impls::ceil_div, impls::round_up;

struct FlashBackwardCpu {
  static constexpr attest::Info kInfo{
      .name = "flash_backward_cpu",
      .version = "1",
      .summary = "gradients in tiles in float32, p again from lse, SIMD and threads",
      .operation = ATTEST_SOFTMAX_BACKWARD,
      .dtypes = ATTEST_BIT(ATTEST_F32) | ATTEST_BIT(ATTEST_F16) | ATTEST_BIT(ATTEST_BF16),
      .features = ATTEST_WITH_GQA | ATTEST_WITH_HEAD_DIM_V | ATTEST_WITH_CAUSAL |
                  ATTEST_WITH_WINDOW | ATTEST_WITH_DIAGONAL | ATTEST_WITH_BIAS | ATTEST_WITH_MASK |
                  ATTEST_WITH_SOFTCAP | ATTEST_WITH_ALIBI | ATTEST_WITH_SINKS |
                  ATTEST_WITH_BLOCK_MASK | ATTEST_WITH_GLOBAL | ATTEST_WITH_SEQ_LENS |
                  ATTEST_WITH_VARLEN | ATTEST_WITH_PATCHES | ATTEST_WITH_ORDER | ATTEST_WITH_GRID |
                  ATTEST_WITH_STRIDES | ATTEST_WITH_UNALIGNED | ATTEST_WITH_DBIAS |
                  ATTEST_WITH_REL_BIAS | ATTEST_WITH_DSINKS};
  // Parts of the keys are made smaller until there are so many tasks. They follow from the sizes
  // alone.
  static constexpr int64_t kLeastTasks = 32;

  const attest_problem& problem;

  /// Who adds to a row of DBIAS.
  struct Bias {
    bool is_there = false, over_sequences = false, over_heads = false, over_queries = false;
    int64_t rows = 0;    // of DBIAS, those of all its queries counted once
    int64_t adders = 1;  // tasks that add to the same pairs, or rows of sums where queries share it
  };

  struct Plan {
    Bias bias;
    int64_t group;                // query heads of a key head
    int64_t block, blocks;        // queries of a block, blocks of a query head
    int64_t patch, patch_blocks;  // queries of a patch or grid window, or all; blocks of it
    bool is_grid;
    int64_t part, parts, kv_heads;  // keys of a part, parts of a key head, key heads in all
    int64_t tile_keys;
    int64_t block_floats;
    size_t scratch_bytes;  // of a thread
    size_t delta_at, turn_at, bias_sums_at, bias_turn_at, order_at, region_at, scratch_at, place_at,
        rel_bias_at, workspace_bytes;
    int64_t rel_size;  // elements of a head's relative position bias
    int64_t bias_floats, bias_turns;
    int64_t tasks() const { return parts * kv_heads; }
  };
  using Turn = std::atomic<int32_t>;  // how many parts a block's dq has

  static Bias bias_plan(const attest_problem& problem) {
    Bias bias;
    if ((problem.features & ATTEST_WITH_DBIAS) == 0) return bias;
    const attest_softmax_params& p = impls::softmax_params(problem);
    const int64_t* const dim = problem.tensor[ATTEST_DBIAS].dim;
    bias.is_there = true;
    bias.over_sequences = dim[0] != p.batch;
    bias.over_heads = dim[1] != p.num_heads;
    bias.over_queries = dim[2] != p.seq_len_q;
    bias.rows = dim[0] * dim[1];
    bias.adders = (bias.over_sequences ? p.batch : 1) * (bias.over_heads ? p.num_kv_heads : 1);
    return bias;
  }

  static Plan plan(const attest_problem& problem) {
    const attest_softmax_params& p = impls::softmax_params(problem);
    const impls::BackwardKernel& kernel = impls::backward_kernel();
    const impls::BackwardTiling tiling = kernel.tiling(p.head_dim, p.head_dim_v);
    Plan work;
    work.group = p.num_heads / p.num_kv_heads;
    work.block = tiling.queries;
    work.is_grid = p.grid_height > 0;
    work.patch = work.is_grid       ? impls::window_tokens(p)
                 : p.patch_size > 0 ? std::min(p.patch_size, p.seq_len_q)
                                    : p.seq_len_q;
    work.patch_blocks = ceil_div(work.patch, work.block);
    work.blocks = ceil_div(p.seq_len_q, work.patch) * work.patch_blocks;
    work.tile_keys = tiling.tile_keys;
    work.kv_heads = p.batch * p.num_kv_heads;
    const int64_t fair = ceil_div(p.seq_len_kv * work.kv_heads, kLeastTasks);
    work.part = std::clamp(round_up(fair, tiling.tile_keys), tiling.tile_keys, tiling.keys);
    work.parts = ceil_div(p.seq_len_kv, work.part);
    work.block_floats = kernel.block_floats(p.head_dim);
    work.bias = bias_plan(problem);
    work.scratch_bytes = kernel.scratch_bytes(p.head_dim, p.head_dim_v, work.bias.is_there);
    const int64_t heads = work.kv_heads * work.group;
    const auto after = [](size_t at, int64_t count, size_t bytes) {
      return (at + static_cast<size_t>(count) * bytes + 255) / 256 * 256;
    };
    work.delta_at = after(0, heads * work.blocks * work.block_floats, sizeof(float));
    work.turn_at = after(work.delta_at, heads * p.seq_len_q, sizeof(float));
    work.bias_floats = work.bias_turns = 0;
    if (work.bias.over_queries) {
      work.bias_floats = work.bias.rows * work.bias.adders * p.seq_len_kv;
    } else if (work.bias.adders > 1) {
      work.bias_floats = work.bias.rows * p.seq_len_q * p.seq_len_kv;
      work.bias_turns = work.bias.rows * work.blocks * work.parts;
    }
    work.bias_sums_at = after(work.turn_at, heads * work.blocks, sizeof(Turn));
    work.bias_turn_at = after(work.bias_sums_at, work.bias_floats, sizeof(float));
    work.order_at = after(work.bias_turn_at, work.bias_turns, sizeof(Turn));
    const int64_t listed = work.is_grid ? p.seq_len_q : 0;
    work.region_at = after(work.order_at, listed, sizeof(int32_t));
    work.place_at = after(work.region_at, listed, sizeof(int32_t));
    work.rel_bias_at = after(work.place_at, listed, sizeof(int32_t));
    work.rel_size = (problem.features & ATTEST_WITH_REL_BIAS) != 0
                        ? (2 * p.window_height - 1) * (2 * p.window_width - 1)
                        : 0;
    work.scratch_at = after(work.rel_bias_at, p.num_heads * work.rel_size, sizeof(float));
    work.workspace_bytes =
        work.scratch_at + static_cast<size_t>(problem.threads) * work.scratch_bytes;
    return work;
  }

  static const char* query(const attest_problem& problem, attest_support& support) {
    if (const char* reason = impls::why_not(problem)) return reason;
    for (const int role : {ATTEST_DO, ATTEST_DQ, ATTEST_DK, ATTEST_DV, ATTEST_DBIAS}) {
      const attest_tensor& t = problem.tensor[role];
      if (t.dim[3] > 1 && t.stride[3] != 1)
        return "the elements of a row of DO, DQ, DK, DV or DBIAS are not contiguous";
    }
    if ((problem.features & ATTEST_WITH_DBIAS) != 0 &&
        problem.tensor[ATTEST_DBIAS].dim[3] != impls::softmax_params(problem).seq_len_kv)
      return "DBIAS of a bias that all keys share";
    if ((problem.features & ATTEST_WITH_GRID) != 0 &&
        (problem.features & (ATTEST_WITH_DBIAS | ATTEST_WITH_BLOCK_MASK)) != 0)
      return "a grid with DBIAS or a block mask";
    const attest_tensor& order = problem.tensor[ATTEST_ORDER];
    if (order.dtype != ATTEST_NONE && order.dim[1] > 1 && order.stride[1] != 1)
      return "an order that is not contiguous";
    const Plan work = plan(problem);
    support.stage[ATTEST_SOFTMAX_BACKWARD_PROBABILITY].rel_error = impls::kExp2Error;
    // Over keys: within a tile, over the tiles of a part, over parts. Over queries: within a block,
    // then over blocks and heads.
    support.sum_chain = std::max(work.tile_keys + work.part / work.tile_keys + work.parts,
                                 work.block + work.blocks * work.group);
    if (work.bias.is_there)
      support.sum_chain =
          std::max(support.sum_chain, work.group + work.bias.adders +
                                          (work.bias.over_queries ? work.block + work.blocks : 0));
    // Where scores are edited, tiles with NaN are summed pair by pair.
    if ((problem.features & (ATTEST_WITH_CAUSAL | ATTEST_WITH_WINDOW | ATTEST_WITH_MASK |
                             ATTEST_WITH_BIAS | ATTEST_WITH_BLOCK_MASK | ATTEST_WITH_SOFTCAP |
                             ATTEST_WITH_ALIBI | ATTEST_WITH_GRID)) != 0)
      support.sum_chain = std::max({support.sum_chain, work.part + work.parts,
                                    impls::softmax_params(problem).seq_len_q * work.group});
    support.workspace_bytes = work.workspace_bytes;
    return nullptr;
  }

  /// Query head h of sequence b, without the lists of a grid (Run::list_grid).
  BackwardSlice slice(void* const* data, int64_t b, int64_t h) const {
    const attest_softmax_params& p = impls::softmax_params(problem);
    const attest_tensor* const t = problem.tensor;
    const int64_t kv_head = h / (p.num_heads / p.num_kv_heads),
                  size = t[ATTEST_Q].dtype == ATTEST_F32 ? 4 : 2;
    impls::Lengths lengths = impls::lengths(problem, data, b);
    const int32_t* order = nullptr;
    if (data[ATTEST_ORDER] != nullptr) {  // its rows are those of the whole tensor
      order = static_cast<const int32_t*>(data[ATTEST_ORDER]) + b * t[ATTEST_ORDER].stride[0] +
              lengths.first_q;
      lengths.first_q = lengths.first_kv = 0;
    }
    const bool packed_q = data[ATTEST_CU_SEQLENS_Q] != nullptr,
               packed_kv = data[ATTEST_CU_SEQLENS_KV] != nullptr;
    const auto at = [&](int role, int64_t head, int64_t batch, int64_t row) {
      return static_cast<char*>(data[role]) +
             (batch * t[role].stride[0] + head * t[role].stride[1] + row * t[role].stride[2]) *
                 size;
    };
    const auto of_query = [&](int role) { return at(role, h, packed_q ? 0 : b, lengths.first_q); };
    const auto of_key = [&](int role) {
      return at(role, kv_head, packed_kv ? 0 : b, lengths.first_kv);
    };
    BackwardSlice s;
    static_cast<impls::Slice&>(s) = impls::softmax_slice(problem, data, b, h, lengths);
    s.order = order;
    s.queries = lengths.q;
    s.keys = lengths.kv;
    s.query_rows = lengths.rows_q;
    s.key_rows = packed_kv ? lengths.kv : p.seq_len_kv;
    s.limits = {0, s.keys};
    s.d_o = of_query(ATTEST_DO);
    s.dq = of_query(ATTEST_DQ);
    s.dk = of_key(ATTEST_DK);
    s.dv = of_key(ATTEST_DV);
    s.do_stride = t[ATTEST_DO].stride[2];
    s.dq_stride = t[ATTEST_DQ].stride[2];
    s.dk_stride = t[ATTEST_DK].stride[2];
    s.dv_stride = t[ATTEST_DV].stride[2];
    if (const Bias bias = bias_plan(problem); bias.is_there) {
      const int64_t* const stride = t[ATTEST_DBIAS].stride;
      s.d_bias =
          static_cast<char*>(data[ATTEST_DBIAS]) +
          ((bias.over_sequences ? 0 : b * stride[0]) + (bias.over_heads ? 0 : h * stride[1])) *
              size;
      s.d_bias_stride = stride[2];
    }
    return s;
  }

  /// One run: the plan and its memory.
  struct Run {
    const FlashBackwardCpu& of;
    const Plan work;
    void* const* const data;
    float *const sums, *const delta;
    Turn* const turns;
    float* const bias_sums;  // [rows of DBIAS][query][key]; [rows][adder][key] over queries
    Turn* const bias_turns;  // [rows of DBIAS][block][part]
    // Of a grid, for each position: its token, the edges around which that was rolled, and its
    // place in the relative position bias, from which that of the key is subtracted.
    int32_t *const order, *const region, *const rel_place;
    float* const rel_bias;  // [num_heads][rel_size]
    char* const scratches;
    const impls::BackwardKernel& kernel = impls::backward_kernel();
    std::atomic<int64_t> next_task{0};

    Run(const FlashBackwardCpu& impl, void* const* tensors, void* workspace)
        : of(impl),
          work(plan(impl.problem)),
          data(tensors),
          sums(static_cast<float*>(workspace)),
          delta(reinterpret_cast<float*>(static_cast<char*>(workspace) + work.delta_at)),
          turns(reinterpret_cast<Turn*>(static_cast<char*>(workspace) + work.turn_at)),
          bias_sums(reinterpret_cast<float*>(static_cast<char*>(workspace) + work.bias_sums_at)),
          bias_turns(reinterpret_cast<Turn*>(static_cast<char*>(workspace) + work.bias_turn_at)),
          order(reinterpret_cast<int32_t*>(static_cast<char*>(workspace) + work.order_at)),
          region(reinterpret_cast<int32_t*>(static_cast<char*>(workspace) + work.region_at)),
          rel_place(reinterpret_cast<int32_t*>(static_cast<char*>(workspace) + work.place_at)),
          rel_bias(reinterpret_cast<float*>(static_cast<char*>(workspace) + work.rel_bias_at)),
          scratches(static_cast<char*>(workspace) + work.scratch_at) {}

    const attest_softmax_params& p() const { return impls::softmax_params(of.problem); }
    /// Part n of `size` rows, as far as it lies within the first `count` rows.
    static Range rows(int64_t n, int64_t size, int64_t count) {
      return {n * size, std::clamp(count, n * size, (n + 1) * size)};
    }
    /// Block n of a query head, as far as it lies within the first `count` queries. No block has
    /// queries of two patches.
    Range block(int64_t n, int64_t count) const {
      const int64_t patch = n / work.patch_blocks * work.patch,
                    begin = patch + n % work.patch_blocks * work.block,
                    end = std::min(begin + work.block, patch + work.patch);
      return {begin, std::clamp(count, begin, end)};
    }
    /// Fills the lists of a grid, and widens its relative position bias.
    void list_grid() const {
      if (work.rel_size > 0) impls::widen_rel_bias(of.problem, data, rel_bias);
      for (int64_t begin = 0; work.is_grid && begin < p().seq_len_q; begin += work.patch) {
        impls::list_window(p(), begin / work.patch, order + begin, region + begin);
        impls::list_rel_places(p(), rel_place + begin);
      }
    }
    /// Query head h of sequence b; on a grid in the order of its windows.
    BackwardSlice slice(int64_t b, int64_t h) const {
      BackwardSlice s = of.slice(data, b, h);
      if (!work.is_grid) return s;
      s.order = order;
      s.pairs_of_rows = true;
      if (work.rel_size > 0) {
        s.rel_bias = rel_bias + h * work.rel_size;
        s.rel_place = rel_place;
        s.rel_centre = impls::rel_centre(p());
      }
      return s;
    }
    /// The same; its limits are the keys of the patch or window of block n. A short last patch sees
    /// as many keys as a whole one, if there are so many.
    BackwardSlice slice_of_block(int64_t b, int64_t h, int64_t n) const {
      BackwardSlice s = slice(b, h);
      if (work.is_grid) {
        const int64_t begin = n / work.patch_blocks * work.patch;
        s.limits = {begin, begin + work.patch};
        if (p().shift_bias != 0 && impls::crosses_seam(region + begin, work.patch)) {
          s.region = region;
          s.shift_bias = p().shift_bias;
        }
        return s;
      }
      if (p().patch_size == 0) return s;
      const int64_t end = std::min((n / work.patch_blocks + 1) * p().patch_size, s.keys);
      s.limits = {std::max<int64_t>(0, end - p().patch_size), end};
      return s;
    }
    /// The parts that some query of a block sees: those of the global tokens, and those of its
    /// window behind them.
    struct Parts {
      int64_t global = 0;
      Range window{0, 0};
      int64_t count() const { return global + window.end - window.begin; }
      bool has(int64_t part) const {
        return part < global || (part >= window.begin && part < window.end);
      }
      int64_t place_of(int64_t part) const {
        return part < global ? part : global + part - window.begin;
      }
    };
    Parts parts(const BackwardSlice& s, Range queries) const {
      Parts seen;
      if (queries.begin >= queries.end) return seen;
      seen.global = ceil_div(std::min(s.global_tokens, s.keys), work.part);
      const Range all{std::max(s.limits.begin, std::min(seen.global * work.part, s.keys)),
                      s.limits.end},
          keys = queries.begin < s.global_tokens
                     ? all
                     : impls::window_keys(s, queries.begin, queries.end - 1, all);
      if (keys.begin < keys.end)
        seen.window = {keys.begin / work.part, ceil_div(keys.end, work.part)};
      return seen;
    }
    /// `depth` zeros in each of these rows.
    static void clear(const BackwardSlice& s, void* data, int64_t stride, Range rows,
                      int64_t depth) {
      const int64_t size = s.dtype == ATTEST_F32 ? 4 : 2;
      for (int64_t i = rows.begin; i < rows.end; ++i)
        std::memset(static_cast<char*>(data) + impls::row_of(s, i) * stride * size, 0,
                    static_cast<size_t>(depth * size));
    }

    /// Of block n, counted through all heads: delta, and dq = 0 where no key is seen.
    void prepare(int64_t n) const {
      const int64_t head = n / work.blocks;
      const int64_t of_head = n % work.blocks;
      const BackwardSlice s = slice_of_block(head / p().num_heads, head % p().num_heads, of_head);
      const Range queries = block(of_head, s.queries);
      new (turns + n) Turn(0);
      Range hidden = block(of_head, s.query_rows);
      if (parts(s, queries).count() > 0) {
        kernel.write_delta(s, queries, delta + head * p().seq_len_q);
        hidden.begin = queries.end;
      }
      clear(s, s.dq, s.dq_stride, hidden, p().head_dim);
    }

    /// Adds the part's dq of block n to the sum when those before it have done so. The last one
    /// writes it out. Their tasks were taken before, so that they do not wait for this one.
    void join(const BackwardSlice& s, int64_t n, int64_t part, const Parts& seen,
              void* scratch) const {
      Turn& turn = turns[n];
      const int64_t mine = seen.place_of(part);
      wait_for(turn, mine);
      float* const sum = sums + n * work.block_floats;
      kernel.join_queries(s, mine == 0, sum, scratch);
      if (mine == seen.count() - 1)
        kernel.write_queries(s, block(n % work.blocks, s.queries), sum, scratch);
      pass_on(turn);
    }

    /// Adds the sums of block n and a part to DBIAS, or to the sums that become DBIAS. Where
    /// several tasks add to the same pairs they do so in their order, whether or not they see any.
    void join_bias(const BackwardSlice& s, int64_t b, int64_t h, int64_t n, int64_t part,
                   void* scratch) const {
      const Bias& bias = work.bias;
      const int64_t heads = bias.over_heads ? 1 : p().num_heads;
      const int64_t row = (bias.over_sequences ? 0 : b * heads) + (bias.over_heads ? 0 : h),
                    mine =
                        (bias.over_sequences ? b : 0) * (bias.over_heads ? p().num_kv_heads : 1) +
                        (bias.over_heads ? h / work.group : 0);
      const Range queries = block(n, p().seq_len_q), keys = rows(part, work.part, p().seq_len_kv);
      if (bias.over_queries) {
        float* const of_keys = bias_sums + (row * bias.adders + mine) * p().seq_len_kv + keys.begin;
        return kernel.join_bias_row(s, queries, keys, n == 0, of_keys, scratch);
      }
      if (bias.adders == 1)
        return kernel.join_bias(s, queries, keys, true, true, nullptr, 0, scratch);
      Turn& turn = bias_turns[(row * work.blocks + n) * work.parts + part];
      wait_for(turn, mine);
      kernel.join_bias(s, queries, keys, mine == 0, mine == bias.adders - 1,
                       bias_sums + row * p().seq_len_q * p().seq_len_kv, p().seq_len_kv, scratch);
      pass_on(turn);
    }
    static void wait_for(const Turn& turn, int64_t mine) {
      while (turn.load(std::memory_order_acquire) != mine) std::this_thread::yield();
    }
    static void pass_on(Turn& turn) { turn.fetch_add(1, std::memory_order_release); }

    /// Where queries share a bias: sums what the adders of a row of DBIAS have, kBiasKeys keys.
    static constexpr int64_t kBiasKeys = 256;
    void write_bias(int64_t row, int64_t piece) const {
      const Range keys = rows(piece, kBiasKeys, p().seq_len_kv);
      const int64_t heads = work.bias.over_heads ? 1 : p().num_heads;
      const float* const of_adders = bias_sums + row * work.bias.adders * p().seq_len_kv;
      float total[kBiasKeys] = {};
      for (int64_t n = 0; n < work.bias.adders; ++n)
        for (int64_t j = keys.begin; j < keys.end; ++j)
          total[j - keys.begin] += of_adders[n * p().seq_len_kv + j];
      kernel.write_bias_row(of.slice(data, row / heads, row % heads), keys, total);
    }

    /// Writes DSINKS of head h: minus the sum of the sink's weight times delta, over all queries
    /// that see a key.
    void write_dsinks(int64_t h) const {
      const attest::Softmax<attest::Any> a(of.problem, data);
      double sum = 0;
      for (int64_t b = 0; b < p().batch; ++b) {
        const BackwardSlice s = slice(b, h);
        for (int64_t i = 0; i < s.queries; ++i) {
          const float lse = s.lse[impls::row_of(s, i) * s.lse_stride];
          if (lse != -std::numeric_limits<float>::infinity())
            sum -= std::exp(static_cast<double>(s.sink) - static_cast<double>(lse)) *
                   static_cast<double>(delta[(b * p().num_heads + h) * p().seq_len_q + i]);
        }
      }
      a.d_sinks(h) = static_cast<float>(sum);
    }

    // Neighbouring tasks are of different heads, so that they rarely wait for one another.
    void do_task(int64_t task, void* scratch) const {
      const int64_t kv_head = task % work.kv_heads, part = task / work.kv_heads,
                    b = kv_head / p().num_kv_heads, first = kv_head % p().num_kv_heads * work.group;
      const BackwardSlice of_keys = slice(b, first);
      const Range keys = rows(part, work.part, of_keys.keys);
      kernel.begin_keys(of_keys, keys, scratch);
      const int64_t last = first + work.group - 1;
      for (int64_t n = 0; n < work.blocks; ++n)
        for (int64_t h = first; h <= last; ++h) {
          const BackwardSlice s = slice_of_block(b, h, n);
          const int64_t head = b * p().num_heads + h;
          const Range queries = block(n, s.queries);
          const Parts seen = parts(s, queries);
          const bool each = work.bias.is_there && !work.bias.over_heads;
          if (each || (work.bias.is_there && h == first)) kernel.clear_bias(s, scratch);
          if (seen.has(part)) {
            kernel.add_queries(s, queries, keys, delta + head * p().seq_len_q, scratch);
            join(s, head * work.blocks + n, part, seen, scratch);
          }
          if (each || (work.bias.is_there && h == last)) join_bias(s, b, h, n, part, scratch);
        }
      kernel.end_keys(of_keys, keys, scratch);
      const Range hidden{keys.end, rows(part, work.part, of_keys.key_rows).end};
      clear(of_keys, of_keys.dk, of_keys.dk_stride, hidden, p().head_dim);
      clear(of_keys, of_keys.dv, of_keys.dv_stride, hidden, p().head_dim_v);
    }
  };

  void run(void* const* data, void* workspace, void* /*stream*/) const {
    Run run(*this, data, workspace);
    const int64_t blocks = run.work.kv_heads * run.work.group * run.work.blocks,
                  bias_pieces = ceil_div(run.p().seq_len_kv, Run::kBiasKeys);
#pragma omp parallel num_threads(problem.threads)
    {
#pragma omp single
      run.list_grid();
#pragma omp for schedule(static)
      for (int64_t n = 0; n < blocks; ++n) run.prepare(n);
#pragma omp for schedule(static)
      for (int64_t h = 0; h < (data[ATTEST_DSINKS] != nullptr ? run.p().num_heads : 0); ++h)
        run.write_dsinks(h);
#pragma omp for schedule(static)
      for (int64_t n = 0; n < run.work.bias_turns; ++n) new (run.bias_turns + n) Turn(0);
      void* const scratch =
          run.scratches + static_cast<size_t>(omp_get_thread_num()) * run.work.scratch_bytes;
      // In ascending order: a task waits for earlier ones alone.
      for (int64_t task; (task = run.next_task++) < run.work.tasks();) run.do_task(task, scratch);
      if (run.work.bias.over_queries) {
#pragma omp barrier
#pragma omp for schedule(static)
        for (int64_t n = 0; n < run.work.bias.rows * bias_pieces; ++n)
          run.write_bias(n / bias_pieces, n % bias_pieces);
      }
    }
  }
};

}  // namespace

ATTEST_PLUGIN(attest::table<FlashBackwardCpu>())
