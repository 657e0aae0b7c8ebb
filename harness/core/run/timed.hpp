// The timed runs of one request, on memory of the worker alone.
#pragma once
#include <nlohmann/json_fwd.hpp>
#include <vector>

#include "core/run/mapped.hpp"

namespace attest::core {

/// Memory of this process alone, in huge pages where there are any, `offset` bytes off a page.
class PrivateBuffer {
 public:
  /// Throws Error: out of memory.
  PrivateBuffer(size_t bytes, size_t offset, bool sparse);
  PrivateBuffer(PrivateBuffer&& other) noexcept : base_(other.base_), bytes_(other.bytes_), offset_(other.offset_) {
    other.base_ = nullptr;
  }
  ~PrivateBuffer();
  void* data() const { return static_cast<char*>(base_) + offset_; }

 private:
  void* base_;
  size_t bytes_, offset_;
};

class TimedRuns {
 public:
  /// Copies the inputs. Both must outlive this.
  /// `tensor`: by role.
  TimedRuns(const attest_tensor* tensor, const MappedTensors& inputs, const MappedTensors& outputs);

  /// Runs the plan for the time that `request` gives; the reply's samples, or the status of the run that failed.
  nlohmann::json measure(const attest_impl& table, void* plan, const nlohmann::json& request);
  /// Puts the outputs of the last run into the shared ones.
  void return_outputs() const;

 private:
  const attest_tensor* tensor_;
  const MappedTensors &inputs_, &outputs_;
  std::vector<PrivateBuffer> buffers_;  // of the inputs, then of the outputs
  Arguments arguments_;
};

}  // namespace attest::core
