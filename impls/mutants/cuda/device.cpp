// device: implementations for CUDA that compute on the host, for a driver whose device memory is
// the host's: what the harness makes of a device is tested with them where there is none. Some are
// wrong in ways that only a device has.
#include <dlfcn.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <stdexcept>
#include <string>
#include <utility>

#include "mutants/plain_attention.hpp"

namespace {

enum class Way {
  kNone,
  kBehind,
  kBefore,
  kInput,
  kStale,
  kLater,
  kWaits,
  kTail,
  kGap,
  kLeftover,
  kUncaptured,
  kUsedUp,
  kAllocates,
  kPool,
  kOddPlaces
};

struct Description {
  const char *name, *summary;
};
constexpr Description describe(Way way) {
  switch (way) {
    case Way::kNone: return {"device_none", "does the work"};
    case Way::kBehind: return {"device_behind", "writes 4 bytes, 4 bytes behind o"};
    case Way::kBefore: return {"device_before", "writes 4 bytes before the workspace"};
    case Way::kInput: return {"device_input", "scales an element of q in place"};
    case Way::kStale: return {"device_stale", "works once a plan"};
    case Way::kLater: return {"device_later", "writes behind o from its second run on"};
    case Way::kTail: return {"device_tail", "copies the 4 bytes behind q to behind o"};
    case Way::kGap: return {"device_gap", "writes 4 bytes between the sequences of o"};
    case Way::kLeftover:
      return {"device_leftover", "adds what the workspace holds, if that is a number"};
    case Way::kUncaptured:
      return {"device_uncaptured", "works in run itself and enqueues something that does nothing"};
    case Way::kUsedUp:
      return {"device_used_up", "what it enqueues works once for each call of run"};
    case Way::kAllocates:
      return {"device_allocates", "allocates in run; where that fails, the next run says so too"};
    case Way::kPool:
      return {"device_pool", "has a megabyte in the order of the stream while it works"};
    case Way::kOddPlaces: return {"device_odd_places", "is wrong where q begins on 256 bytes"};
    case Way::kWaits: return {"device_waits", "waits for the stream, which is not its business"};
  }
  return {"", ""};
}

// A function of the driver, whatever its type.
template <class... Types>
int driver(const char* name, Types... arguments) {
  static void* library = dlopen(std::getenv("ATTEST_CUDA_DRIVER"), RTLD_NOW | RTLD_NOLOAD);
  const auto function =
      reinterpret_cast<int (*)(Types...)>(library ? dlsym(library, name) : nullptr);
  if (!function) throw std::runtime_error(std::string("the driver has no ") + name);
  return function(arguments...);
}

template <Way kWay>
class Device {
 public:
  static constexpr attest::Info kInfo{
      .name = describe(kWay).name,
      .version = "1",
      .summary = describe(kWay).summary,
      .device = ATTEST_CUDA,
      .dtypes = ATTEST_BIT(ATTEST_F32),
      .features = ATTEST_WITH_STRIDES | ATTEST_WITH_CAUSAL | ATTEST_WITH_LSE};

  static const char* query(const attest_problem&, attest_support& support) {
    support.workspace_bytes = 64;
    return nullptr;
  }
  explicit Device(const attest_problem& given) : problem(given) {}

  const attest_problem& problem;

  template <class T>
  void run(void* const* data, void* workspace, void* stream) {
    if (kWay == Way::kWaits) driver("cuStreamSynchronize", stream);
    if (kWay == Way::kAllocates) allocate();
    unsigned long long memory = 0;
    if (kWay == Way::kPool) {
      driver("cuMemAllocAsync", &memory, size_t{1} << 20, stream);
      driver("cuMemFreeAsync", memory, stream);
    }
    if (kWay == Way::kStale && runs_++ > 0) return;
    ++left_;
    std::memcpy(data_, data, sizeof(data_));
    if (kWay == Way::kUncaptured) {
      attend(this);
      driver("cuLaunchHostFunc", stream, &nothing, static_cast<void*>(this));
    }
    if (kWay != Way::kUncaptured)
      driver("cuLaunchHostFunc", stream, &attend, static_cast<void*>(this));
    if (kWay == Way::kBehind || (kWay == Way::kLater && runs_++ > 0)) end_of(data, ATTEST_O)[1] = 1;
    if (kWay == Way::kTail) std::memcpy(end_of(data, ATTEST_O), end_of(data, ATTEST_Q), 4);
    if (kWay == Way::kGap) *end_of(data, ATTEST_O, 1) = 1;
    if (kWay == Way::kLeftover && static_cast<float*>(workspace)[1] < 1e35f)
      static_cast<float*>(data[ATTEST_O])[0] += 1;
    if (kWay == Way::kBefore) static_cast<float*>(workspace)[-1] = 1;
    if (kWay == Way::kInput) static_cast<float*>(data[ATTEST_Q])[3] *= 1.5f;
  }

 private:
  static void nothing(void*) {}
  static void attend(void* device) {
    auto& self = *static_cast<Device*>(device);
    if (kWay == Way::kUsedUp && self.left_ == 0) return;
    --self.left_;
    mutants::attend(attest::Softmax<float>(self.problem, self.data_));
    if (kWay == Way::kOddPlaces && reinterpret_cast<uintptr_t>(self.data_[ATTEST_Q]) % 256 == 0)
      static_cast<float*>(self.data_[ATTEST_O])[0] += 1;
  }
  // As CUDA's runtime keeps an error until somebody asks.
  void allocate() {
    unsigned long long memory = 0;
    const bool failed = driver("cuMemAlloc_v2", &memory, size_t{256}) != 0,
               earlier = std::exchange(failed_, failed);
    if (!failed) driver("cuMemFree_v2", memory);
    if (failed || earlier) throw std::runtime_error("cudaMalloc has failed");
  }
  // Behind the last element of a dense tensor, or of its first sequence.
  float* end_of(void* const* data, int role, int64_t sequences = 0) const {
    const attest_tensor& spec = problem.tensor[role];
    return static_cast<float*>(data[role]) +
           (sequences ? sequences : spec.dim[0]) * spec.dim[1] * spec.dim[2] * spec.dim[3];
  }

  int runs_ = 0, left_ = 0;
  bool failed_ = false;
  void* data_[ATTEST_ROLES]{};
};

}  // namespace

ATTEST_PLUGIN(attest::table<Device<Way::kNone>>(), attest::table<Device<Way::kBehind>>(),
              attest::table<Device<Way::kBefore>>(), attest::table<Device<Way::kInput>>(),
              attest::table<Device<Way::kStale>>(), attest::table<Device<Way::kLater>>(),
              attest::table<Device<Way::kWaits>>(), attest::table<Device<Way::kTail>>(),
              attest::table<Device<Way::kGap>>(), attest::table<Device<Way::kLeftover>>(),
              attest::table<Device<Way::kUncaptured>>(), attest::table<Device<Way::kUsedUp>>(),
              attest::table<Device<Way::kAllocates>>(), attest::table<Device<Way::kPool>>(),
              attest::table<Device<Way::kOddPlaces>>())
