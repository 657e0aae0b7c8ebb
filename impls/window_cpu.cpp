// window_cpu: softmax attention inside windows, O(tokens * window): bands along the sequence,
// with global tokens or without, patches of tokens in a given order (PTv3, with its last-patch
// rule), blocks that a mask leaves, windows of a grid, shifted or not, with a relative position
// bias (Swin). A window's rows are gathered into tiles by the kernel that flash_cpu uses
// (simd/softmax/attend_f32.cpp); all is computed in float32.
#include <algorithm>

#include "attest.hpp"
#include "simd/sizes.hpp"
#include "simd/softmax/grid_windows.hpp"
#include "simd/softmax/softmax.hpp"

namespace {

// Of windows with a table of pairs: 256 KB a head; fewer windows would not pay for it.
constexpr int64_t kMaxTableTokens = 256, kMinTableWindows = 16;

using impls::ceil_div, impls::round_up;
using Tiles = impls::Float32Tiles;

struct WindowCpu {
  static constexpr attest::Info kInfo{
      .name = "window_cpu",
      .version = "1",
      .summary = "bands, patches in an order, grid windows, in float32, SIMD and threads",
      .dtypes = ATTEST_BIT(ATTEST_F32) | ATTEST_BIT(ATTEST_F16) | ATTEST_BIT(ATTEST_BF16),
      .features = ATTEST_WITH_GQA | ATTEST_WITH_HEAD_DIM_V | ATTEST_WITH_CAUSAL |
                  ATTEST_WITH_WINDOW | ATTEST_WITH_DIAGONAL | ATTEST_WITH_SOFTCAP |
                  ATTEST_WITH_BIAS | ATTEST_WITH_MASK | ATTEST_WITH_LSE | ATTEST_WITH_VARLEN |
                  ATTEST_WITH_SEQ_LENS | ATTEST_WITH_ORDER | ATTEST_WITH_PATCHES |
                  ATTEST_WITH_GRID | ATTEST_WITH_REL_BIAS | ATTEST_WITH_STRIDES |
                  ATTEST_WITH_UNALIGNED | ATTEST_WITH_BLOCK_MASK | ATTEST_WITH_GLOBAL};

  const attest_problem& problem;

  /// How the work and the workspace are cut: [relative bias of all heads][places in it][its pair
  /// tables] [thread: two orders, regions, scratch] ...
  struct Plan {
    const impls::TileKernel* kernel;
    int64_t
        window;  // queries that see one another: a patch, a grid window; else the whole sequence
    int64_t windows;        // of one (batch, head)
    int64_t group, groups;  // queries a task, tasks a window
    int64_t rel_size;       // floats of one head's relative bias
    int64_t table_row;      // floats of a key's row in a head's table of pairs; 0: no table
    size_t rel_bytes, place_bytes, table_bytes, list_bytes, scratch_bytes, thread_bytes,
        workspace_bytes;
  };
  static size_t aligned(int64_t bytes) { return static_cast<size_t>(round_up(bytes, 256)); }
  static Plan plan(const attest_problem& problem) {
    const attest_softmax_params& p = impls::softmax_params(problem);
    const bool grid = p.grid_height > 0;
    Plan w{};
    w.window = grid               ? p.window_height * p.window_width
               : p.patch_size > 0 ? std::min(p.patch_size, p.seq_len_q)
                                  : p.seq_len_q;
    w.windows = ceil_div(p.seq_len_q, w.window);
    w.kernel = &Tiles::kernel(problem, w.window);
    const impls::Tiling tiling = w.kernel->tiling(p.head_dim, p.head_dim_v);
    w.group =
        impls::group_queries(w.window, p.batch * p.num_heads * w.windows, problem.threads, tiling);
    w.groups = ceil_div(w.window, w.group);
    if (problem.features & ATTEST_WITH_REL_BIAS)
      w.rel_size = (2 * p.window_height - 1) * (2 * p.window_width - 1);
    w.rel_bytes = aligned(4 * w.rel_size * p.num_heads);
    w.place_bytes = grid ? aligned(4 * w.window) : 0;
    // A table of pairs is read faster than the relative bias, if several windows share it.
    if (w.rel_size > 0 && w.window <= kMaxTableTokens && p.batch * w.windows >= kMinTableWindows)
      w.table_row = round_up(w.window, impls::kWidestVector);
    w.table_bytes = aligned(4 * p.num_heads * w.window * w.table_row);
    w.list_bytes = w.place_bytes;
    w.scratch_bytes =
        w.kernel->scratch_bytes(p.head_dim, p.head_dim_v, impls::scratch_queries(problem, w.group));
    w.thread_bytes = 3 * w.list_bytes + w.scratch_bytes;
    w.workspace_bytes = w.rel_bytes + w.place_bytes + w.table_bytes +
                        static_cast<size_t>(problem.threads) * w.thread_bytes;
    return w;
  }

  /// Why this problem is not for windows.
  static const char* refusal(const attest_problem& problem) {
    const attest_softmax_params& p = impls::softmax_params(problem);
    const bool band = p.window_left >= 0 || p.window_right >= 0, patches = p.patch_size > 0,
               grid = p.grid_height > 0, blocks = problem.features & ATTEST_WITH_BLOCK_MASK;
    if (!band && !patches && !grid && !blocks)
      return "takes only problems with a window, patches, a grid or a block mask";
    if (grid && blocks) return "a grid with a block mask";
    const bool ragged = problem.features & (ATTEST_WITH_VARLEN | ATTEST_WITH_SEQ_LENS);
    if (grid && (band || patches)) return "a grid together with a band or patches";
    if (grid && (problem.features & ATTEST_WITH_ORDER)) return "a grid in an order of its own";
    if (grid && ragged) return "a grid with sequence lengths";
    if (grid && (p.seq_len_q != p.grid_height * p.grid_width || p.seq_len_kv != p.seq_len_q))
      return "a grid whose tokens are not the queries and the keys";
    if ((patches || (problem.features & ATTEST_WITH_ORDER)) && p.seq_len_q != p.seq_len_kv)
      return "patches or an order over queries and keys of different number";
    if ((patches || (problem.features & ATTEST_WITH_ORDER)) && ragged)
      return "patches or an order with sequence lengths";
    const attest_tensor& order = problem.tensor[ATTEST_ORDER];
    if (order.dtype != ATTEST_NONE && order.dim[1] > 1 && order.stride[1] != 1)
      return "an order that is not contiguous";
    return impls::why_not(problem);
  }

  static const char* query(const attest_problem& problem, attest_support& support) {
    if (const char* reason = Tiles::refusal()) return reason;
    if (const char* reason = refusal(problem)) return reason;
    const attest_softmax_params& p = impls::softmax_params(problem);
    const Plan w = plan(problem);
    int64_t keys = p.grid_height > 0 || p.patch_size > 0 ? w.window : p.seq_len_kv;
    if (p.window_left >= 0 && p.window_right >= 0 && p.global_tokens == 0)
      keys = std::min(keys, p.window_left + p.window_right + 1);
    Tiles::declare(support, problem, w.window);
    // A band starts inside a tile: one more of them.
    support.sum_chain =
        impls::sum_chain(problem, w.kernel->tiling(p.head_dim, p.head_dim_v), keys) + 1;
    support.workspace_bytes = w.workspace_bytes;
    return nullptr;
  }

  template <class T>
  void run(void* const* data, void* workspace, void* /*stream*/) const {
    const attest_softmax_params& p = impls::softmax_params(problem);
    const Plan w = plan(problem);
    float* const rel_bias = static_cast<float*>(workspace);
    int32_t* const places = reinterpret_cast<int32_t*>(static_cast<char*>(workspace) + w.rel_bytes);
    if (w.rel_size > 0) impls::widen_rel_bias(problem, data, rel_bias);
    if (p.grid_height > 0) impls::list_rel_places(p, places);
    const int64_t tasks = p.batch * p.num_heads * w.windows * w.groups;
    float* const table = reinterpret_cast<float*>(reinterpret_cast<char*>(places) + w.place_bytes);
    const int32_t centre = impls::rel_centre(p);
    if (w.table_row > 0) fill_table(w, rel_bias, places, centre, table);
    char* const threads = reinterpret_cast<char*>(table) + w.table_bytes;
    impls::share(tasks, problem.threads, threads, w.thread_bytes, [&](int64_t task, char* own) {
      const int64_t group = task % w.groups, window = task / w.groups % w.windows;
      const int64_t head = task / w.groups / w.windows, b = head / p.num_heads,
                    h = head % p.num_heads;
      const impls::Lengths n = impls::lengths(problem, data, b);
      impls::Slice slice = impls::softmax_slice(problem, data, b, h, n);
      const impls::Range part{group * w.group, std::min((group + 1) * w.group, w.window)};
      void* const scratch = own + 3 * w.list_bytes;
      if (p.grid_height > 0) {
        int32_t* const order = reinterpret_cast<int32_t*>(own);
        int32_t* const region = reinterpret_cast<int32_t*>(own + w.list_bytes);
        impls::Slice next = slice;
        look_ahead(w, task, reinterpret_cast<int32_t*>(own + 2 * w.list_bytes), region, slice,
                   next);
        impls::list_window(p, window, order, region);
        slice.order = order;
        slice.pairs_of_rows = true;
        if (w.table_row > 0) {
          slice.pair_table = table + h * w.window * w.table_row;
          slice.pair_table_stride = w.table_row;
        } else if (w.rel_size > 0) {
          slice.rel_bias = rel_bias + h * w.rel_size;
          slice.rel_place = places;
          slice.rel_centre = centre;
        }
        if (p.shift_bias != 0 && impls::crosses_seam(region, w.window)) {
          slice.region = region;
          slice.shift_bias = p.shift_bias;
        }
        return impls::attend(*w.kernel, slice, part, {0, w.window}, scratch);
      }
      if (data[ATTEST_ORDER] != nullptr)
        slice.order = static_cast<const int32_t*>(data[ATTEST_ORDER]) +
                      b * problem.tensor[ATTEST_ORDER].stride[0];
      attend_places(*w.kernel, slice, n, window * w.window, part, w.window, scratch);
    });
  }

  /// Lets the window be fetched that the thread of a grid's task is likely to attend to next: tasks
  /// are taken last first, one a thread. `next`: its slice; `order` and `region`: room for its
  /// lists.
  void look_ahead(const Plan& w, int64_t task, int32_t* order, int32_t* region, impls::Slice& slice,
                  impls::Slice& next) const {
    const int64_t before = task % (w.windows * w.groups) - problem.threads;
    if (before < 0 || before / w.groups == (before + problem.threads) / w.groups) return;
    impls::list_window(softmax(), before / w.groups, order, region);
    next.order = order;
    slice.next = &next;
    slice.next_keys = {0, w.window};
    slice.next_queries = {before % w.groups * w.group,
                          std::min((before % w.groups + 1) * w.group, w.window)};
  }

  /// Bands and patches: queries first + part of one (batch, head), where a patch starts at `first`.
  void attend_places(const impls::TileKernel& kernel, const impls::Slice& slice,
                     const impls::Lengths& n, int64_t first, impls::Range part, int64_t window,
                     void* scratch) const {
    impls::Range keys{0, n.kv};
    if (softmax().patch_size > 0) {
      keys = {first, std::min(first + window, n.kv)};
      keys.begin = std::max<int64_t>(
          0, keys.end - window);  // a short last patch sees the last places: a whole patch, if any
    }
    const int64_t begin = first + part.begin, end = first + part.end;
    if (begin < n.q) impls::attend(kernel, slice, {begin, std::min(end, n.q)}, keys, scratch);
    if (end > n.q) impls::clear_rows(slice, {std::max(begin, n.q), std::min(end, n.rows_q)});
  }

  /// [num_heads][window: keys][table_row: queries] from the dense relative bias.
  void fill_table(const Plan& w, const float* rel_bias, const int32_t* places, int32_t centre,
                  float* table) const {
    for (int64_t h = 0; h < softmax().num_heads; ++h, rel_bias += w.rel_size)
      for (int64_t j = 0; j < w.window; ++j, table += w.table_row)
        for (int64_t i = 0; i < w.table_row; ++i)
          table[i] = i < w.window ? rel_bias[places[i] - places[j] + centre] : 0;
  }

  const attest_softmax_params& softmax() const { return impls::softmax_params(problem); }
};

}  // namespace

ATTEST_PLUGIN(attest::table<WindowCpu>())
