#include "core/worker/device_tensors.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "core/tensor/error.hpp"
#include "core/tensor/runs.hpp"

namespace attest::core {
namespace {

// What attest.h promises of tensors that are not UNALIGNED.
constexpr int64_t kTensorAlignment = 64;
constexpr int64_t kZone = 4096;  // bytes of canary behind the data, and at least so many before
constexpr unsigned char kNaN = 0xff;  // in each byte: a NaN of every floating-point dtype

static_assert(kZone % DeviceTensors::kFrameworkAlignment == 0, "it comes before a tensor");

}  // namespace

DeviceTensors::DeviceTensors(const attest_tensor* tensor, const std::vector<Source>& sources,
                             Device& device, Place place)
    : tensor_(tensor), device_(device) {
  int64_t longest = 0;
  for (const Source& source : sources) longest = std::max(longest, kZone + source.slot.alignment);
  for (const Canary canary : {Canary::kInput, Canary::kOutput})
    for (int64_t at = 0; at < longest; ++at)
      canaries_[canary == Canary::kOutput].push_back(canary_byte(canary, at));
  for (const Source& source : sources) {
    // What allocation gives is aligned better than attest.h promises.
    const bool odd = place == Place::kOdd || source.slot.alignment < kTensorAlignment;
    const int64_t bytes = source.slot.data_bytes, front = kZone + (odd ? source.slot.alignment : 0);
    Copy copy{source, DeviceBuffer(device, size_t(front + bytes + kZone)), nullptr};
    copy.data = copy.buffer.data() + front;
    arguments_.add(copy.source.slot, copy.data);
    copies_.push_back(std::move(copy));
  }
}

// move(first byte, bytes) for what holds elements: all of it with its gaps, or each run, with the
// canaries beside it, where the gaps are vast.
template <class Move>
void DeviceTensors::for_each_piece(const Copy& copy, const Move& move) const {
  const attest_tensor& spec = tensor_[copy.source.slot.role];
  const int64_t bytes = copy.source.slot.data_bytes;
  if (!is_sparse(spec)) return move(int64_t{0}, bytes);
  const auto width = int64_t(dtype_bytes(spec.dtype));
  for_each_run(spec, [&](int64_t first, int64_t count) {
    const int64_t begin = std::max<int64_t>(first * width - kGapEdge, 0);
    move(begin, std::min((first + count) * width + kGapEdge, bytes) - begin);
  });
}

const unsigned char* DeviceTensors::canaries(const Copy& copy) const {
  return canaries_[copy.source.output].data();
}

// What the host has there, NaN or what another run may have left; as much of it as the host has
// written.
void DeviceTensors::upload_workspace(const Copy& copy) {
  const int64_t bytes = copy.source.slot.data_bytes, front = std::min(bytes, kPoisonedWorkspace),
                back = std::min(bytes - front, kPoisonedWorkspace);
  device_.fill(copy.data, kNaN, size_t(bytes));
  if (!copy.source.host) return;
  device_.copy_in(copy.data, copy.source.host, size_t(front));
  device_.copy_in(copy.data + bytes - back, copy.source.host + bytes - back, size_t(back));
}

void DeviceTensors::upload(const Copy& copy) {
  const unsigned char* zone = canaries(copy);
  device_.copy_in(copy.buffer.data(), zone, size_t(copy.data - copy.buffer.data()));
  device_.copy_in(copy.data + copy.source.slot.data_bytes, zone, size_t(kZone));
  if (copy.source.slot.role == kWorkspaceRole) return upload_workspace(copy);
  for_each_piece(copy, [&](int64_t at, int64_t bytes) {
    device_.copy_in(copy.data + at, copy.source.host + at, size_t(bytes));
  });
}

void DeviceTensors::upload(bool with_workspace) {
  for (const Copy& copy : copies_)
    if (with_workspace || copy.source.slot.role != kWorkspaceRole) upload(copy);
  device_.synchronize();
}

void DeviceTensors::upload(const char* host, size_t bytes) {
  for (const Copy& copy : copies_) {
    if (!copy.source.host) continue;
    const int64_t at = host - copy.source.host;
    if (at < 0 || at + int64_t(bytes) > copy.source.slot.data_bytes) continue;
    return device_.copy_in(copy.data + at, host, bytes);
  }
}

void DeviceTensors::download_outputs() {
  for (const Copy& copy : copies_)
    if (copy.source.output && copy.source.slot.role != kWorkspaceRole)
      for_each_piece(copy, [&](int64_t at, int64_t bytes) {
        device_.copy_out(copy.source.host + at, copy.data + at, size_t(bytes));
      });
  device_.synchronize();
}

// The damage nearest to the tensor says most.
std::string DeviceTensors::broken(const Copy& copy, bool before) const {
  const char *front = copy.buffer.data(), *end = copy.data + copy.source.slot.data_bytes;
  const int64_t bytes = before ? int64_t(copy.data - front) : kZone;
  std::vector<unsigned char> zone(static_cast<size_t>(bytes));
  device_.copy_out(zone.data(), before ? front : end, zone.size());
  device_.synchronize();
  const unsigned char* canary = canaries(copy);
  int64_t at = before ? bytes - 1 : 0;
  while (at >= 0 && at < bytes && zone[size_t(at)] == canary[at]) at += before ? -1 : 1;
  if (at < 0 || at == bytes) return "";
  return before ? fmt::format("was written before its start, at byte {} before it", bytes - at)
                : fmt::format("was written past its end, at byte {} behind it", at);
}

bool DeviceTensors::input_changed(const Copy& copy) const {
  std::vector<char> now;
  bool changed = false;
  for_each_piece(copy, [&](int64_t at, int64_t bytes) {
    now.resize(size_t(bytes));
    device_.copy_out(now.data(), copy.data + at, now.size());
    device_.synchronize();
    changed |= std::memcmp(now.data(), copy.source.host + at, now.size()) != 0;
  });
  return changed;
}

std::optional<DeviceTrespass> DeviceTensors::trespass() const {
  for (const Copy& copy : copies_) {
    const int32_t role = copy.source.slot.role;
    for (const bool before : {true, false})
      if (std::string text = broken(copy, before); !text.empty())
        return DeviceTrespass{role, false, std::move(text)};
    if (!copy.source.output && input_changed(copy))
      return DeviceTrespass{role, true, "was changed"};
  }
  return std::nullopt;
}

}  // namespace attest::core
