// flash_cuda: tiled softmax attention on tensor cores (mma.sync): f16 from sm_75 on, bf16 and f32
// from sm_80 on, f32 by three products of tf32 (3xTF32).
//
// A block has 4 warps and 64 or 128 rows of one head; keys and values come in tiles, two of each in
// shared memory, one in use and one on its way. Scores never leave registers: the accumulators of Q
// K^T are, pair by pair, the operand of P V (Dao, FlashAttention-2, 2023). What a row may see is an
// interval of keys, whatever the band, patch or window that it comes from, so tiles outside of
// every row's interval are not read and tiles inside of all need no mask. Masks, biases and softcap
// take a second version of the kernel, in which rows may also lie anywhere (pages, orders, grids);
// it also takes what sm_75 has not enough shared memory for.
//
// Where rows are too few for the device, blocks share out the keys of a row (split.hpp), and a
// second kernel merges their parts; up to 16 rows take a block of one warp, and query heads that
// share keys go into one tile.
//
// On sm_90, large problems without masks and biases use wgmma (cuda/flash_sm90.cuh). Tiles whose
// sums are not finite are computed again here.
//
// A hidden key has a weight of 0, and 0 times NaN is NaN: from tiles that hide something,
// infinities and NaN of V are taken out before the product, and added where they are seen.
#include <optional>

#include "cuda/flash.cuh"
#include "cuda/tile_order.hpp"
#ifdef ATTEST_SM90A  // for which kernels are compiled
#include "cuda/flash_sm90.cuh"
#endif

namespace {

using namespace flash;

/// Blocks of the kernel: tiles of rows x splits x (sequence, group of heads whose rows go into one
/// tile).
struct Work {
  int64_t blocks;
  int64_t tiles;         // of rows, of one group of heads in one sequence
  int64_t groups;        // of heads, in one sequence
  int64_t heads_of_key;  // query heads that share a key head
  int pack, splits;
  float* partial;
  const uint8_t* odd;  // null, or [sequences and heads, blocks of 16 rows]: only tiles in which it
                       // is not 0
  tiles::Progress* progress;  // null, or of the launch before, whose odd tiles are done again
};

/// Whether the launch before has left tiles that are to be done again; makes its Progress ready for
/// the next run. For all threads of a block together.
__device__ bool is_any_odd(tiles::Progress* progress) {
  cuda::wait_for_launch_before();
  const bool any = *static_cast<volatile int*>(&progress->odd) != 0;
  if (blockIdx.x == 0 && threadIdx.x == 0 && !cuda::planted(cuda::Bug::kTilesNotCountedAnew))
    progress->taken = 0;
  if (!any) return false;
  __syncthreads();  // all threads have read it
  if (threadIdx.x == 0 && atomicAdd(&progress->readers, 1) + 1 == static_cast<int>(gridDim.x))
    progress->odd = progress->readers = 0;
  return !cuda::planted(cuda::Bug::kOddForgotten);
}

/// The task of a block. Apart, so that nothing of it takes registers from what the task is made
/// for.
template <class T, class S>
__device__ __noinline__ void find_task(const attest_problem& problem, const cuda::Data& data,
                                       const Work& work, int64_t block, Task& task) {
  const attest::Softmax<T> a(problem, data.at);
  // Last rows first: where the band is causal they have most to do.
  const int64_t together = work.blocks / work.tiles, pairs = together / work.splits,
                tile = work.tiles - 1 - block / together, rest = block % together,
                pair = rest % pairs, b = pair / work.groups, head = pair % work.groups * work.pack;
  task = {b,
          head,
          head / work.heads_of_key,
          tile * S::kRows,
          a.rows(b) * work.pack,
          work.pack,
          static_cast<int>(rest / pairs),
          work.splits,
          work.partial,
          nullptr};
  if (!work.odd) return;
  const int64_t row_blocks = (a.p.seq_len_q + 15) / 16, first = task.first / 16;
  bool odd = false;
  for (int64_t n = first; n < min(first + S::kRows / 16, (task.past + 15) / 16); ++n)
    odd |= work.odd[pair * row_blocks + n] != 0;
  if (!odd) task.past = 0;
}

template <class T, class S>
__global__ void __launch_bounds__(
    S::kThreads, S::kWarps == 4 ? 2 : 1)  // as many registers as two blocks of 4 warps leave
    attend(const attest_problem* problem, const __grid_constant__ cuda::Data data,
           const __grid_constant__ Work work) {
  if (!runs_here<T, S>()) return;
  if (work.progress && !is_any_odd(work.progress)) return;
  if (work.splits > 1) cuda::let_next_launch_begin();  // that merges
  __shared__ Task task;
  char* shared = cuda::dynamic_shared();
  for (int64_t block = blockIdx.x; block < work.blocks; block += gridDim.x) {
    if (threadIdx.x == 0) find_task<T, S>(*problem, data, work, block, task);
    __syncthreads();
    if (task.first < task.past) Block<T, S>(*problem, data, task, shared).run();
    __syncthreads();
  }
}

constexpr int kMergeWarps = 4, kMergeThreads = 32 * kMergeWarps;

/// Neighbouring floats that are read at once.
struct alignas(16) Floats {
  float at[4];
};

/// What `join` makes of a value of each thread of a block of kMergeWarps warps.
template <class Join>
__device__ float of_all_threads(float x, const Join& join) {
  __shared__ float of_warps[kMergeWarps];
  for (int step = 16; step > 0; step /= 2) x = join(x, __shfl_xor_sync(0xffffffff, x, step));
  __syncthreads();  // all have read what was there before
  if (threadIdx.x % 32 == 0) of_warps[threadIdx.x / 32] = x;
  __syncthreads();
  x = of_warps[0];
#pragma unroll
  for (int warp = 1; warp < kMergeWarps; ++warp) x = join(x, of_warps[warp]);
  return x;
}

/// Merges what the splits of a row left: a block a row. Its teams of threads share out the splits,
/// so that what they read is all under way at once.
template <class T>
__global__ void __launch_bounds__(kMergeThreads)
    merge(const attest_problem* problem, const __grid_constant__ cuda::Data data, const Work work) {
  constexpr float kNothing = -1;
  __shared__ float weights[split::kMost];    // of splits; kNothing: it has no key
  __shared__ float sums[4 * kMergeThreads];  // [teams, channels]
  const attest::Softmax<T> a(*problem, data.at);
  const Partials partials{a.p, work.splits, work.partial};
  const int64_t heads = work.groups * work.pack, queries = a.p.seq_len_q,
                rows = a.p.batch * heads * queries;
  // A thread has four channels, and a team of threads has all channels of the row. Team t merges
  // splits t, t + teams, and so on.
  const int thread = static_cast<int>(threadIdx.x), channels = static_cast<int>(a.p.head_dim_v),
            teams = kMergeThreads / (channels / 4), team = thread / (channels / 4),
            first = thread % (channels / 4) * 4;
  cuda::wait_for_launch_before();  // only the problem is read before this
  for (int64_t row = blockIdx.x; row < rows; row += gridDim.x) {
    const int64_t i = row % queries, h = row / queries % heads, b = row / queries / heads;
    if (i >= a.rows(b)) continue;
    const int64_t at = partials.at(b, h, i, 0);
    Part whole{-INFINITY, 0};
    for (int s = thread; s < work.splits; s += kMergeThreads)
      if (const Part part = partials.part(at + s); part.total != 0)
        whole.top = fmaxf(whole.top, part.top);
    whole.top = of_all_threads(whole.top, [](float x, float y) { return fmaxf(x, y); });
    for (int s = thread; s < work.splits; s += kMergeThreads) {
      const Part part = partials.part(at + s);
      weights[s] = part.total != 0 ? cuda::exp2_fast(part.top - whole.top) : kNothing;
      if (part.total != 0) whole.total += part.total * weights[s];
    }
    whole.total = of_all_threads(whole.total, [](float x, float y) { return x + y; });
    const float keep = cuda::planted(cuda::Bug::kSinkDropped) ? 1 : join_sink(a, h, whole);
    if (team < teams) {
      constexpr int kTogether = 8;  // reads that are under way
      float four[4] = {};
      for (int s = team; s < work.splits; s += kTogether * teams) {
        Floats part[kTogether];
        float weight[kTogether];
#pragma unroll
        for (int n = 0; n < kTogether; ++n) {
          const int split = s + n * teams;
          weight[n] = split < work.splits ? weights[split] : kNothing;
          part[n] = weight[n] != kNothing
                        ? *reinterpret_cast<const Floats*>(partials.sums(at + split) + first)
                        : Floats{};
        }
#pragma unroll
        for (int n = 0; n < kTogether; ++n)
#pragma unroll
          for (int c = 0; c < 4; ++c)
            four[c] += weight[n] != kNothing ? cuda::scaled(part[n].at[c], weight[n]) : 0;
      }
#pragma unroll
      for (int c = 0; c < 4; ++c) sums[team * channels + first + c] = four[c];
    }
    __syncthreads();
    const attest::Cell cell = a.query(b, i);
    for (int d = thread; d < channels; d += kMergeThreads) {
      float sum = 0;
#pragma unroll 4
      for (int n = 0; n < teams; ++n) sum += sums[n * channels + d];
      a.o(cell.batch, h, cell.row, d) =
          whole.total == 0 ? 0 : cuda::scaled(sum, keep / whole.total);
    }
    if (a.lse && thread == 0)
      a.lse(cell.batch, h, cell.row) =
          whole.total == 0 ? -INFINITY : whole.top * kLn2 + logf(whole.total);
    __syncthreads();  // before the next row
  }
}

/// Features that only the general version of the kernel knows.
constexpr uint64_t kGeneralFeatures = ATTEST_WITH_SOFTCAP | ATTEST_WITH_BIAS | ATTEST_WITH_MASK |
                                      ATTEST_WITH_PAGES | ATTEST_WITH_ORDER | ATTEST_WITH_GRID |
                                      ATTEST_WITH_REL_BIAS | ATTEST_WITH_ALIBI;

#ifdef ATTEST_SM90A
using OnSm90 = flash_sm90::Attend;
#else
struct OnSm90 {
  static bool takes(const attest_problem&) { return false; }
  static uint64_t workspace_bytes(const attest_problem&) { return 0; }
  explicit OnSm90(const attest_problem&) {}
  void run(void* const*, void*, cudaStream_t) const {}
  tiles::Progress* progress() const { return nullptr; }
};
#endif

class Flash {
 public:
  static constexpr attest::Info kInfo = {
      /*name=*/"flash_cuda",
      /*version=*/"1",
      /*summary=*/
      "tiles on tensor cores (mma.sync; sm_75: f16, sm_80 and up: f32 too, by 3xTF32; wgmma on "
      "sm_90), O(N d) memory",
      /*operation=*/ATTEST_SOFTMAX,
      /*device=*/ATTEST_CUDA,
      /*dtypes=*/ATTEST_BIT(ATTEST_F32) | ATTEST_BIT(ATTEST_F16) | ATTEST_BIT(ATTEST_BF16),
      /*features=*/ATTEST_WITH_GQA | ATTEST_WITH_HEAD_DIM_V | ATTEST_WITH_CAUSAL |
          ATTEST_WITH_WINDOW | ATTEST_WITH_DIAGONAL | ATTEST_WITH_LSE | ATTEST_WITH_VARLEN |
          ATTEST_WITH_SEQ_LENS | ATTEST_WITH_PATCHES | ATTEST_WITH_STRIDES | ATTEST_WITH_SINKS |
          kGeneralFeatures};

  static const char* query(const attest_problem& problem, attest_support& support) {
    const auto& p = attest::params<attest_softmax_params>(problem);
    if (const char* reason = why_not(problem)) return reason;
    declare_arithmetic(problem, support);
    const int splits = plan(problem).splits;
    if (goes_on_sm90(problem))
      support.workspace_bytes = OnSm90::workspace_bytes(problem);
    else if (splits > 1)
      support.workspace_bytes =
          static_cast<uint64_t>(p.batch * p.num_heads * p.seq_len_q * splits) *
          (static_cast<uint64_t>(p.head_dim_v) * sizeof(float) + sizeof(Part));
    return nullptr;
  }
  explicit Flash(const attest_problem& given)
      : problem(given),
        device_problem_(given),
        shared_bytes_(cuda::most_shared_bytes()),
        work_(plan(given)) {
    at_launch(problem, shared_bytes_, Prepare{});
    if (goes_on_sm90(problem)) {
      on_sm90_.emplace(problem);
      work_ = repairs(problem);
    }
  }

  const attest_problem& problem;

  void run(void* const* data, void* workspace, void* stream) {
    Work work = work_;
    const auto on = static_cast<cudaStream_t>(stream);
    if (on_sm90_) {
      on_sm90_->run(data, workspace, on);
      work.odd = static_cast<const uint8_t*>(workspace);
      work.progress = on_sm90_->progress();
    } else {
      work.partial = static_cast<float*>(workspace);
    }
    at_launch(problem, shared_bytes_, Launch{*this, work, cuda::Data(data), on});
  }

 private:
  static constexpr int64_t kFewRows = 16;

  static bool goes_on_sm90(const attest_problem& problem) {
    return !(problem.features & kGeneralFeatures) && OnSm90::takes(problem);
  }

  /// How the work is cut, from the sizes and the device at hand alone.
  static Work plan(const attest_problem& problem) {
    const auto& p = attest::params<attest_softmax_params>(problem);
    Work work{};
    work.heads_of_key = p.num_heads / p.num_kv_heads;
    work.pack = static_cast<int>(work.heads_of_key);
    at_launch(problem, cuda::most_shared_bytes(), [&](auto, auto shape) {
      using S = decltype(shape);
      const auto blocks = [&](int pack) {
        return (p.seq_len_q * pack + S::kRows - 1) / S::kRows * p.batch * (p.num_heads / pack);
      };
      if (blocks(work.pack) >= blocks(1)) work.pack = 1;
      work.groups = p.num_heads / work.pack;
      work.tiles = (p.seq_len_q * work.pack + S::kRows - 1) / S::kRows;
      const int64_t tiles = (longest_row(p, S::kRows / work.pack + 1) + S::kKeys - 1) / S::kKeys;
      work.splits =
          split::count(blocks(work.pack), tiles, int64_t{cuda::multiprocessors()} * S::kResident);
      work.blocks = blocks(work.pack) * work.splits;
    });
    return work;
  }
  /// One block a tile of rows, for those of them that are done again.
  static Work repairs(const attest_problem& problem) {
    const auto& p = attest::params<attest_softmax_params>(problem);
    Work work{};
    work.groups = p.num_heads;
    work.heads_of_key = p.num_heads / p.num_kv_heads;
    work.pack = work.splits = 1;
    at_launch(problem, cuda::most_shared_bytes(), [&](auto, auto shape) {
      using S = decltype(shape);
      work.tiles = (p.seq_len_q + S::kRows - 1) / S::kRows;
      work.blocks = work.tiles * p.batch * p.num_heads;
    });
    return work;
  }
  /// Keys that `rows` neighbouring rows see at most.
  static int64_t longest_row(const attest_softmax_params& p, int64_t rows) {
    int64_t keys = p.seq_len_kv;
    if (p.window_left >= 0 && p.window_right >= 0)
      keys = std::min(keys, p.window_left + p.window_right + rows);
    if (p.patch_size > 0) keys = std::min(keys, 2 * p.patch_size + rows);
    if (p.grid_height > 0) keys = std::min(keys, 2 * p.window_height * p.window_width + rows);
    return keys;
  }

  /// Lets a kernel have more than 48 KiB of shared memory.
  struct Prepare {
    template <class T, class S>
    void operator()(T, S) const {
      cuda::check(cudaFuncSetAttribute(attend<T, S>, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                       S::kSharedBytes),
                  "cudaFuncSetAttribute");
    }
  };
  struct Launch {
    const Flash& plan;
    const Work& work;
    cuda::Data data;
    cudaStream_t stream;
    template <class T, class S>
    void operator()(T, S) const {
      const auto& p = attest::params<attest_softmax_params>(plan.problem);
      const attest_problem* problem = plan.device_problem_.get();
      // Tiles that are done again are none, as a rule: few blocks look for theirs among many.
      if (work.progress)
        return cuda::launch_early(
            attend<T, S>, cuda::grid(std::min(work.blocks, int64_t{cuda::multiprocessors()})),
            S::kThreads, S::kSharedBytes, stream, problem, data, work);
      cuda::launch(attend<T, S>, cuda::grid(work.blocks), S::kThreads, S::kSharedBytes, stream,
                   problem, data, work);
      if (work.splits == 1) return;
      const unsigned rows = cuda::grid(p.batch * p.num_heads * p.seq_len_q);
      cuda::launch_early(merge<T>, rows, kMergeThreads, 0, stream, problem, data, work);
    }
  };

  /// Calls body(T(), S()) with the element and the shape of the kernel that takes the problem on a
  /// device whose blocks may have `room` bytes of shared memory. General kernels of few rows take
  /// everything, and fit everywhere.
  template <class Body>
  static void at_launch(const attest_problem& problem, int room, const Body& body) {
    const auto& p = attest::params<attest_softmax_params>(problem);
    const bool few = p.seq_len_q * (p.num_heads / p.num_kv_heads) <= kFewRows;
    const bool plain = !(problem.features & kGeneralFeatures);
    with_head_dim(problem, [&](auto element, auto dim) {
      using All = Sizes<decltype(element), decltype(dim)::value>;
      if (plain && !few && fits<typename All::Plain>(room))
        return body(element, typename All::Plain());
      if constexpr (!All::kWide)  // not in f32, to be compiled in time
        if (plain && few && fits<typename All::FewRows>(room))
          return body(element, typename All::FewRows());
      if (!few && fits<typename All::General>(room)) return body(element, typename All::General());
      body(element, typename All::GeneralFewRows());
    });
  }

  cuda::DeviceProblem device_problem_;
  const int shared_bytes_;
  Work work_;
  std::optional<OnSm90> on_sm90_;
};

}  // namespace

ATTEST_PLUGIN(attest::table<Flash>())
