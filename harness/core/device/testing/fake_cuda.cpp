// A CUDA driver without a device: what cuda_driver.cpp looks up, over the host's memory. What is
// enqueued is done at once, so a wait for a value that is not there yet is noted and not waited
// for; synchronising then waits for it, as a device would.
//
// ATTEST_FAKE_CUDA says how it misbehaves: "no-device"; "fault": synchronising reports an illegal
// address; "fault-in-run": it does so from the second time on, when tensors are there and something
// ran; "fault-in-copy": copying back does; "no-room": it has no memory left; "no-ptx": it takes no
// module; "throttle": every third time that clocks are compared, they are at half their speed;
// "brief": by its events everything takes a thousandth of its time; "newer-than-nvcc": its
// architecture is sm_990; "slow-copies": each copy between host and device takes 2 ms more.
#include <dlfcn.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <string>
#include <thread>
#include <vector>

#define FAKE extern "C"

namespace {

constexpr int kOk = 0, kInvalid = 1, kNoMemory = 2, kInvalidPtx = 218, kIllegalAddress = 700,
              kNotSupported = 801, kCaptureUnsupported = 900, kCaptureInvalidated = 901;
constexpr size_t kMemory = size_t{8} << 30;

bool wants(const char* word) {
  const char* given = std::getenv("ATTEST_FAKE_CUDA");
  return given && std::string(given) == word;
}

void copy_slowly() {
  if (wants("slow-copies")) std::this_thread::sleep_for(std::chrono::milliseconds(2));
}

struct Event {
  std::chrono::steady_clock::time_point at;
};
struct Stream {
  uint32_t* value = nullptr;
  uint32_t awaited = 0;
  bool capturing = false, invalid = false;
  std::vector<std::function<void()>> captured{};
};

// What is allocated in the order of streams.
std::map<unsigned long long, size_t> pool;
uint64_t pool_used = 0, pool_high = 0;

Stream* capturing = nullptr;  // the one that does

// What is enqueued: done at once, or captured.
template <class Work>
int enqueue(void* stream, const Work& work) {
  auto& one = *static_cast<Stream*>(stream);
  if (one.capturing)
    one.captured.push_back(work);
  else
    work();
  return kOk;
}
// What may not be done to a stream that captures.
bool refuses(void* stream) {
  auto& one = *static_cast<Stream*>(stream);
  return one.capturing && (one.invalid = true);
}

// A module that is this text and a library's path has its kernels there, as functions of this kind,
// "..._on_host".
constexpr const char* kLibraryOfKernels = "library ";
using KernelOnHost = void(unsigned blocks, unsigned threads, void** parameters);
int clock_module;  // that and its kernel

using Graph = std::vector<std::function<void()>>;

// Two counters of each of the four multiprocessors, as the kernel of cuda_clock.cpp reads them: 2
// GHz.
void read_clocks(uint64_t* stamps) {
  static uint64_t last_ns = 0, cycles = 1;
  static int readings = 0;
  const auto ns = uint64_t(std::chrono::steady_clock::now().time_since_epoch().count());
  const bool end = readings++ % 2 == 1, slow = wants("throttle") && readings / 2 % 3 == 0;
  if (end) cycles += (ns - last_ns) * (slow ? 1 : 2);
  last_ns = ns;
  for (int i = 0; i < 4; ++i) {
    stamps[2 * i] = ns;
    stamps[2 * i + 1] = cycles + uint64_t(i);
  }
}

}  // namespace

FAKE int cuInit(unsigned) { return kOk; }
FAKE int cuDriverGetVersion(int* version) {
  *version = 12040;
  return kOk;
}
FAKE int cuDeviceGetCount(int* count) {
  *count = wants("no-device") ? 0 : 1;
  return kOk;
}
FAKE int cuDeviceGet(int* device, int ordinal) {
  *device = ordinal;
  return ordinal == 0 ? kOk : kInvalid;
}
FAKE int cuDeviceGetName(char* name, int size, int) {
  std::strncpy(name, "Fake", size_t(size));
  return kOk;
}
FAKE int cuDeviceGetPCIBusId(char* text, int size, int) {
  std::strncpy(text, "0000:17:00.0", size_t(size));
  return kOk;
}
FAKE int cuDeviceGetAttribute(int* value, int attribute, int) {
  static const std::map<int, int> values = {{13, 2000000}, {16, 4},       {18, 0}, {36, 1000000},
                                            {37, 512},     {38, 1 << 20}, {75, 9}, {76, 0},
                                            {87, 2},       {115, 1}};
  if (attribute == 75 && wants("newer-than-nvcc")) {
    *value = 99;
    return kOk;
  }
  const auto at = values.find(attribute);
  if (at == values.end()) return kInvalid;
  *value = at->second;
  return kOk;
}
FAKE int cuDeviceTotalMem_v2(size_t* bytes, int) {
  *bytes = kMemory;
  return kOk;
}
FAKE int cuDevicePrimaryCtxRetain(void** context, int) {
  static int one;
  *context = &one;
  return kOk;
}
FAKE int cuDevicePrimaryCtxRelease_v2(int) { return kOk; }
FAKE int cuCtxSetCurrent(void*) { return kOk; }
FAKE int cuMemAlloc_v2(unsigned long long* address, size_t bytes) {
  if (capturing) {
    capturing->invalid = true;
    return kCaptureUnsupported;
  }
  if (bytes > kMemory || wants("no-room")) return kNoMemory;
  *address =
      reinterpret_cast<unsigned long long>(std::aligned_alloc(512, (bytes + 511) / 512 * 512));
  return kOk;
}
FAKE int cuMemFree_v2(unsigned long long address) {
  std::free(reinterpret_cast<void*>(address));
  return kOk;
}
FAKE int cuMemAllocAsync(unsigned long long* address, size_t bytes, void*) {
  if (cuMemAlloc_v2(address, bytes) != kOk) return kNoMemory;
  pool[*address] = bytes;
  pool_used += bytes;
  pool_high = std::max(pool_high, pool_used);
  return kOk;
}
FAKE int cuMemFreeAsync(unsigned long long address, void*) {
  pool_used -= pool[address];
  pool.erase(address);
  return cuMemFree_v2(address);
}
FAKE int cuDeviceGetMemPool(void** one, int) {
  *one = &pool;
  return kOk;
}
FAKE int cuMemPoolGetAttribute(void*, int attribute, void* value) {
  *static_cast<uint64_t*>(value) = attribute == 8 ? pool_high : pool_used;
  return attribute == 7 || attribute == 8 ? kOk : kInvalid;
}
FAKE int cuMemPoolSetAttribute(void*, int attribute, void* value) {
  if (attribute != 8 || *static_cast<uint64_t*>(value) != 0) return kInvalid;
  pool_high = 0;
  return kOk;
}
FAKE int cuMemHostAlloc(void** address, size_t bytes, unsigned) {
  *address = std::malloc(bytes);
  return kOk;
}
FAKE int cuMemFreeHost(void* address) {
  std::free(address);
  return kOk;
}
FAKE int cuMemHostGetDevicePointer_v2(unsigned long long* address, void* host, unsigned) {
  *address = reinterpret_cast<unsigned long long>(host);
  return kOk;
}
FAKE int cuMemcpyHtoDAsync_v2(unsigned long long to, const void* from, size_t bytes, void*) {
  copy_slowly();
  std::memcpy(reinterpret_cast<void*>(to), from, bytes);
  return kOk;
}
FAKE int cuMemcpyDtoHAsync_v2(void* to, unsigned long long from, size_t bytes, void*) {
  copy_slowly();
  std::memcpy(to, reinterpret_cast<const void*>(from), bytes);
  return wants("fault-in-copy") ? kIllegalAddress : kOk;
}
FAKE int cuMemsetD8Async(unsigned long long to, unsigned char value, size_t bytes, void* stream) {
  return enqueue(stream, [=] { std::memset(reinterpret_cast<void*>(to), value, bytes); });
}
FAKE int cuStreamCreate(void** stream, unsigned) {
  *stream = new Stream;
  return kOk;
}
FAKE int cuStreamDestroy_v2(void* stream) {
  delete static_cast<Stream*>(stream);
  return kOk;
}
FAKE int cuStreamSynchronize(void* stream) {
  if (refuses(stream)) return kCaptureUnsupported;
  auto& one = *static_cast<Stream*>(stream);
  while (one.value && std::atomic_ref(*one.value).load(std::memory_order_acquire) < one.awaited)
    std::this_thread::sleep_for(std::chrono::microseconds(50));
  one.value = nullptr;  // whoever owned it may release it now
  static std::atomic<int> times = 0;
  return wants("fault") || (wants("fault-in-run") && ++times > 1) ? kIllegalAddress : kOk;
}
FAKE int cuStreamWaitValue32_v2(void* stream, unsigned long long address, unsigned value,
                                unsigned) {
  if (wants("no-wait")) return kNotSupported;
  auto& one = *static_cast<Stream*>(stream);
  one.value = reinterpret_cast<uint32_t*>(address);
  one.awaited = value;
  return kOk;
}
FAKE int cuEventCreate(void** event, unsigned) {
  *event = new Event;
  return kOk;
}
FAKE int cuEventDestroy_v2(void* event) {
  delete static_cast<Event*>(event);
  return kOk;
}
FAKE int cuEventRecord(void* event, void*) {
  static_cast<Event*>(event)->at = std::chrono::steady_clock::now();
  return kOk;
}
FAKE int cuEventElapsedTime(float* milliseconds, void* begin, void* end) {
  *milliseconds = std::chrono::duration<float, std::milli>(static_cast<Event*>(end)->at -
                                                           static_cast<Event*>(begin)->at)
                      .count();
  if (wants("brief")) *milliseconds *= 1e-3f;
  return kOk;
}
FAKE int cuLaunchHostFunc(void* stream, void (*work)(void*), void* data) {
  return enqueue(stream, [=] { work(data); });
}
FAKE int cuStreamBeginCapture_v2(void* stream, int) {
  auto& one = *static_cast<Stream*>(stream);
  if (one.capturing) return kInvalid;
  capturing = &one;
  one.capturing = true;
  one.invalid = false;
  one.captured.clear();
  return kOk;
}
FAKE int cuStreamEndCapture(void* stream, void** graph) {
  auto& one = *static_cast<Stream*>(stream);
  if (!one.capturing) return kInvalid;
  one.capturing = false;
  capturing = nullptr;
  *graph = one.invalid ? nullptr : new Graph(std::move(one.captured));
  return one.invalid ? kCaptureInvalidated : kOk;
}
FAKE int cuGraphGetNodes(void* graph, void**, size_t* count) {
  *count = static_cast<Graph*>(graph)->size();
  return kOk;
}
FAKE int cuGraphInstantiateWithFlags(void** ready, void* graph, unsigned long long) {
  *ready = new Graph(*static_cast<Graph*>(graph));
  return kOk;
}
FAKE int cuGraphLaunch(void* ready, void*) {
  for (const auto& work : *static_cast<Graph*>(ready)) work();
  return kOk;
}
FAKE int cuGraphExecDestroy(void* ready) {
  delete static_cast<Graph*>(ready);
  return kOk;
}
FAKE int cuGraphDestroy(void* graph) {
  delete static_cast<Graph*>(graph);
  return kOk;
}
FAKE int cuModuleLoadData(void** module, const void* image) {
  const std::string text = static_cast<const char*>(image);
  if (wants("no-ptx")) return kInvalidPtx;
  if (text.find(".version") != text.npos && text.find(".entry attest_clock_stamps(") != text.npos) {
    *module = &clock_module;
    return kOk;
  }
  if (!text.starts_with(kLibraryOfKernels)) return kInvalidPtx;
  *module = dlopen(text.c_str() + std::strlen(kLibraryOfKernels), RTLD_NOW | RTLD_LOCAL);
  return *module ? kOk : kInvalidPtx;
}
FAKE int cuModuleUnload(void* module) {
  return module == &clock_module || dlclose(module) == 0 ? kOk : kInvalid;
}
FAKE int cuModuleGetFunction(void** function, void* module, const char* name) {
  const std::string text = name;
  *function = module != &clock_module         ? dlsym(module, (text + "_on_host").c_str())
              : text == "attest_clock_stamps" ? &clock_module
                                              : nullptr;
  return *function ? kOk : kInvalid;
}
FAKE int cuLaunchKernel(void* function, unsigned blocks, unsigned, unsigned, unsigned threads,
                        unsigned, unsigned, unsigned, void* stream, void** parameters, void**) {
  if (function != &clock_module) {
    if (blocks == 0 || refuses(stream)) return kInvalid;
    reinterpret_cast<KernelOnHost*>(function)(blocks, threads, parameters);
    return kOk;
  }
  auto* stamps = reinterpret_cast<uint64_t*>(*static_cast<unsigned long long*>(parameters[0]));
  return enqueue(stream, [=] { read_clocks(stamps); });
}
FAKE int cuGetErrorName(int error, const char** name) {
  *name = error == kIllegalAddress       ? "CUDA_ERROR_ILLEGAL_ADDRESS"
          : error == kNoMemory           ? "CUDA_ERROR_OUT_OF_MEMORY"
          : error == kInvalidPtx         ? "CUDA_ERROR_INVALID_PTX"
          : error == kCaptureUnsupported ? "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED"
          : error == kCaptureInvalidated ? "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED"
                                         : "CUDA_ERROR_INVALID_VALUE";
  return kOk;
}
FAKE int cuGetErrorString(int error, const char** text) {
  *text = error == kIllegalAddress ? "an illegal memory access was encountered"
          : error == kNoMemory     ? "out of memory"
          : error == kInvalidPtx   ? "a PTX JIT compilation failed"
          : error >= kCaptureUnsupported && error <= kCaptureInvalidated
              ? "operation failed due to a previous error during capture"
              : "invalid argument";
  return kOk;
}
