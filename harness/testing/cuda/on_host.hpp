// CUDA's words on the host: kernels run as they are written, thread by thread, so that their
// indices, masks, barriers and fragments are tested where there is no device. Slow, and no model of
// a device's memory or speed.
//
// Threads of a block are fibers on one thread of the host. A fiber runs until a barrier, of its
// warp (shuffles, fragments) or of its block; which warp goes on first, and how far, is a matter of
// chance, so that a missing __syncthreads shows. An asynchronous copy is made when it is waited
// for, so that a missing wait shows.
#pragma once
#include <ucontext.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <numeric>
#include <random>
#include <vector>

#include "attest.hpp"

#define __global__
#define __device__
#define __host__
#define __shared__ static thread_local
#define __noinline__
#define __launch_bounds__(...)
#define __grid_constant__
#define __CUDA_ARCH__ 800

namespace cuda::on_host {

constexpr int kWarp = 32;

struct Index {
  unsigned x = 0;
};

/// One block: its fibers, what they exchange, its shared memory.
class Block {
 public:
  Block(int threads, size_t shared_bytes)
      : shared_(shared_bytes),
        fibers_(static_cast<size_t>(threads)),
        warps_(static_cast<size_t>(threads / kWarp)) {
    for (size_t t = 0; t < fibers_.size(); ++t) prepare(t);
  }
  ~Block() {
    for (Fiber& fiber : fibers_) idle_stacks().push_back(std::move(fiber.stack));
  }

  void run(unsigned index, unsigned blocks, const std::function<void()>& kernel) {
    block_.x = index;
    grid_.x = blocks;
    kernel_ = &kernel;
    now() = this;
    transaction_barriers_.clear();
    boxes_.clear();
    for (Barrier& barrier : named_) barrier = {};
    for (Warp& warp : warps_) std::fill_n(warp.made, 2, 0u);
    for (size_t t = 0; t < fibers_.size(); ++t) start(t);
    std::vector<size_t> order(warps_.size());
    std::iota(order.begin(), order.end(), size_t{0});
    for (size_t left = fibers_.size(); left > 0;) {
      ++rounds_;
      somebody_sleeps_ = false;
      std::shuffle(order.begin(), order.end(), dice_);
      bool moved = false;
      for (const size_t warp : order) {
        const bool runs_ahead =
            // To the next barrier of the block, as far as the others are concerned
            dice_() % 2 == 0;
        bool moves = true;
        for (bool again = true; again && moves; again = runs_ahead) {
          moves = false;
          for (size_t t = warp * kWarp; t < (warp + 1) * kWarp; ++t) moves |= resume(t, left);
          moved |= moves;
        }
      }
      while (!boxes_.empty() && (!moved || dice_() % 2 == 0)) {
        moved = true;
        finish_box(dice_() % boxes_.size());
      }
      if (!moved && !somebody_sleeps_) {
        std::fprintf(stderr, "deadlock: threads wait at different barriers\n");
        std::abort();
      }
    }
  }

  static Block*& now() {
    static thread_local Block* block = nullptr;
    return block;
  }
  const Index& thread() const { return fibers_[current_].index; }
  const Index& block() const { return block_; }
  const Index& grid() const { return grid_; }
  Index size() const { return {static_cast<unsigned>(fibers_.size())}; }
  int lane() const { return static_cast<int>(current_ % kWarp); }
  char* shared() { return shared_.data(); }

  void wait_for_warp() { wait(warps_[current_ / kWarp].barrier, kWarp); }
  void wait_for_block() { wait(barrier_, static_cast<int>(fibers_.size())); }

  /// Every lane gives some bytes and sees everybody's until it gives the next.
  template <class Value>
  const Value* exchange(const Value& value) {
    Warp& warp = warps_[current_ / kWarp];
    static_assert(sizeof(Value) <= kExchange);
    // Two sets of slots by turns: a lane writes to a set again only after a wait that every lane
    // has come to after it has read that set.
    auto* slots = reinterpret_cast<Value*>(warp.slots[fibers_[current_].exchanges++ % 2]);
    std::memcpy(static_cast<void*>(&slots[lane()]), &value, sizeof(value));
    wait_for_warp();
    return slots;
  }
  /// Every lane gives a value and gets its own of the results that `make(values, results)` makes of
  /// all lanes' values, once for the warp.
  template <class Result, class Value, class Make>
  Result make_once_for_warp(const Value& value, const Make& make) {
    Warp& warp = warps_[current_ / kWarp];
    static_assert(sizeof(Result) <= kResult);
    const unsigned exchanges = fibers_[current_].exchanges, set = exchanges % 2,
                   exchange_number = exchanges + 1;
    const Value* values = exchange(value);
    auto* results = reinterpret_cast<Result*>(warp.results[set]);
    if (warp.made[set] != exchange_number) make(values, results);
    warp.made[set] = exchange_number;
    return results[lane()];
  }
  /// Of the block's named barriers: waits for `all` threads, of which some only come by.
  void wait_named(int number, int all) { wait(named_[number], all); }
  void come_by_named(int number, int all) { count(named_[number], all); }

  // Barriers in shared memory, by address: a phase is over with its last arrival and the last byte
  // that it expects.
  void make_barrier(uint32_t at, int arrivals) { transaction_barriers_[at] = {{}, arrivals, 0}; }
  void arrive_at(uint32_t at, int64_t expected_bytes) {
    TransactionBarrier& barrier = barrier_at(at);
    ++barrier.barrier.arrived;
    barrier.bytes += expected_bytes;
    end_phase(barrier);
  }
  /// Until the phase of this parity is over.
  void wait_for_phase(uint32_t at, uint32_t parity) {
    const Barrier& barrier = barrier_at(at).barrier;
    if (barrier.generation % 2 == parity) wait_for_next(barrier);
  }
  /// Some time later: a copy to shared memory, whose bytes then count at a barrier.
  void copy_box_later(const std::function<void()>& copy, uint32_t barrier, int64_t bytes) {
    boxes_.push_back({copy, barrier, bytes});
  }

  /// Lets others go on, for some rounds.
  void pause() {
    Fiber& fiber = fibers_[current_];
    fiber.sleeps_until = rounds_ + dice_() % 16;
    leave(fiber);
  }

  /// Products that a thread has under way, in groups, the last of them open.
  std::vector<std::vector<std::function<void()>>>& products() { return fibers_[current_].products; }

  int any(int value) {
    wait_for_block();
    if (current_ == 0) any_ = 0;
    wait_for_block();
    any_ |= value != 0;
    wait_for_block();
    return any_;
  }

  struct Copy {
    char* to;
    const void* from;
    size_t there, bytes;  // what is not there becomes 0
    void make() const {
      std::memset(to, 0, bytes);
      if (there > 0) std::memcpy(to, from, there);
    }
  };
  void copy_later(const Copy& copy) { fibers_[current_].groups.back().push_back(copy); }
  void commit() { fibers_[current_].groups.emplace_back(); }
  /// Makes the copies of all committed groups but the last `left`.
  void wait_for_copies(size_t left) {
    auto& groups = fibers_[current_].groups;  // the last one is still open
    while (groups.size() > left + 1) {
      for (const Copy& copy : groups.front()) copy.make();
      groups.erase(groups.begin());
    }
  }

 private:
  static constexpr size_t kStack = size_t{128} << 10, kExchange = 48, kResult = 16;
  struct Barrier {
    int arrived = 0;
    uint64_t generation = 0;
  };
  struct Warp {
    Barrier barrier;
    alignas(16) char slots[2][kWarp * kExchange];
    alignas(16) char results[2][kWarp * kResult];
    unsigned made[2] = {};  // the exchanges that `results` are of, counted from 1
  };
  /// As __builtin_setjmp fills it.
  using Place = void* [5];
  struct Fiber {
    ucontext_t context;
    std::unique_ptr<char[]> stack;
    Index index;
    bool started = false, done = false;
    uint64_t sleeps_until = 0;  // a round
    Place at{};                 // where it waits
    const Barrier* waits_at = nullptr;
    uint64_t generation = 0;
    unsigned exchanges = 0;
    std::vector<std::vector<Copy>> groups;
    std::vector<std::vector<std::function<void()>>> products;
  };
  struct TransactionBarrier {
    Barrier barrier;
    int arrivals;   // that a phase takes
    int64_t bytes;  // expected still
  };
  struct Box {
    std::function<void()> copy;
    uint32_t barrier;
    int64_t bytes;
  };

  TransactionBarrier& barrier_at(uint32_t at) {
    const auto found = transaction_barriers_.find(at);
    if (found == transaction_barriers_.end()) {
      std::fprintf(stderr, "no barrier was made at %u\n", at);
      std::abort();
    }
    return found->second;
  }
  static void end_phase(TransactionBarrier& barrier) {
    if (barrier.barrier.arrived < barrier.arrivals || barrier.bytes != 0) return;
    barrier.barrier.arrived = 0;
    ++barrier.barrier.generation;
  }
  void finish_box(size_t which) {
    boxes_[which].copy();
    TransactionBarrier& barrier = barrier_at(boxes_[which].barrier);
    barrier.bytes -= boxes_[which].bytes;
    boxes_.erase(boxes_.begin() + static_cast<std::ptrdiff_t>(which));
    end_phase(barrier);
  }

  /// Stacks of blocks that are done. New ones would cost a system call each, and its pages again.
  static std::vector<std::unique_ptr<char[]>>& idle_stacks() {
    static thread_local std::vector<std::unique_ptr<char[]>> stacks;
    return stacks;
  }
  void prepare(size_t t) {
    Fiber& fiber = fibers_[t];
    if (idle_stacks().empty()) {
      fiber.stack.reset(new char[kStack]);
    } else {
      fiber.stack = std::move(idle_stacks().back());
      idle_stacks().pop_back();
    }
    getcontext(&fiber.context);
    fiber.context.uc_stack.ss_sp = fiber.stack.get();
    fiber.context.uc_stack.ss_size = kStack;
    fiber.context.uc_link = nullptr;
    fiber.index.x = static_cast<unsigned>(t);
    makecontext(&fiber.context, &Block::enter, 0);
  }
  void start(size_t t) {
    Fiber& fiber = fibers_[t];
    fiber.done = false;
    fiber.waits_at = nullptr;
    fiber.sleeps_until = 0;
    fiber.exchanges = 0;
    fiber.groups.assign(1, {});
    fiber.products.assign(1, {});
  }
  /// A fiber plays its thread of one block after the other.
  static void enter() {
    Block& block = *now();
    for (;;) {
      (*block.kernel_)();
      Fiber& fiber = block.fibers_[block.current_];
      fiber.done = true;
      block.leave(fiber);
    }
  }
  bool resume(size_t t, size_t& left) {
    Fiber& fiber = fibers_[t];
    if (fiber.done || (fiber.waits_at && fiber.waits_at->generation == fiber.generation))
      return false;
    if (fiber.sleeps_until > rounds_) {
      somebody_sleeps_ = true;
      return false;
    }
    fiber.waits_at = nullptr;
    current_ = t;
    go_to(fiber);
    left -= fiber.done;
    return true;
  }
  // swapcontext asks the kernel for the signal mask, and jumps of the C library look for what a
  // thread has to clean up. These jumps do neither. They restore no register but those of the
  // stack, so that the functions that jump or are jumped into are not inlined.
  [[gnu::noinline]] void go_to(Fiber& fiber) {
    if (__builtin_setjmp(scheduler_at_) == 0) jump_into(fiber);
  }
  [[gnu::noinline]] static void jump_into(Fiber& fiber) {
    if (fiber.started) __builtin_longjmp(fiber.at, 1);
    fiber.started = true;
    setcontext(&fiber.context);
  }
  [[gnu::noinline]] void leave(Fiber& fiber) {
    if (__builtin_setjmp(fiber.at) == 0) jump_back();
  }
  [[gnu::noinline]] void jump_back() { __builtin_longjmp(scheduler_at_, 1); }
  /// Whether it was the last of `all`.
  static bool count(Barrier& barrier, int all) {
    if (++barrier.arrived != all) return false;
    barrier.arrived = 0;
    ++barrier.generation;
    return true;
  }
  void wait(Barrier& barrier, int all) {
    if (!count(barrier, all)) wait_for_next(barrier);
  }
  void wait_for_next(const Barrier& barrier) {
    Fiber& fiber = fibers_[current_];
    fiber.waits_at = &barrier;
    fiber.generation = barrier.generation;
    leave(fiber);
  }

  std::vector<char> shared_;
  std::vector<Fiber> fibers_;
  std::vector<Warp> warps_;
  Barrier barrier_, named_[16];
  std::map<uint32_t, TransactionBarrier> transaction_barriers_;
  std::vector<Box> boxes_;
  Place scheduler_at_{};
  Index block_, grid_;
  const std::function<void()>* kernel_ = nullptr;
  size_t current_ = 0;
  uint64_t rounds_ = 0;  // of the scheduler
  bool somebody_sleeps_ = false;
  int any_ = 0;
  std::mt19937_64 dice_{1};
};

inline Block& block() { return *Block::now(); }

}  // namespace cuda::on_host

#define threadIdx (cuda::on_host::block().thread())
#define blockIdx (cuda::on_host::block().block())
#define blockDim (cuda::on_host::block().size())
#define gridDim (cuda::on_host::block().grid())

using cudaStream_t = void*;
using cudaError_t = int;
constexpr cudaError_t cudaSuccess = 0;
enum { cudaMemcpyHostToDevice, cudaFuncAttributeMaxDynamicSharedMemorySize };
enum cudaDeviceAttr {
  cudaDevAttrComputeCapabilityMajor,
  cudaDevAttrComputeCapabilityMinor,
  cudaDevAttrL2CacheSize,
  cudaDevAttrMaxSharedMemoryPerBlockOptin,
  cudaDevAttrMultiProcessorCount
};
namespace cuda::on_host {
/// The compute capability, times 10, of the device that is played (ATTEST_CUDA_CAPABILITY, else
/// 80).
inline int capability() {
  const char* wanted = std::getenv("ATTEST_CUDA_CAPABILITY");
  return wanted ? std::atoi(wanted) : 80;
}
inline int most_shared_bytes() {
  return (capability() < 80 ? 64 : capability() < 90 ? 99 : 227) << 10;
}
}  // namespace cuda::on_host

inline cudaError_t cudaGetDevice(int* device) {
  *device = 0;
  return cudaSuccess;
}
/// A small device.
inline cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr which, int) {
  constexpr int kMultiprocessors = 4, kCacheBytes = 64 << 10;
  const int capability = cuda::on_host::capability();
  switch (which) {
    case cudaDevAttrComputeCapabilityMajor: *value = capability / 10; break;
    case cudaDevAttrComputeCapabilityMinor: *value = capability % 10; break;
    case cudaDevAttrL2CacheSize: *value = kCacheBytes; break;
    case cudaDevAttrMaxSharedMemoryPerBlockOptin:
      *value = cuda::on_host::most_shared_bytes();
      break;
    default: *value = kMultiprocessors;
  }
  return cudaSuccess;
}
inline cudaError_t cudaDeviceSynchronize() { return cudaSuccess; }
template <class T>
cudaError_t cudaMalloc(T** pointer, size_t bytes) {
  *pointer = static_cast<T*>(std::malloc(bytes));
  return cudaSuccess;
}
inline cudaError_t cudaFree(void* pointer) {
  std::free(pointer);
  return cudaSuccess;
}
inline cudaError_t cudaMemcpy(void* to, const void* from, size_t bytes, int) {
  std::memcpy(to, from, bytes);
  return cudaSuccess;
}
inline cudaError_t cudaMemsetAsync(void* to, int value, size_t bytes, cudaStream_t) {
  std::memset(to, value, bytes);
  return cudaSuccess;
}
inline cudaError_t cudaGetLastError() { return cudaSuccess; }
inline const char* cudaGetErrorString(cudaError_t) { return "no error"; }
/// Bytes of dynamic shared memory that launches of a kernel may ask for. Whoever asked last
/// decides, for all that launch it.
inline std::map<const void*, int>& allowed_shared_bytes() {
  static std::map<const void*, int> allowed;
  return allowed;
}
template <class Kernel>
cudaError_t cudaFuncSetAttribute(Kernel kernel, int, int bytes) {
  allowed_shared_bytes()[reinterpret_cast<const void*>(kernel)] = bytes;
  return cudaSuccess;
}

using std::max, std::min;
inline void __syncthreads() { cuda::on_host::block().wait_for_block(); }
inline int __syncthreads_or(int value) { return cuda::on_host::block().any(value); }
template <class T>
T __shfl_xor_sync(unsigned, T value, int step) {
  cuda::on_host::Block& block = cuda::on_host::block();
  return block.exchange(value)[block.lane() ^ step];
}
inline void __syncwarp() { cuda::on_host::block().wait_for_warp(); }
inline int __any_sync(unsigned, int value) {
  const int* all = cuda::on_host::block().exchange(value);
  return std::any_of(all, all + cuda::on_host::kWarp, [](int each) { return each != 0; });
}
template <class T>
T __shfl_sync(unsigned, T value, int lane) {
  return cuda::on_host::block().exchange(value)[lane];
}
inline int __reduce_min_sync(unsigned, int value) {
  const int* all = cuda::on_host::block().exchange(value);
  return *std::min_element(all, all + cuda::on_host::kWarp);
}
inline int __reduce_max_sync(unsigned, int value) {
  const int* all = cuda::on_host::block().exchange(value);
  return *std::max_element(all, all + cuda::on_host::kWarp);
}
inline int atomicAdd(int* at, int value) { return std::exchange(*at, *at + value); }
inline unsigned __ballot_sync(unsigned, int value) {
  const int* all = cuda::on_host::block().exchange(value);
  unsigned set = 0;
  for (int lane = 0; lane < cuda::on_host::kWarp; ++lane)
    set |= static_cast<unsigned>(all[lane] != 0) << lane;
  return set;
}
inline int atomicMin(int* at, int value) { return std::exchange(*at, std::min(*at, value)); }
inline int atomicMax(int* at, int value) { return std::exchange(*at, std::max(*at, value)); }
inline float __fdividef(float x, float y) { return x / y; }
inline uint32_t __float_as_uint(float x) {
  uint32_t bits;
  std::memcpy(&bits, &x, sizeof(bits));
  return bits;
}
inline float __uint_as_float(uint32_t bits) {
  float x;
  std::memcpy(&x, &bits, sizeof(x));
  return x;
}

struct __half {
  uint16_t bits;
};
struct __nv_bfloat16 {
  uint16_t bits;
};
struct alignas(8) float2 {
  float x, y;
};

namespace cuda {

namespace on_host {
/// The bug that tests want in the kernels that are launched next, a number of cuda::Bug; 0: none.
inline int& planted_bug() {
  static int number = 0;
  return number;
}
/// Whether the kernels that are launched next find the instructions of sm_75 alone.
inline bool& is_before_sm80() {
  static bool yes = false;
  return yes;
}
[[noreturn]] inline void refuse(const char* what) {
  std::fprintf(stderr, "%s\n", what);
  std::abort();
}
}  // namespace on_host

template <class... Parameters, class... Arguments>
void launch(void (*kernel)(Parameters...), unsigned blocks, int threads, size_t shared_bytes,
            cudaStream_t, const Arguments&... arguments) {
  const char* bug = std::getenv("ATTEST_CUDA_BUG");
  on_host::planted_bug() = bug ? std::atoi(bug) : 0;
  on_host::is_before_sm80() = on_host::capability() < 80;
  if (shared_bytes > static_cast<size_t>(on_host::most_shared_bytes()))
    on_host::refuse("more shared memory than a block may have");
  const auto allowed = allowed_shared_bytes().find(reinterpret_cast<const void*>(kernel));
  if (shared_bytes >
      static_cast<size_t>(allowed == allowed_shared_bytes().end() ? 48 << 10 : allowed->second))
    on_host::refuse("more shared memory than cudaFuncSetAttribute has allowed the kernel");
  on_host::Block block(threads, shared_bytes);
  const std::function<void()> body = [&] { kernel(arguments...); };
  for (unsigned index = 0; index < blocks; ++index) block.run(index, blocks, body);
}

template <class Kernel, class... Arguments>
void launch_early(Kernel kernel, unsigned blocks, int threads, size_t shared_bytes,
                  cudaStream_t stream, const Arguments&... arguments) {
  launch(kernel, blocks, threads, shared_bytes, stream, arguments...);
}
inline void wait_for_launch_before() {}
inline void let_next_launch_begin() {}

inline char* dynamic_shared() { return on_host::block().shared(); }
inline uint32_t shared_address(const void* pointer) {
  return static_cast<uint32_t>(static_cast<const char*>(pointer) - on_host::block().shared());
}
inline int anew(int number) { return number; }
inline uint32_t load_shared(uint32_t address) {
  uint32_t value;
  std::memcpy(&value, on_host::block().shared() + address, sizeof(value));
  return value;
}
inline void load_shared(uint32_t (&values)[2], uint32_t address) {
  if (address % 8 != 0) on_host::refuse("two words that do not lie on 8 bytes");
  for (uint32_t word = 0; word < 2; ++word) values[word] = load_shared(address + 4 * word);
}
inline void store_shared(uint32_t address, uint32_t value) {
  std::memcpy(on_host::block().shared() + address, &value, sizeof(value));
}

inline bool before_sm80() { return on_host::is_before_sm80(); }

template <int kBytes>
void copy_part_async(uint32_t to, const void* from, int there) {
  static_assert(kBytes == 4 || kBytes == 8 || kBytes == 16);
  if (to % kBytes != 0 || reinterpret_cast<uintptr_t>(from) % kBytes != 0)
    on_host::refuse("bytes that are copied at once do not lie on a multiple of their number");
  if (there < 0 || there > kBytes) on_host::refuse("a copy of more bytes than it may have");
  const on_host::Block::Copy copy{on_host::block().shared() + to, from, static_cast<size_t>(there),
                                  kBytes};
  before_sm80() ? copy.make() : on_host::block().copy_later(copy);
}
inline void copy_async(uint32_t to, const void* from, bool there) {
  copy_part_async<16>(to, from, there ? 16 : 0);
}
inline void commit_copies() { on_host::block().commit(); }
template <int kLeft>
void wait_copies() {
  on_host::block().wait_for_copies(kLeft);
}

inline void load_blocks(uint32_t (&blocks)[4], uint32_t address) {
  const uint32_t* rows = on_host::block().exchange(address);
  const int lane = on_host::block().lane();
  for (int i = 0; i < 4; ++i)
    blocks[i] = load_shared(rows[8 * i + lane / 4] + static_cast<uint32_t>(lane % 4 * 4));
}
inline void load_blocks_transposed(uint32_t (&blocks)[4], uint32_t address) {
  const uint32_t* rows = on_host::block().exchange(address);
  const int lane = on_host::block().lane();
  const auto column = static_cast<uint32_t>(lane / 4);
  const auto element = [&](uint32_t row) {
    return load_shared(row + column / 2 * 4) >> 16 * (column % 2) & 0xffff;
  };
  for (int i = 0; i < 4; ++i)
    blocks[i] = element(rows[8 * i + lane % 4 * 2]) | element(rows[8 * i + lane % 4 * 2 + 1]) << 16;
}

inline float as_float(uint32_t bits, __half) {
  return attest::float_from_half(static_cast<uint16_t>(bits));
}
inline float as_float(uint32_t bits, __nv_bfloat16) {
  return attest::float_from_bfloat16(static_cast<uint16_t>(bits));
}
inline uint32_t pack(float first, float second, __half) {
  return attest::half_from_float(first) | static_cast<uint32_t>(attest::half_from_float(second))
                                              << 16;
}
inline uint32_t pack(float first, float second, __nv_bfloat16) {
  return attest::bfloat16_from_float(first) |
         static_cast<uint32_t>(attest::bfloat16_from_float(second)) << 16;
}
inline float2 pack(float first, float second, float) { return {first, second}; }

inline float exp2_fast(float x) {
  const float y = std::exp2(x);
  return y < 0x1p-126f ? 0 : y;
}

}  // namespace cuda
