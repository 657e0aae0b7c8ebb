// Messages between the harness and a worker: CBOR maps over a Unix socket, file descriptors beside
// them.
#pragma once
#include <chrono>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/isolation/buffers.hpp"

namespace attest::core {

using Clock = std::chrono::steady_clock;

/// The two ends of a new socket, both closed on exec.
std::pair<Descriptor, Descriptor> socket_pair();

/// One end. Neither side trusts the other's lengths: a message is at most 64 MiB.
class Channel {
 public:
  enum class Status { kMessage, kClosed, kTimeout, kGarbage };

  explicit Channel(Descriptor socket) : socket_(std::move(socket)) {}

  /// False when the other end is gone.
  bool send(const nlohmann::json& message, std::span<const int> descriptors = {});
  /// Whether something has come, the other end's closing included, or comes until `deadline` or a
  /// signal.
  bool readable(Clock::time_point deadline) const;
  /// Waits until `deadline` for a message and the descriptors that came with it.
  Status receive(nlohmann::json& message, std::vector<Descriptor>& descriptors,
                 Clock::time_point deadline);

 private:
  Status receive_bytes(void* data, size_t size, std::vector<Descriptor>* descriptors,
                       Clock::time_point deadline);
  Descriptor socket_;
};

/// A trivially copyable value as a CBOR byte string, and back; a string of another length gives
/// nothing.
template <class T>
std::vector<uint8_t> to_bytes(std::span<const T> values) {
  const auto* begin = reinterpret_cast<const uint8_t*>(values.data());
  return {begin, begin + values.size_bytes()};
}
template <class T>
std::vector<T> from_bytes(const std::vector<uint8_t>& bytes) {
  std::vector<T> values(bytes.size() / sizeof(T));
  std::memcpy(values.data(), bytes.data(), values.size() * sizeof(T));
  return values;
}

}  // namespace attest::core
