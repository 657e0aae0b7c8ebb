#include "core/device/cuda.hpp"

namespace attest::core {
namespace {

// Values of CUdevice_attribute and of CUstream_flags.
constexpr int kMultiprocessors = 16, kL2Bytes = 38, kMajor = 75, kMinor = 76, kStreamMemoryOperations = 92;
constexpr unsigned kNonBlocking = 1;

int attribute(int device, int which) {
  int value = 0;
  cuda_check(cuda_driver().device_attribute(&value, which, device), "cuDeviceGetAttribute");
  return value;
}

int device_of(int ordinal) {
  int device = 0;
  cuda_check(cuda_driver().device_get(&device, ordinal), "cuDeviceGet");
  return device;
}

}  // namespace

CudaFacts read_cuda_facts(int ordinal) {
  const CudaDriver& driver = cuda_driver();
  const int device = device_of(ordinal);
  char name[256] = "";
  size_t bytes = 0;
  CudaFacts facts;
  cuda_check(driver.device_name(name, sizeof(name), device), "cuDeviceGetName");
  cuda_check(driver.device_memory(&bytes, device), "cuDeviceTotalMem");
  cuda_check(driver.driver_version(&facts.driver), "cuDriverGetVersion");
  facts.name = name, facts.memory_bytes = bytes;
  facts.major = attribute(device, kMajor), facts.minor = attribute(device, kMinor);
  facts.multiprocessors = attribute(device, kMultiprocessors), facts.l2_bytes = uint64_t(attribute(device, kL2Bytes));
  return facts;
}

bool cuda_waits_for_values(int ordinal) { return attribute(device_of(ordinal), kStreamMemoryOperations) != 0; }

CudaContext::CudaContext(int ordinal) : device_(device_of(ordinal)) {
  CudaHandle context = nullptr;
  cuda_check(cuda_driver().context_retain(&context, device_), "cuDevicePrimaryCtxRetain");
  cuda_check(cuda_driver().context_set(context), "cuCtxSetCurrent");
}
CudaContext::~CudaContext() { cuda_driver().context_release(device_); }

CudaStream::CudaStream() { cuda_check(cuda_driver().stream_create(&handle_, kNonBlocking), "cuStreamCreate"); }
CudaStream::~CudaStream() { cuda_driver().stream_destroy(handle_); }
void CudaStream::synchronize() const { cuda_check(cuda_driver().stream_synchronize(handle_), "cuStreamSynchronize"); }

CudaEvent::CudaEvent() { cuda_check(cuda_driver().event_create(&handle_, 0), "cuEventCreate"); }
CudaEvent::~CudaEvent() { cuda_driver().event_destroy(handle_); }
void CudaEvent::record(const CudaStream& stream) {
  cuda_check(cuda_driver().event_record(handle_, stream.handle()), "cuEventRecord");
}
double CudaEvent::nanoseconds_since(const CudaEvent& begin) const {
  float milliseconds = 0;
  cuda_check(cuda_driver().event_elapsed_ms(&milliseconds, begin.handle_, handle_), "cuEventElapsedTime");
  return double(milliseconds) * 1e6;
}

CudaMemory::CudaMemory(size_t bytes) { cuda_check(cuda_driver().allocate(&address_, bytes), "cuMemAlloc"); }
CudaMemory::~CudaMemory() {
  if (address_ != 0) cuda_driver().release(address_);
}

void cuda_copy_in(CudaAddress to, const void* from, size_t bytes, const CudaStream& stream) {
  cuda_check(cuda_driver().copy_in(to, from, bytes, stream.handle()), "cuMemcpyHtoDAsync");
}
void cuda_copy_out(void* to, CudaAddress from, size_t bytes, const CudaStream& stream) {
  cuda_check(cuda_driver().copy_out(to, from, bytes, stream.handle()), "cuMemcpyDtoHAsync");
}
void cuda_fill(CudaAddress to, unsigned char value, size_t bytes, const CudaStream& stream) {
  cuda_check(cuda_driver().fill_bytes(to, value, bytes, stream.handle()), "cuMemsetD8Async");
}

}  // namespace attest::core
