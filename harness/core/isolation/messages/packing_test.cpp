// What is packed comes out again; bytes that are too few, too many or make no sense are refused.
#include "core/isolation/messages/packing.hpp"

#include <gtest/gtest.h>

#include <cmath>

namespace attest::core {
namespace {

struct Bits {
  int32_t low = 0, high = 0;
};
struct Dot {
  double x = 0;
};
struct Label {
  std::string text;
};
struct Drawing {
  bool closed = false;
  std::vector<Dot> dots;
  std::optional<uint64_t> count;
  std::variant<Dot, Label> focus;
  std::vector<Bits> bits;
  std::string added;
};

template <class Visit>
void walk(Dot& dot, Visit&& visit) {
  visit("x", dot.x);
}
template <class Visit>
void walk(Label& label, Visit&& visit) {
  visit("text", label.text);
}
template <class Visit>
void walk(Drawing& drawing, Visit&& visit) {
  visit("closed", drawing.closed);
  visit("dots", drawing.dots);
  visit("count", drawing.count);
  visit("focus", drawing.focus);
  visit("bits", drawing.bits);
  visit("added", LaterField{drawing.added});
}

}  // namespace

template <>
inline constexpr bool kPacksAsBytes<Bits> = true;

namespace {

Drawing sample() {
  return {.closed = true,
          .dots = {{1}, {NAN}, {-INFINITY}},
          .count = uint64_t(1) << 63,
          .focus = Label{"here"},
          .bits = {{1, 2}, {3, 4}},
          .added = "later"};
}

// What is wrong with the bytes of a drawing, as unpacking says.
std::string fault(const std::vector<std::byte>& bytes) {
  try {
    unpack<Drawing>(bytes);
  } catch (const Error& error) {
    return error.what();
  }
  return "nothing";
}

// The sample, with `value` at byte `at`.
std::vector<std::byte> with_byte(size_t at, int value) {
  std::vector<std::byte> bytes = pack(sample());
  bytes.at(at) = std::byte(value);
  return bytes;
}

TEST(Packing, UnpacksWhatItPacked) {
  const std::vector<std::byte> packed = pack(sample());
  const Drawing read = unpack<Drawing>(packed);
  EXPECT_TRUE(read.closed);
  ASSERT_EQ(read.dots.size(), 3u);
  EXPECT_EQ(read.dots[0].x, 1);
  EXPECT_TRUE(std::isnan(read.dots[1].x));
  EXPECT_EQ(read.dots[2].x, -INFINITY);
  EXPECT_EQ(read.count, uint64_t(1) << 63);
  EXPECT_EQ(std::get<Label>(read.focus).text, "here");
  ASSERT_EQ(read.bits.size(), 2u);
  EXPECT_EQ(read.bits[0].high, 2);
  EXPECT_EQ(read.bits[1].low, 3);
  EXPECT_EQ(read.added, "later");
  EXPECT_EQ(pack(read), packed);
  EXPECT_FALSE(unpack<Drawing>(pack(Drawing{})).count);
}

TEST(Packing, RefusesTooFewAndTooManyBytes) {
  std::vector<std::byte> bytes = pack(sample());
  ASSERT_EQ(fault(bytes), "nothing");
  for (size_t size = 0; size < bytes.size(); ++size)
    EXPECT_NE(fault({bytes.begin(), bytes.begin() + std::ptrdiff_t(size)}), "nothing") << size;
  bytes.push_back(std::byte(0));
  EXPECT_EQ(fault(bytes), "bytes are left over behind the last key");
}

TEST(Packing, NamesTheKeyOfWhatMakesNoSense) {
  constexpr size_t kDots = 1, kCount = kDots + 8 + 3 * 8, kFocus = kCount + 1 + 8,
                   kBits = kFocus + 8 + 8 + 4;
  EXPECT_EQ(fault(with_byte(0, 2)), "key 'closed': is neither true nor false");
  EXPECT_EQ(fault(with_byte(kCount, 2)), "key 'count': is neither true nor false");
  EXPECT_EQ(fault(with_byte(kFocus, 2)), "key 'focus': is not one of its kinds");
  // Lengths that no memory could hold
  EXPECT_EQ(fault(with_byte(kDots + 7, 0xff)), "key 'dots': has too few bytes");
  EXPECT_EQ(fault(with_byte(kFocus + 8 + 7, 0xff)), "key 'text': has too few bytes");
  EXPECT_EQ(fault(with_byte(kBits + 7, 0xff)), "key 'bits': has too few bytes");
}

}  // namespace
}  // namespace attest::core
