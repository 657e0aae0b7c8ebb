// window_cuda: softmax attention inside windows on tensor cores (mma.sync): windows of a grid,
// shifted or not, with a relative position bias (Swin), patches of tokens in an order (PTv3), sets
// of their own lengths (DSVT, FlatFormer), bands. f16 from sm_75 on, bf16 and f32 from sm_80 on,
// f32 by three products of tf32 (3xTF32).
//
// Windows are many and small. So no tile of rows reaches into a second window, tiles of keys start
// where the window does, blocks are of 32 rows where windows are no larger, of 64 where pairs have
// terms, else of 128; and a block takes several windows of one head, for which it has the head's
// bias as a table in shared memory: what is added to a logit is one look-up, from where its query
// and key stand in the window. Grid windows of 33 to 64 tokens in 16 bits have a kernel of their
// own from sm_80 on (cuda/small_windows.cuh), and so have patches in 16 bits (cuda/patches.cuh).
#include "cuda/patches.cuh"

namespace {

using namespace flash;

/// Blocks of the kernel: (sequence, head) x groups of windows x tiles of rows of a window.
struct Work {
  int64_t blocks, window, windows,
      tiles;             // rows of a window, windows of a sequence, tiles of a window
  int64_t each, groups;  // windows a block, groups of them in a sequence
  int table;  // elements of a head's relative bias; 0: pairs inside a window have no terms
  int keys;   // that a row sees at most; 0: too many to have their rows at hand, or no need for it
};

/// Bytes of shared memory that a head's table, a window's codes and the rows of its keys take.
inline int64_t own_bytes(const Work& work) {
  return ((work.table ? work.table + work.window : 0) + work.keys) * 4;
}

/// The head's relative bias, dense; zeros where there is none.
template <class T>
__device__ void load_table(const attest::Softmax<T>& a, int64_t h, const Work& work, float* table) {
  const int64_t across = 2 * a.p.window_width - 1;
  for (int n = static_cast<int>(threadIdx.x); n < work.table; n += static_cast<int>(blockDim.x))
    table[n] = a.rel_bias ? static_cast<float>(a.rel_bias(h, n / across, n % across)) : 0;
}
/// Where each place of a window stands in the table, and from which side of the seams it comes.
template <class T>
__device__ void load_codes(const attest::Softmax<T>& a, int64_t first, const Work& work,
                           int* codes) {
  const int64_t seam_y = a.p.grid_height - a.p.shift_y, seam_x = a.p.grid_width - a.p.shift_x;
  for (int n = static_cast<int>(threadIdx.x); n < work.window; n += static_cast<int>(blockDim.x)) {
    const auto at = a.grid.point(first + n);
    const int64_t side = 2 * (at.y >= seam_y) + (at.x >= seam_x);
    codes[n] =
        static_cast<int>(side << 16 | (at.window_y * (2 * a.p.window_width - 1) + at.window_x));
  }
}

/// Where the keys that query i sees lie in K and V.
template <class T>
__device__ void load_key_rows(const attest::Softmax<T>& a, int64_t b, int64_t i, int* key_rows) {
  const attest::Keys keys = a.keys(b, i);
  const int count = static_cast<int>(keys.end - keys.begin);
#pragma unroll 1
  for (int n = static_cast<int>(threadIdx.x); n < count; n += static_cast<int>(blockDim.x))
    key_rows[n] = static_cast<int>(a.key(b, keys.begin + n).row);
}

/// The task of a block in one of its windows: its tile of rows there, the terms of its pairs.
/// False: there is none, nor in later windows. Apart, so that nothing of it takes registers from
/// what the task is made for.
template <class T, class S>
__device__ __noinline__ bool enter_window(const attest_problem& problem, const cuda::Data& data,
                                          const Work& work, int64_t block, int number, char* shared,
                                          Task& task, WindowTerms& terms) {
  const attest::Softmax<T> a(problem, data.at);
  const int64_t tile = block % work.tiles, group = block / work.tiles % work.groups,
                pair = block / work.tiles / work.groups;
  const int64_t b = pair / a.p.num_heads, h = pair % a.p.num_heads,
                window = group * work.each + number;
  const int64_t begin = window * work.window, first = begin + tile * S::kRows,
                past = min(begin + work.window, a.rows(b));
  if (window >= work.windows || first >= past) return false;
  float* table = reinterpret_cast<float*>(shared + S::kSharedBytes);
  int* codes = reinterpret_cast<int*>(table + work.table);
  int* key_rows = codes + (work.table ? work.window : 0);
  if (number == 0) load_table(a, h, work, table);
  if (work.table && !(cuda::planted(cuda::Bug::kWindowTerms) && number > 0))
    load_codes(a, begin, work, codes);
  if (work.keys && !(cuda::planted(cuda::Bug::kKeysOfWindowBefore) && number > 0))
    load_key_rows(a, b, first, key_rows);
  if (threadIdx.x == 0) {
    const int64_t across = 2 * a.p.window_width - 1;
    terms = {table, codes, begin,
             static_cast<int>((a.p.window_height - 1) * across + a.p.window_width - 1),
             a.p.shift_bias};
    task = {b,
            h,
            a.kv_head(h),
            first,
            past,
            1,
            0,
            1,
            nullptr,
            work.table ? &terms : nullptr,
            work.keys ? key_rows : nullptr};
  }
  __syncthreads();
  return true;
}

/// Blocks that a multiprocessor is to have registers for. An image's window has one tile of keys,
/// and a block waits for it: where channels are few, a third block is there to hide that, for 40
/// bytes a thread that go to memory. Not measured.
template <class S>
constexpr int kBlocks = S::kWarps < 4                       ? 1
                        : S::kPerWarp == 1 && S::kDim <= 32 ? 3
                                                            : 2;

template <class T, class S>
__global__ void __launch_bounds__(S::kThreads, kBlocks<S>)
    attend_windows(const attest_problem* problem, const __grid_constant__ cuda::Data data,
                   const __grid_constant__ Work work) {
  if (!runs_here<T, S>()) return;
  __shared__ Task task;
  __shared__ WindowTerms terms;
  char* shared = cuda::dynamic_shared();
  for (int64_t block = blockIdx.x; block < work.blocks; block += gridDim.x)
    for (int number = 0; number < work.each; ++number) {
      if (!enter_window<T, S>(*problem, data, work, block, number, shared, task, terms)) break;
      Block<T, S>(*problem, data, task, shared).run();
      __syncthreads();
    }
}

template <class T, class S>
__global__ void __launch_bounds__(S::kThreads, S::kResident)
    attend_small_windows(const __grid_constant__ SmallWork work) {
  if (cuda::before_sm80()) return;
  SmallWindows<T, S>(work, cuda::dynamic_shared()).run();
}

template <class T, class S>
__global__ void __launch_bounds__(S::kThreads, S::kResident)
    attend_patches(const __grid_constant__ PatchWork work) {
  if (cuda::before_sm80()) return;
  PatchBlock<T, S>(work, static_cast<int>(blockIdx.x), cuda::dynamic_shared()).run();
}

class Window {
 public:
  static constexpr attest::Info kInfo = {
      /*name=*/"window_cuda",
      /*version=*/"2",
      /*summary=*/
      "windows of grids, patches, sets and bands on tensor cores (mma.sync; sm_75: f16, sm_80 and "
      "up: f32 too, by 3xTF32)",
      /*operation=*/ATTEST_SOFTMAX,
      /*device=*/ATTEST_CUDA,
      /*dtypes=*/ATTEST_BIT(ATTEST_F32) | ATTEST_BIT(ATTEST_F16) | ATTEST_BIT(ATTEST_BF16),
      /*features=*/ATTEST_WITH_GQA | ATTEST_WITH_HEAD_DIM_V | ATTEST_WITH_CAUSAL |
          ATTEST_WITH_WINDOW | ATTEST_WITH_DIAGONAL | ATTEST_WITH_SOFTCAP | ATTEST_WITH_LSE |
          ATTEST_WITH_VARLEN | ATTEST_WITH_SEQ_LENS | ATTEST_WITH_ORDER | ATTEST_WITH_PATCHES |
          ATTEST_WITH_GRID | ATTEST_WITH_REL_BIAS | ATTEST_WITH_STRIDES | ATTEST_WITH_SINKS};

  static const char* query(const attest_problem& problem, attest_support& support) {
    const auto& p = attest::params<attest_softmax_params>(problem);
    const bool band = p.window_left >= 0 || p.window_right >= 0,
               sets = (problem.features & ATTEST_WITH_VARLEN) != 0;
    if (!band && !sets && p.patch_size == 0 && p.grid_height == 0)
      return "takes only problems with a window, patches, a grid or sets";
    if (p.window_height * p.window_width > kMostWindowTokens)
      return "grid windows of more than 1,024 tokens";
    if (const char* reason = why_not(problem)) return reason;
    const char* reason = nullptr;
    const int room = cuda::most_shared_bytes();
    declare_arithmetic(problem, support);
    const auto take = [](auto, auto) {};
    if (at_small_launch(problem, cuda::capability(), take) ||
        at_patch_launch(problem, cuda::capability(), room, take))
      return nullptr;
    at_launch(problem, room, [&](auto, auto shape) {
      using S = decltype(shape);
      if (S::kSharedBytes + S::kOwnBytes + own_bytes(plan(problem)) > room)
        reason = "a table of relative biases that shared memory has no room for";
    });
    return reason;
  }
  explicit Window(const attest_problem& given)
      : problem(given),
        device_problem_(given),
        capability_(cuda::capability()),
        shared_bytes_(cuda::most_shared_bytes()),
        work_(plan(given)) {
    const bool small = at_small_launch(problem, capability_, [&](auto element, auto shape) {
      using S = decltype(shape);
      plan_small<S>();
      allow(attend_small_windows<decltype(element), S>, S::kSharedBytes);
    });
    const bool patches =
        at_patch_launch(problem, capability_, shared_bytes_, [&](auto element, auto shape) {
          using S = decltype(shape);
          plan_patches<S>();
          allow(attend_patches<decltype(element), S>, shared_bytes_ - S::kOwnBytes);
        });
    if (small || patches) return;
    at_launch(problem, shared_bytes_, [&](auto element, auto shape) {
      using S = decltype(shape);
      allow(attend_windows<decltype(element), S>, shared_bytes_ - S::kOwnBytes);
    });
  }

  const attest_problem& problem;

  void run(void* const* data, void* /*workspace*/, void* stream) {
    const cuda::Data addresses(data);
    const bool small = at_small_launch(problem, capability_, [&](auto element, auto shape) {
      using S = decltype(shape);
      cuda::launch(attend_small_windows<decltype(element), S>, small_blocks_, S::kThreads,
                   size_t{S::kSharedBytes}, static_cast<cudaStream_t>(stream),
                   with_addresses(small_work_, data));
    });
    const bool patches =
        at_patch_launch(problem, capability_, shared_bytes_, [&](auto element, auto shape) {
          using S = decltype(shape);
          cuda::launch(attend_patches<decltype(element), S>, small_blocks_, S::kThreads,
                       static_cast<size_t>(S::kSharedBytes + patch_bytes(problem)),
                       static_cast<cudaStream_t>(stream), with_addresses(patch_work_, data));
        });
    if (small || patches) return;
    at_launch(problem, shared_bytes_, [&](auto element, auto shape) {
      using S = decltype(shape);
      cuda::launch(attend_windows<decltype(element), S>, cuda::grid(work_.blocks), S::kThreads,
                   static_cast<size_t>(S::kSharedBytes + own_bytes(work_)),
                   static_cast<cudaStream_t>(stream), device_problem_.get(), addresses, work_);
    });
  }

 private:
  /// Lets a kernel have so many bytes of dynamic shared memory, in the launches of every plan: as
  /// many as any of them may need.
  template <class Kernel>
  static void allow(Kernel kernel, int bytes) {
    cuda::check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes),
                "cudaFuncSetAttribute");
  }

  static constexpr int64_t kMostWindowTokens = 1024, kFewRows = 32, kMostInt = INT32_MAX,
                           kMostKeyRows = 4096;
  /// Pairs have terms, or may, or a softcap.
  static constexpr uint64_t kWithTerms =
      ATTEST_WITH_GRID | ATTEST_WITH_REL_BIAS | ATTEST_WITH_SOFTCAP;

  /// body(T()) with the problem's element of 16 bits; false if it has another.
  template <class Body>
  static bool with_16_bits(const attest_problem& problem, const Body& body) {
    switch (problem.tensor[ATTEST_Q].dtype) {
      case ATTEST_F16: return body(attest::Half());
      case ATTEST_BF16: return body(attest::BFloat16());
      default: return false;
    }
  }
  /// Rows that see one another and nobody else.
  static int64_t window_rows(const attest_softmax_params& p) {
    if (p.grid_height > 0) return p.window_height * p.window_width;
    return p.patch_size > 0 && p.patch_size < p.seq_len_q ? p.patch_size : p.seq_len_q;
  }
  static Work plan(const attest_problem& problem) {
    const auto& p = attest::params<attest_softmax_params>(problem);
    Work work{};
    at_launch(problem, cuda::most_shared_bytes(), [&](auto, auto shape) {
      using S = decltype(shape);
      work.window = window_rows(p);
      work.windows = (p.seq_len_q + work.window - 1) / work.window;
      work.tiles = (work.window + S::kRows - 1) / S::kRows;
      const int64_t pairs = p.batch * p.num_heads * work.tiles,
                    slots = int64_t{cuda::multiprocessors()} * S::kResident;
      work.each = split::tasks_each(pairs * work.windows, work.windows, slots);
      work.groups = (work.windows + work.each - 1) / work.each;
      work.blocks = pairs * work.groups;
      const bool pairs_have_terms =
          (problem.features & ATTEST_WITH_REL_BIAS) || (p.grid_height > 0 && p.shift_bias != 0);
      work.table = pairs_have_terms
                       ? static_cast<int>((2 * p.window_height - 1) * (2 * p.window_width - 1))
                       : 0;
      // Rows of one window see the same keys, unless there is a band.
      const int64_t keys = p.grid_height > 0  ? work.window
                           : p.patch_size > 0 ? min(p.patch_size, p.seq_len_kv)
                                              : p.seq_len_kv;
      const bool band = p.window_left >= 0 || p.window_right >= 0,
                 numbered = problem.tensor[ATTEST_K].dim[2] <= kMostInt;  // its rows, by int
      if (S::kScattered && !band && numbered && keys <= kMostKeyRows &&
          S::kSharedBytes + S::kOwnBytes + own_bytes(work) + keys * 4 <= cuda::most_shared_bytes())
        work.keys = static_cast<int>(keys);
    });
    return work;
  }

  /// Whether the bytes from one row to the next have room in 32 bits.
  static bool short_strides(const attest_problem& problem) {
    for (const int32_t role : {ATTEST_Q, ATTEST_K, ATTEST_V, ATTEST_O, ATTEST_LSE})
      if (problem.tensor[role].stride[2] > kMostInt / 4) return false;
    return true;
  }

  /// Calls body(T(), S()) with the element and the shape of the kernel for small windows if that
  /// takes the problem on a device of this compute capability, times 10; else returns false.
  template <class Body>
  static bool at_small_launch(const attest_problem& problem, int capability, const Body& body) {
    const auto& p = attest::params<attest_softmax_params>(problem);
    const int64_t places = p.window_height * p.window_width, tokens = p.batch * p.seq_len_q;
    if (p.grid_height == 0 || places <= kFewRows || places > SmallShape<32, 64>::kRows ||
        p.head_dim != p.head_dim_v || tokens > kMostInt / 2 || capability < 80 ||
        (problem.features & (ATTEST_WITH_SOFTCAP | ATTEST_WITH_SINKS)))
      return false;
    if (!short_strides(problem)) return false;
    // As in with_head_dim
    constexpr int kOnly = ATTEST_ONLY_HEAD_DIM;
    const auto with = [&](auto element) {
      if constexpr (kOnly == 0 || kOnly == 32) {
        if (p.head_dim <= 32 && places <= 56) {
          body(element, SmallShape<32, 56>());
          return true;
        }
        if (p.head_dim <= 32) {
          body(element, SmallShape<32, 64>());
          return true;
        }
      }
      if constexpr (kOnly == 0 || kOnly == 64)
        if (p.head_dim <= 64) {
          body(element, SmallShape<64, 64>());
          return true;
        }
      return false;
    };
    return with_16_bits(problem, with);
  }

  /// Blocks for each head that the device holds at a time, or as few as have no more to do each.
  template <class S>
  void plan_small() {
    const auto& p = attest::params<attest_softmax_params>(problem);
    const auto number = [](int64_t value) { return static_cast<int>(value); };
    SmallWork& work = small_work_;
    work.batch = number(p.batch);
    work.heads = number(p.num_heads);
    work.heads_of_key = number(p.num_heads / p.num_kv_heads);
    work.window_height = number(p.window_height);
    work.window_width = number(p.window_width);
    work.grid_height = number(p.grid_height);
    work.grid_width = number(p.grid_width);
    work.down = work.grid_height / work.window_height;
    work.across = work.grid_width / work.window_width;
    work.shift_y = number(p.shift_y);
    work.shift_x = number(p.shift_x);
    work.chunks = number(p.head_dim / S::kPerChunk);
    work.scale = p.softmax_scale * kLog2E;
    work.shift_bias = in_base_2(p.shift_bias);
    for (int place = 0; place < work.window_height * work.window_width && p.shift_bias != 0;
         ++place) {
      const int y = place / work.window_width, x = place % work.window_width;
      work.round_lower |= uint64_t{y >= work.window_height - work.shift_y} << place;
      work.round_right |= uint64_t{x >= work.window_width - work.shift_x} << place;
    }
    constexpr int kOfSystem = 1 << 10;  // bytes of shared memory that each block costs besides
    const int64_t windows = p.batch * work.down * work.across,
                  held = (shared_bytes_ + kOfSystem) / (S::kSharedBytes + kOfSystem),
                  slots = cuda::multiprocessors() * min(held, int64_t{S::kResident}),
                  most = max(int64_t{1}, slots / p.num_heads), each = (windows + most - 1) / most,
                  parts = (windows + each - 1) / each;
    work.step = {number(parts / (work.down * work.across)), number(parts / work.across % work.down),
                 number(parts % work.across)};
    small_blocks_ = static_cast<unsigned>(parts * p.num_heads);
  }
  /// Where a tensor's rows lie in a run.
  RowsOf rows_of(int32_t role, void* const* data) const {
    const attest_tensor& tensor = problem.tensor[role];
    if (tensor.dtype == ATTEST_NONE) return {};
    const int64_t bytes = tensor.dtype == ATTEST_F32 ? 4 : 2;
    return {static_cast<char*>(data[role]), tensor.stride[0] * bytes, tensor.stride[1] * bytes,
            static_cast<int32_t>(tensor.stride[2] * bytes)};
  }
  /// The work with the addresses of a run.
  template <class Anything>
  Anything with_rows(Anything work, void* const* data) const {
    work.q = rows_of(ATTEST_Q, data);
    work.k = rows_of(ATTEST_K, data);
    work.v = rows_of(ATTEST_V, data);
    work.o = rows_of(ATTEST_O, data);
    work.lse = rows_of(ATTEST_LSE, data);
    return work;
  }
  SmallWork with_addresses(const SmallWork& given, void* const* data) const {
    SmallWork work = with_rows(given, data);
    const attest_tensor& bias = problem.tensor[ATTEST_REL_BIAS];
    if (bias.dtype != ATTEST_NONE)
      work.rel_bias = {data[ATTEST_REL_BIAS], bias.stride[0], bias.stride[1], bias.stride[2]};
    return work;
  }
  PatchWork with_addresses(const PatchWork& given, void* const* data) const {
    PatchWork work = with_rows(given, data);
    const attest_tensor& order = problem.tensor[ATTEST_ORDER];
    if (order.dtype != ATTEST_NONE) {
      work.order = static_cast<const int32_t*>(data[ATTEST_ORDER]);
      work.order_sequence = order.stride[0];
    }
    return work;
  }

  /// Bytes of shared memory that the rows of the keys of a patch take.
  static int64_t patch_bytes(const attest_problem& problem) {
    return window_rows(params(problem)) * 4;
  }
  static const attest_softmax_params& params(const attest_problem& problem) {
    return attest::params<attest_softmax_params>(problem);
  }
  /// Calls body(T(), S()) with the element and the shape of the kernel for patches if that takes
  /// the problem on such a device, whose blocks may have `room` bytes of shared memory; else
  /// returns false.
  template <class Body>
  static bool at_patch_launch(const attest_problem& problem, int capability, int room,
                              const Body& body) {
    constexpr uint64_t kTakes = ATTEST_WITH_GQA | ATTEST_WITH_LSE | ATTEST_WITH_ORDER |
                                ATTEST_WITH_PATCHES | ATTEST_WITH_STRIDES;
    const attest_softmax_params& p = params(problem);
    const int64_t rows = window_rows(p), blocks = p.batch * p.num_heads * p.seq_len_q;
    const attest_tensor& order = problem.tensor[ATTEST_ORDER];
    if (p.patch_size == 0 || rows <= PatchShape<64>::kKeys || (problem.features & ~kTakes) ||
        !(p.softmax_scale > 0) || capability < 80 || blocks > kMostInt ||
        (order.dtype != ATTEST_NONE && order.stride[1] > 1) || !short_strides(problem))
      return false;
    constexpr int kOnly = ATTEST_ONLY_HEAD_DIM;
    const auto with = [&](auto element) {
      const auto fits = [&](auto shape) {
        using S = decltype(shape);
        if (p.head_dim > S::kDim || S::kSharedBytes + S::kOwnBytes + rows * 4 > room) return false;
        body(element, shape);
        return true;
      };
      if constexpr (kOnly == 0 || kOnly == 16)
        if (fits(PatchShape<16>())) return true;
      if constexpr (kOnly == 0 || kOnly == 32)
        if (fits(PatchShape<32>())) return true;
      if constexpr (kOnly == 0 || kOnly == 64) return fits(PatchShape<64>());
      return false;
    };
    return with_16_bits(problem, with);
  }
  template <class S>
  void plan_patches() {
    const attest_softmax_params& p = params(problem);
    const auto number = [](int64_t value) { return static_cast<int>(value); };
    PatchWork& work = patch_work_;
    work.heads = number(p.num_heads);
    work.heads_of_key = number(p.num_heads / p.num_kv_heads);
    work.tokens = number(p.seq_len_q);
    work.patch = number(window_rows(p));
    work.patches = (work.tokens + work.patch - 1) / work.patch;
    work.tiles = (work.patch + S::kRows - 1) / S::kRows;
    work.chunks = number(p.head_dim / S::kPerChunk);
    work.scale = p.softmax_scale * kLog2E;
    small_blocks_ = static_cast<unsigned>(p.batch * p.num_heads * work.patches * work.tiles);
  }

  /// Calls body(T(), S()) with the element and the shape of the kernel that takes the problem on a
  /// device whose blocks may have `room` bytes of shared memory.
  template <class Body>
  static void at_launch(const attest_problem& problem, int room, const Body& body) {
    const int64_t rows = window_rows(attest::params<attest_softmax_params>(problem));
    with_head_dim<16>(problem, [&](auto element, auto dim) {
      constexpr int kDim = decltype(dim)::value;
      using All = Sizes<decltype(element), kDim>;
      if constexpr (kDim <= 32)
        if (rows <= kFewRows)
          return body(element, Shape<sizeof(element), kDim, 1, 32, Kind::kWindow, 2>());
      if constexpr (sizeof(element) == 2 && kDim <= 128)
        if (rows > All::Window::kRows && !(problem.features & kWithTerms) &&
            fits<typename All::Plain>(room)) {
          if (problem.features & ATTEST_WITH_ORDER) return body(element, typename All::Scattered());
          return body(element, typename All::Plain());
        }
      if constexpr (kDim == 256)
        if (!fits<typename All::Window>(room)) return body(element, typename All::WindowFewRows());
      body(element, typename All::Window());
    });
  }

  cuda::DeviceProblem device_problem_;
  const int capability_, shared_bytes_;
  const Work work_;
  SmallWork small_work_{};
  PatchWork patch_work_{};
  unsigned small_blocks_ = 0;  // of the kernel for small windows or patches
};

}  // namespace

ATTEST_PLUGIN(attest::table<Window>())
