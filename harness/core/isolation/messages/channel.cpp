#include "core/isolation/messages/channel.hpp"

#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>

#include "core/tensor/error.hpp"

namespace attest::core {
namespace {

constexpr uint32_t kMagic = 0xa77e57u;
constexpr uint32_t kLargestMessage = 64u << 20;
constexpr size_t kMostDescriptors = 250;  // of kMostSets in script.hpp; Linux carries 253

struct Header {
  uint32_t magic, size;
};

}  // namespace

std::pair<Descriptor, Descriptor> socket_pair() {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
    throw Error(fmt::format("cannot create a socket: {}", std::strerror(errno)));
  return {Descriptor(ends[0]), Descriptor(ends[1])};
}

bool Channel::send(std::span<const std::byte> message, std::span<const int> descriptors) {
  const Header header{kMagic, uint32_t(message.size())};
  const auto* head = reinterpret_cast<const std::byte*>(&header);
  std::vector<std::byte> bytes(head, head + sizeof(header));
  bytes.insert(bytes.end(), message.begin(), message.end());

  alignas(cmsghdr) char control[CMSG_SPACE(kMostDescriptors * sizeof(int))] = {};
  size_t sent = 0;
  while (sent < bytes.size()) {
    iovec part{bytes.data() + sent, bytes.size() - sent};
    msghdr packet{};
    packet.msg_iov = &part;
    packet.msg_iovlen = 1;
    if (sent == 0 && !descriptors.empty()) {  // descriptors travel with the first byte
      packet.msg_control = control;
      packet.msg_controllen = CMSG_SPACE(descriptors.size_bytes());
      cmsghdr* rights = CMSG_FIRSTHDR(&packet);
      rights->cmsg_level = SOL_SOCKET;
      rights->cmsg_type = SCM_RIGHTS;
      rights->cmsg_len = CMSG_LEN(descriptors.size_bytes());
      std::memcpy(CMSG_DATA(rights), descriptors.data(), descriptors.size_bytes());
    }
    const ssize_t n = sendmsg(socket_.get(), &packet, MSG_NOSIGNAL);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    sent += size_t(n);
  }
  return true;
}

namespace {

// Below zero where a signal came.
int wait_for(int socket, Clock::time_point deadline) {
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now()).count();
  pollfd ready{socket, POLLIN, 0};
  return poll(&ready, 1, int(std::clamp<int64_t>(left, 0, 1 << 30)));
}

}  // namespace

bool Channel::readable(Clock::time_point deadline) const {
  return wait_for(socket_.get(), deadline) > 0;
}

Channel::Status Channel::receive_bytes(void* data, size_t size,
                                       std::vector<Descriptor>* descriptors,
                                       Clock::time_point deadline) {
  size_t got = 0;
  while (got < size) {
    const int polled = wait_for(socket_.get(), deadline);
    if (polled < 0 && errno == EINTR) continue;
    if (polled == 0) return Status::kTimeout;
    iovec part{static_cast<char*>(data) + got, size - got};
    alignas(cmsghdr) char control[CMSG_SPACE(kMostDescriptors * sizeof(int))];
    msghdr packet{};
    packet.msg_iov = &part;
    packet.msg_iovlen = 1;
    packet.msg_control = control;
    packet.msg_controllen = sizeof(control);
    const ssize_t n = recvmsg(socket_.get(), &packet, MSG_CMSG_CLOEXEC);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return Status::kClosed;
    for (cmsghdr* head = CMSG_FIRSTHDR(&packet); head; head = CMSG_NXTHDR(&packet, head)) {
      if (head->cmsg_level != SOL_SOCKET || head->cmsg_type != SCM_RIGHTS) continue;
      for (size_t i = 0; i < (head->cmsg_len - CMSG_LEN(0)) / sizeof(int); ++i) {
        int fd;
        std::memcpy(&fd, CMSG_DATA(head) + i * sizeof(int), sizeof(int));
        Descriptor owned(fd);
        if (descriptors) descriptors->push_back(std::move(owned));
      }
    }
    got += size_t(n);
  }
  return Status::kMessage;
}

Channel::Status Channel::receive(std::vector<std::byte>& message,
                                 std::vector<Descriptor>& descriptors, Clock::time_point deadline) {
  Header header{};
  Status status = receive_bytes(&header, sizeof(header), &descriptors, deadline);
  if (status != Status::kMessage) return status;
  if (header.magic != kMagic || header.size > kLargestMessage) return Status::kGarbage;
  message.resize(header.size);
  return receive_bytes(message.data(), message.size(), &descriptors, deadline);
}

}  // namespace attest::core
