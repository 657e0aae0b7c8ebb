// Messages between the harness and a worker: bytes over a Unix socket, file descriptors beside
// them.
#pragma once
#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "core/isolation/memory/buffers.hpp"
#include "core/tensor/stopwatch.hpp"

namespace attest::core {

/// The two ends of a new socket, both closed on exec.
std::pair<Descriptor, Descriptor> socket_pair();

/// One end. Neither side trusts the other's lengths: a message is at most 64 MiB.
class Channel {
 public:
  enum class Status { kMessage, kClosed, kTimeout, kGarbage };

  explicit Channel(Descriptor socket) : socket_(std::move(socket)) {}

  /// False when the other end is gone.
  bool send(std::span<const std::byte> message, std::span<const int> descriptors = {});
  /// Whether something has come, the other end's closing included, or comes until `deadline` or a
  /// signal.
  bool readable(Clock::time_point deadline) const;
  /// Waits until `deadline` for a message and the descriptors that came with it.
  Status receive(std::vector<std::byte>& message, std::vector<Descriptor>& descriptors,
                 Clock::time_point deadline);

 private:
  Status receive_bytes(void* data, size_t size, std::vector<Descriptor>* descriptors,
                       Clock::time_point deadline);
  Descriptor socket_;
};

}  // namespace attest::core
