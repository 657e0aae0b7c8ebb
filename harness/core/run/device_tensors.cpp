#include "core/run/device_tensors.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "core/tensor/error.hpp"
#include "core/tensor/runs.hpp"

namespace attest::core {
namespace {

constexpr int64_t kZone = 4096;          // bytes of canary behind the data, and at least so many before
constexpr unsigned char kCanary = 0xff;  // a NaN in every floating-point dtype
constexpr int64_t kSparse = 8;           // a tensor with gaps of more than this many times its elements is copied run by run

}  // namespace

DeviceTensors::DeviceTensors(const attest_tensor* tensor, std::vector<Source> sources, const CudaStream& stream)
    : tensor_(tensor), stream_(stream) {
  for (Source& source : sources) {
    // An odd multiple of the promised alignment, and no more: what allocation gives is aligned better.
    const int64_t bytes = source.slot.data_bytes, front = kZone + source.slot.alignment;
    Copy copy{std::move(source), CudaMemory(size_t(front + bytes + kZone)), 0};
    copy.data = copy.memory.address() + CudaAddress(front);
    arguments_.add(copy.source.slot, reinterpret_cast<void*>(copy.data));
    copies_.push_back(std::move(copy));
  }
}

// move(first byte, bytes) for what holds elements: all of it with its gaps, or each run where the gaps are vast.
template <class Move>
void DeviceTensors::for_each_piece(const Copy& copy, const Move& move) const {
  const attest_tensor& spec = tensor_[copy.source.slot.role];
  if (extent(spec) <= kSparse * element_count(spec)) return move(int64_t{0}, copy.source.slot.data_bytes);
  const auto width = int64_t(dtype_bytes(spec.dtype));
  for_each_run(spec, [&](int64_t first, int64_t count) { move(first * width, count * width); });
}

void DeviceTensors::upload(const Copy& copy) {
  const auto front = int64_t(copy.data - copy.memory.address());
  const bool workspace = copy.source.slot.role == kWorkspaceRole;
  cuda_fill(copy.memory.address(), kCanary, size_t(workspace ? front + copy.source.slot.data_bytes + kZone : front),
            stream_);
  if (workspace) return;
  cuda_fill(copy.data + CudaAddress(copy.source.slot.data_bytes), kCanary, size_t(kZone), stream_);
  for_each_piece(copy, [&](int64_t at, int64_t bytes) {
    cuda_copy_in(copy.data + CudaAddress(at), copy.source.host + at, size_t(bytes), stream_);
  });
}

void DeviceTensors::upload() {
  for (const Copy& copy : copies_) upload(copy);
  stream_.synchronize();
}

void DeviceTensors::upload(const char* host, size_t bytes) {
  for (const Copy& copy : copies_) {
    const int64_t at = host - copy.source.host;
    if (at < 0 || at + int64_t(bytes) > copy.source.slot.data_bytes) continue;
    return cuda_copy_in(copy.data + CudaAddress(at), host, bytes, stream_);
  }
}

void DeviceTensors::download_outputs() {
  for (const Copy& copy : copies_)
    if (copy.source.output && copy.source.slot.role != kWorkspaceRole)
      for_each_piece(copy, [&](int64_t at, int64_t bytes) {
        cuda_copy_out(copy.source.host + at, copy.data + CudaAddress(at), size_t(bytes), stream_);
      });
  stream_.synchronize();
}

std::string DeviceTensors::broken(CudaAddress begin, int64_t bytes, bool before) const {
  std::vector<unsigned char> zone(static_cast<size_t>(bytes));
  cuda_copy_out(zone.data(), begin, zone.size(), stream_);
  stream_.synchronize();
  const auto is_written = [](unsigned char byte) { return byte != kCanary; };
  // The nearest to the tensor says most.
  if (before) {
    const auto at = std::find_if(zone.rbegin(), zone.rend(), is_written);
    return at == zone.rend() ? "" : fmt::format("was written before its start, at byte {} before it", at - zone.rbegin() + 1);
  }
  const auto at = std::find_if(zone.begin(), zone.end(), is_written);
  return at == zone.end() ? "" : fmt::format("was written past its end, at byte {} behind it", at - zone.begin());
}

bool DeviceTensors::input_changed(const Copy& copy) const {
  std::vector<char> now;
  bool changed = false;
  for_each_piece(copy, [&](int64_t at, int64_t bytes) {
    now.resize(size_t(bytes));
    cuda_copy_out(now.data(), copy.data + CudaAddress(at), now.size(), stream_);
    stream_.synchronize();
    changed |= std::memcmp(now.data(), copy.source.host + at, now.size()) != 0;
  });
  return changed;
}

std::optional<DeviceTensors::Trespass> DeviceTensors::trespass() const {
  for (const Copy& copy : copies_) {
    const int32_t role = copy.source.slot.role;
    const CudaAddress front = copy.memory.address(), end = copy.data + CudaAddress(copy.source.slot.data_bytes);
    for (const bool before : {true, false})
      if (std::string text = broken(before ? front : end, before ? int64_t(copy.data - front) : kZone, before);
          !text.empty())
        return Trespass{role, false, std::move(text)};
    if (!copy.source.output && input_changed(copy)) return Trespass{role, true, "was changed"};
  }
  return std::nullopt;
}

}  // namespace attest::core
