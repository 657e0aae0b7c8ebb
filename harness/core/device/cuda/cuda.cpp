#include "core/device/cuda/cuda.hpp"

namespace attest::core {
namespace {

constexpr unsigned kNonBlocking = 1;  // CU_STREAM_NON_BLOCKING

}  // namespace

int cuda_attribute(int device, int which) {
  int value = 0;
  cuda_check(cuda_driver().device_attribute(&value, which, device), "cuDeviceGetAttribute");
  return value;
}

int cuda_device_of(int ordinal) {
  int device = 0;
  cuda_check(cuda_driver().device_get(&device, ordinal), "cuDeviceGet");
  return device;
}

CudaContext::CudaContext(int ordinal) : device_(cuda_device_of(ordinal)) {
  CudaHandle context = nullptr;
  cuda_check(cuda_driver().context_retain(&context, device_), "cuDevicePrimaryCtxRetain");
  cuda_check(cuda_driver().context_set(context), "cuCtxSetCurrent");
}
CudaContext::~CudaContext() { cuda_driver().context_release(device_); }

CudaStream::CudaStream() {
  cuda_check(cuda_driver().stream_create(&handle_, kNonBlocking), "cuStreamCreate");
}
CudaStream::~CudaStream() { cuda_driver().stream_destroy(handle_); }
void CudaStream::synchronize() const {
  cuda_check(cuda_driver().stream_synchronize(handle_), "cuStreamSynchronize");
}

CudaEvent::CudaEvent() { cuda_check(cuda_driver().event_create(&handle_, 0), "cuEventCreate"); }
CudaEvent::~CudaEvent() { cuda_driver().event_destroy(handle_); }
void CudaEvent::record(const CudaStream& stream) {
  cuda_check(cuda_driver().event_record(handle_, stream.handle()), "cuEventRecord");
}
double CudaEvent::nanoseconds_since(const CudaEvent& begin) const {
  float milliseconds = 0;
  cuda_check(cuda_driver().event_elapsed_ms(&milliseconds, begin.handle_, handle_),
             "cuEventElapsedTime");
  return double(milliseconds) * 1e6;
}

}  // namespace attest::core
