// A device that computes the sums of large goldens faster than the host. It runs kernels of the
// core by their names. The operation's golden chooses the kernels and checks their results.
#pragma once
#include <cstddef>
#include <memory>
#include <string>

namespace attest::core {

/// A queue of kernels and the device memory that they use. Work is done in the order of the calls.
/// The destructor releases all memory. Every function throws Error if it fails.
class GoldenQueue {
 public:
  virtual ~GoldenQueue() = default;
  virtual void* allocate(size_t bytes) = 0;
  virtual void release(void* data) = 0;
  /// Both copies are complete when they return.
  virtual void copy_in(void* to, const void* from, size_t bytes) = 0;
  virtual void copy_out(void* to, const void* from, size_t bytes) = 0;
  /// Launches `blocks` blocks of `threads` threads along one axis. `job` points to the kernel's
  /// only parameter, a plain struct.
  virtual void launch(const char* kernel, size_t blocks, int threads, const void* job) = 0;
};

class GoldenDevice {
 public:
  virtual ~GoldenDevice() = default;
  virtual std::string name() const = 0;  // for the record: "NVIDIA H200"
  /// Peak rate in float64.
  virtual double multiply_adds_per_s() const = 0;
  /// The device is used for goldens of at least this many multiply-adds of QK and PV. The host
  /// needs less than a second for smaller ones.
  virtual double worthwhile_multiply_adds() const { return 3e9; }
  /// Opens a queue for one golden. Before and after, nothing of the device is held, because
  /// implementations run on it too.
  virtual std::unique_ptr<GoldenQueue> open() const = 0;
};

}  // namespace attest::core
