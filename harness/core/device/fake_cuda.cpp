// A CUDA driver without a device: what cuda_driver.cpp looks up, over the host's memory. What is enqueued is done at once, so a
// wait for a value that is not there yet is noted and not waited for; synchronising then waits for it, as a device would.
//
// ATTEST_FAKE_CUDA says how it misbehaves: "no-device"; "fault": synchronising reports an illegal address; "fault-in-run": it
// does so from the second time on, when tensors are there and something ran; "fault-in-copy": copying back does; "no-room": it has
// no memory left.
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <map>
#include <string>
#include <thread>

#define FAKE extern "C"

namespace {

constexpr int kOk = 0, kInvalid = 1, kNoMemory = 2, kIllegalAddress = 700;
constexpr size_t kMemory = size_t{8} << 30;

bool wants(const char* word) {
  const char* given = std::getenv("ATTEST_FAKE_CUDA");
  return given && std::string(given) == word;
}

struct Event {
  std::chrono::steady_clock::time_point at;
};
struct Stream {
  uint32_t* value = nullptr;
  uint32_t awaited = 0;
};

}  // namespace

FAKE int cuInit(unsigned) { return kOk; }
FAKE int cuDriverGetVersion(int* version) { return *version = 12040, kOk; }
FAKE int cuDeviceGetCount(int* count) { return *count = wants("no-device") ? 0 : 1, kOk; }
FAKE int cuDeviceGet(int* device, int ordinal) { return *device = ordinal, ordinal == 0 ? kOk : kInvalid; }
FAKE int cuDeviceGetName(char* name, int size, int) { return std::strncpy(name, "Fake", size_t(size)), kOk; }
FAKE int cuDeviceGetAttribute(int* value, int attribute, int) {
  static const std::map<int, int> values = {{16, 4}, {38, 1 << 20}, {75, 9}, {76, 0}, {92, 1}};
  const auto at = values.find(attribute);
  return at == values.end() ? kInvalid : (*value = at->second, kOk);
}
FAKE int cuDeviceTotalMem_v2(size_t* bytes, int) { return *bytes = kMemory, kOk; }
FAKE int cuDevicePrimaryCtxRetain(void** context, int) {
  static int one;
  return *context = &one, kOk;
}
FAKE int cuDevicePrimaryCtxRelease_v2(int) { return kOk; }
FAKE int cuCtxSetCurrent(void*) { return kOk; }
FAKE int cuMemAlloc_v2(unsigned long long* address, size_t bytes) {
  if (bytes > kMemory || wants("no-room")) return kNoMemory;
  *address = reinterpret_cast<unsigned long long>(std::aligned_alloc(512, (bytes + 511) / 512 * 512));
  return kOk;
}
FAKE int cuMemFree_v2(unsigned long long address) { return std::free(reinterpret_cast<void*>(address)), kOk; }
FAKE int cuMemHostAlloc(void** address, size_t bytes, unsigned) { return *address = std::malloc(bytes), kOk; }
FAKE int cuMemFreeHost(void* address) { return std::free(address), kOk; }
FAKE int cuMemHostGetDevicePointer_v2(unsigned long long* address, void* host, unsigned) {
  return *address = reinterpret_cast<unsigned long long>(host), kOk;
}
FAKE int cuMemcpyHtoDAsync_v2(unsigned long long to, const void* from, size_t bytes, void*) {
  return std::memcpy(reinterpret_cast<void*>(to), from, bytes), kOk;
}
FAKE int cuMemcpyDtoHAsync_v2(void* to, unsigned long long from, size_t bytes, void*) {
  return std::memcpy(to, reinterpret_cast<const void*>(from), bytes), wants("fault-in-copy") ? kIllegalAddress : kOk;
}
FAKE int cuMemsetD8Async(unsigned long long to, unsigned char value, size_t bytes, void*) {
  return std::memset(reinterpret_cast<void*>(to), value, bytes), kOk;
}
FAKE int cuStreamCreate(void** stream, unsigned) { return *stream = new Stream, kOk; }
FAKE int cuStreamDestroy_v2(void* stream) { return delete static_cast<Stream*>(stream), kOk; }
FAKE int cuStreamSynchronize(void* stream) {
  const auto& one = *static_cast<Stream*>(stream);
  while (one.value && std::atomic_ref(*one.value).load(std::memory_order_acquire) < one.awaited)
    std::this_thread::sleep_for(std::chrono::microseconds(50));
  static std::atomic<int> times = 0;
  return wants("fault") || (wants("fault-in-run") && ++times > 1) ? kIllegalAddress : kOk;
}
FAKE int cuStreamWaitValue32_v2(void* stream, unsigned long long address, unsigned value, unsigned) {
  return *static_cast<Stream*>(stream) = {reinterpret_cast<uint32_t*>(address), value}, kOk;
}
FAKE int cuEventCreate(void** event, unsigned) { return *event = new Event, kOk; }
FAKE int cuEventDestroy_v2(void* event) { return delete static_cast<Event*>(event), kOk; }
FAKE int cuEventRecord(void* event, void*) { return static_cast<Event*>(event)->at = std::chrono::steady_clock::now(), kOk; }
FAKE int cuEventElapsedTime(float* milliseconds, void* begin, void* end) {
  *milliseconds = std::chrono::duration<float, std::milli>(static_cast<Event*>(end)->at - static_cast<Event*>(begin)->at).count();
  return kOk;
}
FAKE int cuGetErrorName(int error, const char** name) {
  *name = error == kIllegalAddress ? "CUDA_ERROR_ILLEGAL_ADDRESS"
          : error == kNoMemory     ? "CUDA_ERROR_OUT_OF_MEMORY"
                                   : "CUDA_ERROR_INVALID_VALUE";
  return kOk;
}
FAKE int cuGetErrorString(int error, const char** text) {
  *text = error == kIllegalAddress ? "an illegal memory access was encountered"
          : error == kNoMemory     ? "out of memory"
                                   : "invalid argument";
  return kOk;
}
