// The tensors of one request in the memory of a device, copies of those on the host, with canaries
// around each.
//
// Nothing on a device is out of bounds to a kernel as a guard page is on the host, so what lies
// within 4 KiB before and behind a tensor is looked at after a run.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "core/device/device.hpp"
#include "core/isolation/messages/messages.hpp"
#include "core/worker/mapped.hpp"

namespace attest::core {

class DeviceTensors {
 public:
  /// One tensor on the host: `role` and alignment from its slot, elements at `host`. A workspace
  /// may be null there: NaN.
  struct Source {
    Slot slot;
    char* host;
    bool output;
  };
  /// Where a tensor begins: at an odd multiple of the alignment that attest.h promises, so that
  /// who assumes more shows it; or on kFrameworkAlignment, as where frameworks allocate it, unless
  /// the problem is UNALIGNED.
  enum class Place { kOdd, kAsInFrameworks };
  static constexpr int64_t kFrameworkAlignment = 256;  // bytes, as cudaMalloc gives

  /// `tensor`: by role; it and the host's memory must outlive this. Throws DeviceError.
  DeviceTensors(const attest_tensor* tensor, const std::vector<Source>& sources, Device& device,
                Place place);

  const Arguments& arguments() const { return arguments_; }
  /// Copies all tensors to the device, with the canaries between their elements, and writes those
  /// around them; where not asked for, the workspace keeps what is in it.
  void upload(bool with_workspace = true);
  /// Copies `bytes` of a tensor again that have changed on the host.
  void upload(const char* host, size_t bytes);
  /// Copies the outputs to the host, gaps between their elements included; waits for the device.
  void download_outputs();

  std::optional<DeviceTrespass> trespass() const;

 private:
  struct Copy {
    Source source;
    DeviceBuffer buffer;
    char* data;  // in the buffer
  };
  void upload(const Copy& copy);
  void upload_workspace(const Copy& copy);
  const unsigned char* canaries(const Copy& copy) const;
  template <class Move>
  void for_each_piece(const Copy& copy, const Move& move) const;
  std::string broken(const Copy& copy, bool before) const;
  bool input_changed(const Copy& copy) const;

  const attest_tensor* tensor_;
  Device& device_;
  std::vector<Copy> copies_;
  std::vector<unsigned char> canaries_[2];  // of inputs, of outputs: as much as any zone is long
  Arguments arguments_;
};

}  // namespace attest::core
