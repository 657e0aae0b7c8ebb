#include "core/device/cuda/cuda_golden.hpp"

#include <algorithm>

#include "core/device/cuda/cuda.hpp"
#include "core/device/cuda/cuda_device.hpp"

namespace attest::core {
namespace {

// Float32 multiply-adds a clock of a multiprocessor: 64 of Turing and of GA100, 128 of others.
double single_width(int device) {
  const int architecture = 10 * cuda_attribute(device, kMajor) + cuda_attribute(device, kMinor);
  return architecture <= 80 ? 64 : 128;
}

class CudaGoldenQueue final : public GoldenQueue {
 public:
  explicit CudaGoldenQueue(const void* module) : device_(open_cuda_device()) {
    cuda_check(cuda_driver().module_load(&module_, module), "cuModuleLoadData");
  }
  CudaGoldenQueue(const CudaGoldenQueue&) = delete;
  CudaGoldenQueue& operator=(const CudaGoldenQueue&) = delete;
  ~CudaGoldenQueue() override { cuda_driver().module_unload(module_); }

  void* allocate(size_t bytes) override { return device_->allocate(bytes); }
  void release(void* data) override { device_->release(data); }
  void copy_in(void* to, const void* from, size_t bytes) override {
    device_->copy_in(to, from, bytes);
    device_->synchronize();
  }
  void copy_out(void* to, const void* from, size_t bytes) override {
    device_->copy_out(to, from, bytes);
    device_->synchronize();
  }
  void launch(const char* kernel, size_t blocks, int threads, const void* job) override {
    CudaHandle function = nullptr;
    cuda_check(cuda_driver().module_function(&function, module_, kernel), "cuModuleGetFunction");
    void* parameters[] = {const_cast<void*>(job)};
    cuda_check(cuda_driver().launch(function, unsigned(blocks), 1, 1, unsigned(threads), 1, 1, 0,
                                    device_->stream(), parameters, nullptr),
               "cuLaunchKernel");
  }

 private:
  std::unique_ptr<Device> device_;
  CudaHandle module_ = nullptr;
};

}  // namespace

CudaGoldenDevice::CudaGoldenDevice(std::span<const std::byte> module)
    : module_(module), name_(read_cuda_facts().name) {
  const int device = cuda_device_of(0);
  const double hertz = 1e3 * double(cuda_attribute(device, kClock_khz));
  multiply_adds_per_s_ = cuda_attribute(device, kMultiprocessors) * single_width(device) * hertz /
                         std::max(1, cuda_attribute(device, kSingleToDouble));
}

std::unique_ptr<GoldenQueue> CudaGoldenDevice::open() const {
  return std::make_unique<CudaGoldenQueue>(module_.data());
}

std::string cuda_golden_missing() {
  if (!cuda_missing().empty()) return cuda_missing();
  return golden_module().empty() ? "built without nvcc" : "";
}

}  // namespace attest::core
