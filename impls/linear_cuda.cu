// linear_cuda: linear attention with phi = elu + 1 (LoFTR) on a CUDA device, O(tokens * head_dim *
// head_dim_v), in float32 or 3xTF32 whatever the storage.
//
// The state of a key head is S = sum phi(k)^T v [head_dim, head_dim_v] and z = sum phi(k)
// [head_dim]. One kernel sums the state of each chunk of keys, a second adds the chunks in their
// order, a third reads the state out for each query. No atomics: the same bits in every run. The
// first and the third are those of linear_mma.cuh where tensor cores take f32, else those of
// linear_tiles.cuh. Of short sequences with few channels one kernel does it all, a warp a head.
#include "cuda/linear_mma.cuh"
#include "cuda/linear_tiles.cuh"
#include "cuda/split.hpp"

#include <algorithm>
#include <type_traits>

// So that one size of the kernels on tensor cores alone is compiled, for a quick look at it
#ifndef ATTEST_ONLY_HEAD_DIM
#define ATTEST_ONLY_HEAD_DIM 0
#endif

namespace {

constexpr int kAddThreads = 64;

/// Adds the chunks of every state, of `size` floats each, in their order; a thread an element.
__global__ void __launch_bounds__(kAddThreads)
    add_chunks(float* states, int64_t size, int64_t chunks, int64_t heads) {
  cuda::let_next_launch_begin();
  cuda::wait_for_launch_before();
  const int64_t last = chunks - (cuda::planted(cuda::Bug::kChunkDropped) ? 1 : 0);
  for (int64_t index = int64_t{blockIdx.x} * kAddThreads + threadIdx.x; index < heads * size;
       index += int64_t{gridDim.x} * kAddThreads) {
    float* element = states + index / size * chunks * size + index % size;
    float sum = *element;
#pragma unroll 8
    for (int64_t chunk = 1; chunk < last; ++chunk) sum += element[chunk * size];
    *element = sum;
  }
}

/// The kernels of linear_mma.cuh for elements T and up to kDim channels.
template <class T, int kDim>
struct OnTensorCores {
  using Keys = linear_mma::KeyShape<kDim, sizeof(T)>;
  using Queries = linear_mma::QueryShape<kDim, sizeof(T)>;
  // A block's start, in tiles of each of its warps, and chunks that cost a tile to be added.
  // Estimates: copies that arrive, sums of warps that are added, a state that is loaded.
  static constexpr int64_t kKeyStart = 4, kQueryStart = 1, kMerged = 8;
  /// Of short sequences of few channels a warp has a whole head.
  static constexpr bool kMayBeShort = kDim <= 32;
  static constexpr int64_t kShort = 64;
  static constexpr int kLeastTeam = kMayBeShort ? 1 : linear_mma::kWarps;

  static int team(int64_t tokens) { return tokens <= kShort ? kLeastTeam : linear_mma::kWarps; }
  static linear_mma::Work plan(const attest_linear_params& p) {
    const int64_t multiprocessors = cuda::multiprocessors();
    linear_mma::Work work{};
    work.key_team = team(p.seq_len_kv);
    work.query_team = team(p.seq_len_q);
    const split::Chunks chunks =
        split::quickest_chunks(p.seq_len_kv, work.key_team / Keys::kGroup * Keys::kKeys,
                               blocks(p.batch * p.num_kv_heads, work.key_team),
                               multiprocessors * Keys::kResident, kKeyStart, kMerged);
    const split::Chunks ranges =
        split::quickest_chunks(p.seq_len_q, work.query_team * Queries::kKeys,
                               blocks(p.batch * p.num_heads * across(p), work.query_team),
                               multiprocessors * Queries::kResident, kQueryStart, split::kMost);
    work.chunk = chunks.size;
    work.chunks = chunks.count;
    work.range = ranges.size;
    work.ranges = ranges.count;
    return work;
  }
  /// Blocks for that many teams.
  static int64_t blocks(int64_t tasks, int team) {
    const int64_t each = linear_mma::kWarps / team;
    return (tasks + each - 1) / each;
  }
  static int64_t across(const attest_linear_params& p) {
    return (p.head_dim_v + Queries::kTile - 1) / Queries::kTile;
  }
  static int query_shared_bytes(int team) {
    return Queries::shared_bytes(linear_mma::kWarps / team);
  }
  /// Whether one kernel does all, a warp a head: short sequences of few channels, no key head of
  /// several heads.
  static bool takes_whole_heads(const attest_linear_params& p) {
    return kHasWholeHeads && p.seq_len_q <= kShort && p.seq_len_kv <= kShort &&
           p.num_heads == p.num_kv_heads;
  }
  static constexpr bool kHasWholeHeads = kDim <= 16;
  using Heads = linear_mma::HeadShape<linear_mma::smaller(kDim, 16), sizeof(T)>;
  /// Whether blocks may have what these take.
  static bool fits(int shared_bytes) {
    return std::max({Keys::kSharedBytes, Queries::kSharedBytes, query_shared_bytes(kLeastTeam),
                     kHasWholeHeads ? Heads::kSharedBytes : 0}) <= shared_bytes;
  }
  /// Lets the kernels have more than 48 KiB of shared memory.
  static void prepare() {
    const auto allow = [](auto kernel, int bytes) {
      cuda::check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes),
                  "cudaFuncSetAttribute");
    };
    allow(linear_mma::sum_keys<T, Keys>, Keys::kSharedBytes);
    allow(linear_mma::read_queries<T, Queries>, query_shared_bytes(kLeastTeam));
    if constexpr (kHasWholeHeads) allow(linear_mma::attend_short<T, Heads>, Heads::kSharedBytes);
  }
};

/// What kernels are chosen by, of the device at hand.
struct Device {
  int capability = cuda::capability(), shared_bytes = cuda::most_shared_bytes();
};

class Linear {
 public:
  static constexpr attest::Info kInfo = {
      /*name=*/"linear_cuda",
      /*version=*/"2",
      /*summary=*/
      "linear attention (elu + 1), chunks of keys summed in a fixed order (sm_80 and up: on tensor "
      "cores by 3xTF32)",
      /*operation=*/ATTEST_LINEAR,
      /*device=*/ATTEST_CUDA,
      /*dtypes=*/ATTEST_BIT(ATTEST_F32) | ATTEST_BIT(ATTEST_F16) | ATTEST_BIT(ATTEST_BF16),
      /*features=*/ATTEST_WITH_GQA | ATTEST_WITH_HEAD_DIM_V | ATTEST_WITH_MASK |
          ATTEST_WITH_QUERY_MASK | ATTEST_WITH_STRIDES | ATTEST_WITH_UNALIGNED};

  static const char* query(const attest_problem& problem, attest_support& support) {
    const auto& p = attest::params<attest_linear_params>(problem);
    if (p.feature_map != 0) return "a feature map other than elu + 1";
    if (p.head_dim > kMostChannels || p.head_dim_v > kMostChannels)
      return "head_dim or head_dim_v above 512";
    support.stage[ATTEST_LINEAR_FEATURES].rel_error = kExpError;
    const auto needs = [&](int64_t chunks, int64_t size) {
      support.workspace_bytes =
          sizeof(float) * static_cast<uint64_t>(p.batch * p.num_kv_heads * chunks * size);
    };
    const bool on_tensor_cores = with_shape(problem, Device(), [&](auto element, auto dim) {
      using Mma = OnTensorCores<decltype(element), decltype(dim)::value>;
      const linear_mma::Work work = Mma::plan(p);
      support.stage[ATTEST_LINEAR_FEATURES] = {ATTEST_3XTF32,
                                               linear_mma::kPhiError<decltype(element)>};
      support.stage[ATTEST_LINEAR_STATE].dtype = ATTEST_3XTF32;
      // Of S: keys that a product sums, folds that a warp adds. Of z: keys that a lane adds, of
      // which four share those of a warp. Then warps and chunks.
      const int64_t of_state = Mma::Keys::kFold + work.chunk / Mma::Keys::kFold,
                    of_z = work.chunk / (4 * (work.key_team / Mma::Keys::kGroup));
      support.sum_chain = std::max(of_state, of_z) + linear_mma::kWarps + work.chunks;
      if (!Mma::takes_whole_heads(p)) needs(work.chunks, Mma::Keys::kState);
    });
    if (on_tensor_cores) return nullptr;
    const linear_tiles::States states = in_tiles(p);
    support.sum_chain = linear_tiles::kTile + states.chunk / linear_tiles::kTile + states.chunks;
    needs(states.chunks, linear_tiles::States::size(p));
    return nullptr;
  }
  explicit Linear(const attest_problem& given) : problem(given), device_problem_(given) {
    with_shape(problem, device_, [&](auto element, auto dim) {
      using Mma = OnTensorCores<decltype(element), decltype(dim)::value>;
      Mma::prepare();
      work_ = Mma::plan(attest::params<attest_linear_params>(problem));
    });
  }

  const attest_problem& problem;

  void run(void* const* data, void* workspace, void* stream) {
    const Launch launch{*this, data, static_cast<float*>(workspace),
                        static_cast<cudaStream_t>(stream)};
    if (with_shape(problem, device_, launch)) return;
    with_element(problem, launch);
  }

 private:
  static constexpr int64_t kMostChannels = 512;
  // Two units in the last place, as CUDA's manual has it for expf
  static constexpr float kExpError = 2.4e-7f;

  struct Launch {
    const Linear& linear;
    void* const* data;
    float* states;
    cudaStream_t stream;

    template <class T, class Dim>
    void operator()(T, Dim) const {
      namespace mma = linear_mma;
      using Mma = OnTensorCores<T, Dim::value>;
      const auto& p = attest::params<attest_linear_params>(linear.problem);
      const attest_problem* there = linear.device_problem_.get();
      const cuda::Data addresses(data);
      if constexpr (Mma::kHasWholeHeads)
        if (Mma::takes_whole_heads(p))
          return cuda::launch(mma::attend_short<T, typename Mma::Heads>,
                              cuda::grid(Mma::blocks(p.batch * p.num_heads, 1)), mma::kThreads,
                              Mma::Heads::kSharedBytes, stream, there, addresses);
      mma::Work work = linear.work_;
      work.states = states;
      const int64_t heads = p.batch * p.num_kv_heads,
                    keys = Mma::blocks(heads * work.chunks, work.key_team),
                    queries = Mma::blocks(p.batch * p.num_heads * work.ranges * Mma::across(p),
                                          work.query_team);
      cuda::launch(mma::sum_keys<T, typename Mma::Keys>, cuda::grid(keys), mma::kThreads,
                   Mma::Keys::kSharedBytes, stream, there, addresses, work, keys);
      linear.add(states, Mma::Keys::kState, work.chunks, heads, stream);
      cuda::launch_early(mma::read_queries<T, typename Mma::Queries>, cuda::grid(queries),
                         mma::kThreads, Mma::query_shared_bytes(work.query_team), stream, there,
                         addresses, work, queries);
    }
    template <class T>
    void operator()(T) const {
      namespace tiles = linear_tiles;
      const auto& p = attest::params<attest_linear_params>(linear.problem);
      const attest_problem* there = linear.device_problem_.get();
      const cuda::Data addresses(data);
      tiles::States work = in_tiles(p);
      work.memory = states;
      const int64_t heads = p.batch * p.num_kv_heads,
                    keys =
                        heads * work.chunks * tiles::tiles(p.head_dim) * tiles::tiles(p.head_dim_v),
                    queries = p.batch * p.num_heads * tiles::tiles(p.seq_len_q) *
                              tiles::tiles(p.head_dim_v);
      cuda::launch(tiles::sum_keys<T>, cuda::grid(keys), tiles::kThreads, 0, stream, there,
                   addresses, work, keys);
      linear.add(states, tiles::States::size(p), work.chunks, heads, stream);
      cuda::launch(tiles::read_queries<T>, cuda::grid(queries), tiles::kThreads, 0, stream, there,
                   addresses, work, queries);
    }
  };

  void add(float* states, int64_t size, int64_t chunks, int64_t heads, cudaStream_t stream) const {
    if (chunks > 1)
      cuda::launch_early(add_chunks, cuda::grid((heads * size + kAddThreads - 1) / kAddThreads),
                         kAddThreads, 0, stream, states, size, chunks, heads);
  }

  static linear_tiles::States in_tiles(const attest_linear_params& p) {
    constexpr int64_t kResident = 16;  // blocks that a multiprocessor holds at a time
    const int64_t blocks = p.batch * p.num_kv_heads * linear_tiles::tiles(p.head_dim) *
                           linear_tiles::tiles(p.head_dim_v);
    const split::Chunks chunks = split::chunks(p.seq_len_kv, linear_tiles::kTile, blocks,
                                               cuda::multiprocessors() * kResident);
    return {nullptr, chunks.size, chunks.count};
  }

  /// Whether rows of Q, K, V and O begin on 16 bytes and are multiples of them.
  static bool lies_in_chunks(const attest_problem& problem) {
    if (problem.features & ATTEST_WITH_UNALIGNED) return false;
    for (const int role : {ATTEST_Q, ATTEST_K, ATTEST_V, ATTEST_O}) {
      const attest_tensor& tensor = problem.tensor[role];
      const int64_t unit = tensor.dtype == ATTEST_F32 ? 4 : 8;  // elements of 16 bytes
      if (tensor.dim[3] % unit != 0 || tensor.stride[3] != 1) return false;
      for (int axis = 0; axis < 3; ++axis)
        if (tensor.stride[axis] % unit != 0) return false;
    }
    return true;
  }
  /// Calls body(T()) with the element of the problem.
  template <class Body>
  static void with_element(const attest_problem& problem, const Body& body) {
    switch (problem.tensor[ATTEST_Q].dtype) {
      case ATTEST_F16: body(attest::Half()); break;
      case ATTEST_BF16: body(attest::BFloat16()); break;
      default: body(float());
    }
  }
  /// Calls body(T(), std::integral_constant<int, kDim>()) for the kernels on tensor cores that take
  /// the problem on the device; false: there are none.
  template <class Body>
  static bool with_shape(const attest_problem& problem, const Device& device, const Body& body) {
    bool found = false;
    if (device.capability >= 80 && lies_in_chunks(problem))
      with_element(problem, [&](auto element) {
        found = with_dim<decltype(element), 16, 32, 64, 128>(problem, device, body);
      });
    return found;
  }
  template <class T, int kDim, int... kLarger, class Body>
  static bool with_dim(const attest_problem& problem, const Device& device, const Body& body) {
    const auto& p = attest::params<attest_linear_params>(problem);
    if constexpr (ATTEST_ONLY_HEAD_DIM == 0 || ATTEST_ONLY_HEAD_DIM == kDim)
      if (std::max(p.head_dim, p.head_dim_v) <= kDim) {
        if (!OnTensorCores<T, kDim>::fits(device.shared_bytes)) return false;
        body(T(), std::integral_constant<int, kDim>());
        return true;
      }
    if constexpr (sizeof...(kLarger) > 0) return with_dim<T, kLarger...>(problem, device, body);
    return false;
  }

  cuda::DeviceProblem device_problem_;
  const Device device_;
  linear_mma::Work work_{};  // of the kernels on tensor cores
};

}  // namespace

ATTEST_PLUGIN(attest::table<Linear>())
