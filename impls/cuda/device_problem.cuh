// What kernels read of a problem: copies of the problem, its parameters and its tensors' layouts in
// the device's memory, so that attest.hpp's views work there; and the addresses of the tensors as a
// kernel's argument.
#pragma once
#include <cstdlib>

#include "attest.hpp"
#include "cuda/check.cuh"

namespace cuda {

/// Bugs that tests plant in kernels (ATTEST_CUDA_BUG: a number), to see that they are caught: on
/// the host, and on a device in plugins that are built for that alone (ATTEST_CUDA_PLANTED). Other
/// kernels of a device have none.
enum class Bug {
  kNone,
  kNoBarrier,         // before tiles of shared memory are written again
  kNoWait,            // for a tile's copies
  kTileOfKeys,        // V's first tile goes with all of K's
  kIndexOf32Bits,     // elements from one row to another
  kSplitBound,        // splits but the last lack a tile
  kSinkInEverySplit,  // and in the whole
  kSinkDropped,
  kChunkBound,  // of linear attention: a chunk of keys lacks its last tile
  kChunkDropped,
  kInfinitiesForgotten,  // whose weight is rounded to 0
  kWindowTerms,          // of the window before
  // Of flash_cuda on sm_90:
  kScoresNotWaited,     // before they become weights
  kKeysGivenBackEarly,  // while they are multiplied
  kValuesGivenBackEarly,
  kQueryGivenBackEarly,  // before the last keys
  kSecondColumn,         // of channels is the first
  kNotDoneAgain,         // what is not finite
  kPaddingMultiplied,    // and not done again
  kNoFence,              // after padding became 0, nor done again
  kHalfProduct,          // of f16 on sm_75: 8 of 16 channels, or keys, are left out
  kSmallOfLeft,          // of f32: what tf32 leaves of the left operand, of the right
  kSmallOfRight,
  kSumsCut,       // as tensor cores do, over all keys and channels
  kNotSplitAnew,  // what was NaN by splitting alone
  // Of flash_cuda on sm_90:
  kTilesNotCountedAnew,  // by the next run
  kOddForgotten,         // by the launch that does tiles again
  // Of window_cuda, where a window is one tile:
  kSeamForgotten,     // the one that is upright
  kRowsOfNextWindow,  // get this one's outputs
  // Of its other windows:
  kKeysOfWindowBefore,
  kTailSeen,  // what fills up the last tile of a patch
  // Of flash_cuda's general kernel:
  kTermsOfRowsBefore,  // BIAS of some row in the rows after it
  kTermsOfFirstTile,   // MASK or BIAS of the first tile in all others, where it is copied
  // Of deformable_cuda:
  kWidthOfFirstLevel,  // in all levels
  kRightEdgeWraps,     // to the first pixel of the next row
};
#if defined(__CUDACC__) && defined(ATTEST_CUDA_PLANTED)
static __constant__ int planted_bug;
/// A wait that is there only sometimes makes ptxas wait at every wgmma: that bug cannot be planted,
/// and would hide the others.
__device__ inline bool planted(Bug bug) {
  return bug != Bug::kScoresNotWaited && static_cast<int>(bug) == planted_bug;
}
inline void plant() {
  const char* wanted = std::getenv("ATTEST_CUDA_BUG");
  const int bug = wanted ? std::atoi(wanted) : 0;
  check(cudaMemcpyToSymbol(planted_bug, &bug, sizeof bug), "cudaMemcpyToSymbol");
}
#elif defined(__CUDACC__)
__host__ __device__ constexpr bool planted(Bug) { return false; }
inline void plant() {}
#else
inline void plant() {}
inline bool planted(Bug bug) { return static_cast<int>(bug) == on_host::planted_bug(); }
#endif

#ifdef __CUDACC__
template <class... Parameters, class... Arguments>
void launch(void (*kernel)(Parameters...), unsigned blocks, int threads, size_t shared_bytes,
            cudaStream_t stream, const Arguments&... arguments) {
  kernel<<<blocks, threads, shared_bytes, stream>>>(arguments...);
  check(cudaGetLastError(), "launch");
}
/// Whether a kernel waits for the launch before it: what is compiled from code for an older device
/// than sm_90 does not.
template <class Kernel>
bool waits_for_launch_before(Kernel kernel) {
  cudaFuncAttributes attributes;
  check(cudaFuncGetAttributes(&attributes, kernel), "cudaFuncGetAttributes");
  return attributes.ptxVersion >= 90;
}
/// Launches a kernel that begins with wait_for_launch_before(): from sm_90 on, its blocks may come
/// while those of the launch before it end.
template <class... Parameters, class... Arguments>
void launch_early(void (*kernel)(Parameters...), unsigned blocks, int threads, size_t shared_bytes,
                  cudaStream_t stream, const Arguments&... arguments) {
#if CUDART_VERSION >= 12030  // a graph can capture it
  // Kernels of a plugin are compiled for the same devices: it suffices to ask once.
  static const bool waits = waits_for_launch_before(kernel);
  if (!waits) return launch(kernel, blocks, threads, shared_bytes, stream, arguments...);
  cudaLaunchAttribute early{};
  early.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  early.val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(blocks);
  config.blockDim = dim3(static_cast<unsigned>(threads));
  config.dynamicSmemBytes = shared_bytes;
  config.stream = stream;
  config.attrs = &early;
  config.numAttrs = 1;
  check(cudaLaunchKernelEx(&config, kernel, arguments...), "launch");
#else
  launch(kernel, blocks, threads, shared_bytes, stream, arguments...);
#endif
}
/// Until the launch before this one is over and what it wrote is there.
__device__ inline void wait_for_launch_before() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}
/// Once all blocks have said so or ended, those of the next launch may come.
__device__ inline void let_next_launch_begin() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}
#endif

/// The compute capability of the device at hand, times 10; ATTEST_CUDA_CAPABILITY lowers what
/// kernels go by, so that those of older devices can be tried on a new one.
inline int capability() {
  const char* wanted = std::getenv("ATTEST_CUDA_CAPABILITY");
  const int has = 10 * attribute(cudaDevAttrComputeCapabilityMajor) +
                  attribute(cudaDevAttrComputeCapabilityMinor);
  const int wants = wanted ? std::atoi(wanted) : 0;
  return wants > 0 && wants < has ? wants : has;
}

/// Bytes of shared memory that a block may have on the device at hand: 64 KiB on sm_75, 99 KiB and
/// more from sm_80 on.
inline int most_shared_bytes() { return attribute(cudaDevAttrMaxSharedMemoryPerBlockOptin); }

/// Multiprocessors of the device at hand.
inline int multiprocessors() { return attribute(cudaDevAttrMultiProcessorCount); }

/// What a grid may have; blocks take more than one task beyond.
inline unsigned grid(int64_t blocks) {
  constexpr int64_t kMost = (int64_t{1} << 31) - 1;
  return static_cast<unsigned>(blocks < kMost ? blocks : kMost);
}

/// data[] of attest_impl::run, by value: the host's array is gone when a kernel starts.
struct Data {
  void* at[ATTEST_ROLES];
  explicit Data(void* const* data) {
    for (int role = 0; role < ATTEST_ROLES; ++role) at[role] = data[role];
  }
};

/// Made in create, before anything is timed.
class DeviceProblem {
 public:
  explicit DeviceProblem(const attest_problem& problem) {
    plant();
    check(cudaMalloc(&room_, sizeof(Room)), "cudaMalloc");
    Room room{};
    std::memcpy(room.params, problem.params, ATTEST_ROOM);
    std::memcpy(room.tensor, problem.tensor, sizeof(room.tensor));
    room.problem = problem;
    room.problem.params = room_->params;
    room.problem.tensor = room_->tensor;
    const cudaError_t copied = cudaMemcpy(room_, &room, sizeof(Room), cudaMemcpyHostToDevice);
    // A copy from pageable memory may return before it is over, and streams of others do not wait
    // for it.
    const cudaError_t done = cudaDeviceSynchronize();
    if (copied != cudaSuccess || done != cudaSuccess) cudaFree(room_);
    check(copied, "cudaMemcpy");
    check(done, "cudaDeviceSynchronize");
  }
  DeviceProblem(const DeviceProblem&) = delete;
  DeviceProblem& operator=(const DeviceProblem&) = delete;
  ~DeviceProblem() { cudaFree(room_); }

  const attest_problem* get() const { return &room_->problem; }

 private:
  struct Room {
    attest_problem problem;
    alignas(64) unsigned char params[ATTEST_ROOM];
    attest_tensor tensor[ATTEST_ROLES];
  };
  Room* room_ = nullptr;
};

/// A value in the device's memory.
template <class Value>
class OnDevice {
 public:
  explicit OnDevice(const Value& value) {
    check(cudaMalloc(&there_, sizeof(Value)), "cudaMalloc");
    const cudaError_t copied = cudaMemcpy(there_, &value, sizeof(Value), cudaMemcpyHostToDevice);
    // As in DeviceProblem
    const cudaError_t done = cudaDeviceSynchronize();
    if (copied != cudaSuccess || done != cudaSuccess) cudaFree(there_);
    check(copied, "cudaMemcpy");
    check(done, "cudaDeviceSynchronize");
  }
  OnDevice(const OnDevice&) = delete;
  OnDevice& operator=(const OnDevice&) = delete;
  ~OnDevice() { cudaFree(there_); }

  Value* get() const { return there_; }

 private:
  Value* there_ = nullptr;
};

/// A sum times a factor that may be 0, where an infinity stays one.
__device__ inline float scaled(float sum, float factor) {
  return fabsf(sum) < INFINITY || factor != 0 ? sum * factor : sum;
}

}  // namespace cuda
