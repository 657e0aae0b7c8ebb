// The channel passes messages and descriptors, and does not trust what it reads.
#include "core/isolation/messages/channel.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

namespace attest::core {
namespace {

using Bytes = std::vector<std::byte>;
using Status = Channel::Status;

Clock::time_point soon() { return Clock::now() + std::chrono::seconds(2); }

struct Pair {
  std::pair<Descriptor, Descriptor> ends = socket_pair();
  Channel left{std::move(ends.first)};
  int raw = ends.second.get();
  Channel right{std::move(ends.second)};
};

TEST(Channel, PassesMessagesAndDescriptors) {
  Pair pair;
  int pipe_ends[2];
  ASSERT_EQ(pipe(pipe_ends), 0);
  const Descriptor read_end(pipe_ends[0]);
  Descriptor write_end(pipe_ends[1]);
  const int sent[] = {write_end.get()};
  const Bytes message(100000, std::byte(7));
  ASSERT_TRUE(pair.left.send(message, sent));
  Bytes got;
  std::vector<Descriptor> descriptors;
  ASSERT_EQ(pair.right.receive(got, descriptors, soon()), Status::kMessage);
  EXPECT_EQ(got, message);
  ASSERT_EQ(descriptors.size(), 1u);
  ASSERT_EQ(write(descriptors[0].get(), "z", 1), 1);
  char c = 0;
  ASSERT_EQ(read(read_end.get(), &c, 1), 1);
  EXPECT_EQ(c, 'z');
}

TEST(Channel, TellsSilenceFromTheEnd) {
  Pair pair;
  Bytes got;
  std::vector<Descriptor> descriptors;
  EXPECT_EQ(pair.right.receive(got, descriptors, Clock::now() + std::chrono::milliseconds(20)),
            Status::kTimeout);
  {
    const Channel gone = std::move(pair.left);
  }
  EXPECT_EQ(pair.right.receive(got, descriptors, soon()), Status::kClosed);
  EXPECT_FALSE(pair.right.send(Bytes(1)));
}

TEST(Channel, RefusesGarbage) {
  for (const std::string& bytes :
       {std::string("GET / HTTP/1.1\r\n"), std::string("\x57\x7e\xa7\0\xff\xff\xff\xff", 8)}) {
    Pair pair;
    ASSERT_EQ(write(pair.raw, bytes.data(), bytes.size()), ssize_t(bytes.size()));
    Bytes got;
    std::vector<Descriptor> descriptors;
    EXPECT_EQ(pair.left.receive(got, descriptors, soon()), Status::kGarbage);
  }
}

}  // namespace
}  // namespace attest::core
