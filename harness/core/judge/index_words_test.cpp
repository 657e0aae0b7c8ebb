// The words for which indices are wrong.
#include "core/judge/index_words.hpp"

#include <gtest/gtest.h>

#include <functional>

namespace attest::core {
namespace {

std::string words(
    size_t size, const std::function<bool(size_t)>& wrong,
    const std::function<bool(size_t)>& judged = [](size_t) { return true; }) {
  std::vector<bool> is_judged(size), is_wrong(size);
  for (size_t i = 0; i < size; ++i) {
    is_judged[i] = judged(i);
    is_wrong[i] = judged(i) && wrong(i);
  }
  return describe_indices(is_judged, is_wrong);
}

TEST(IndexWords, SayNothingOfAllAndOfNone) {
  EXPECT_EQ(words(8, [](size_t) { return true; }), "");
  EXPECT_EQ(words(8, [](size_t) { return false; }), "");
  EXPECT_EQ(words(8, [](size_t) { return true; }, [](size_t i) { return i % 3 == 0; }), "");
}

TEST(IndexWords, NameOneIndex) {
  EXPECT_EQ(words(8, [](size_t i) { return i == 3; }), "3");
  EXPECT_EQ(words(8, [](size_t i) { return i == 7; }), "7");
}

TEST(IndexWords, NameARun) {
  EXPECT_EQ(words(61, [](size_t i) { return i >= 48; }), "48 and up, the last tile of 16");
  EXPECT_EQ(words(100, [](size_t i) { return i >= 64; }), "64 and up, the last tile of 64");
  EXPECT_EQ(words(61, [](size_t i) { return i >= 50; }), "50 and up");
  EXPECT_EQ(words(61, [](size_t i) { return i < 16; }), "up to 15, a tile of 16");
  EXPECT_EQ(words(61, [](size_t i) { return i < 10; }), "up to 9");
  EXPECT_EQ(words(300, [](size_t i) { return i / 64 == 1; }), "64 to 127, a tile of 64");
  EXPECT_EQ(words(300, [](size_t i) { return i > 4 && i < 9; }), "5 to 8");
}

// Where only some indices are judged, a run goes from one of them to the next.
TEST(IndexWords, NameARunOfWhatIsJudged) {
  EXPECT_EQ(
      words(
          300, [](size_t i) { return i >= 64 && i < 128; }, [](size_t i) { return i % 10 == 0; }),
      "70 to 120");
}

TEST(IndexWords, NameAPeriod) {
  EXPECT_EQ(words(8, [](size_t i) { return i % 4 == 1; }), "1, 5 (every 4)");
  EXPECT_EQ(words(1021, [](size_t i) { return i % 64 == 63; }), "63, 127, 191, ... (every 64)");
  EXPECT_EQ(words(1021, [](size_t i) { return i % 64 >= 48; }), "48 to 63 of every 64");
  EXPECT_EQ(words(64, [](size_t i) { return i % 8 == 1 || i % 8 == 4; }), "1, 4 of every 8");
}

TEST(IndexWords, CountTheOthers) {
  EXPECT_EQ(words(128, [](size_t i) { return i == 3 || i == 17 || i == 40; }),
            "3 of 128: 3, 17, 40");
  EXPECT_EQ(words(128, [](size_t i) { return i * i % 61 == 4 || i == 100 || i == 13 || i == 20; }),
            "8 of 128: 2, 13, 20, 59, 63, 100, ...");
  EXPECT_EQ(words(128, [](size_t i) { return i < 3 || i == 5 || i == 6 || (i > 70 && i < 90); }),
            "24 of 128: 0 to 2, 5, 6, 71 to 89");
}

}  // namespace
}  // namespace attest::core
