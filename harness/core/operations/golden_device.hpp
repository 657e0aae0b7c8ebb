// A device that makes the sums of goldens which would take the host long. It runs kernels of the
// core by their names; which of them, and whether to believe what they say, is the business of the
// operation's golden.
#pragma once
#include <cstddef>
#include <memory>
#include <string>

namespace attest::core {

/// Memory of a device and kernels that work on it, in the order of the calls. Everything is
/// released with it. What fails throws Error.
class GoldenQueue {
 public:
  virtual ~GoldenQueue() = default;
  virtual void* allocate(size_t bytes) = 0;
  virtual void release(void* data) = 0;
  /// Done when it returns.
  virtual void copy_in(void* to, const void* from, size_t bytes) = 0;
  virtual void copy_out(void* to, const void* from, size_t bytes) = 0;
  /// Blocks of threads, numbered along one axis; `job` is the kernel's only parameter, a plain
  /// struct.
  virtual void launch(const char* kernel, size_t blocks, int threads, const void* job) = 0;
};

class GoldenDevice {
 public:
  virtual ~GoldenDevice() = default;
  virtual std::string name() const = 0;  // for the record: "NVIDIA H200"
  /// What it can do at the most, in float64.
  virtual double multiply_adds_per_s() const = 0;
  /// Multiply-adds of QK and PV from which on it is asked: what the host makes in less than a
  /// second is the host's.
  virtual double worthwhile_multiply_adds() const { return 3e9; }
  /// For one golden. Nothing of the device is held before and after: implementations run there too.
  virtual std::unique_ptr<GoldenQueue> open() const = 0;
};

}  // namespace attest::core
