// Which texts are counts, times and sizes, and what they mean.
#include "core/problem/quantities.hpp"

#include <gtest/gtest.h>

#include <cstdint>

namespace attest::core {
namespace {

std::optional<int64_t> count(std::string_view text) {
  return parse_count(text, INT64_MIN, INT64_MAX);
}

TEST(Quantities, CountsHaveKOf1024) {
  EXPECT_EQ(count("4096"), 4096);
  EXPECT_EQ(count("4k"), 4096);
  EXPECT_EQ(count("256K"), 262144);
  EXPECT_EQ(count("1.5k"), 1536);
  EXPECT_EQ(count("1m"), 1048576);
  EXPECT_EQ(count("-1"), -1);
  EXPECT_EQ(count("-4k"), -4096);
  // No double holds this one.
  EXPECT_EQ(count("9223372036854775807"), INT64_MAX);
  EXPECT_EQ(count("-9223372036854775808"), INT64_MIN);
}

TEST(Quantities, CountsAreWholeAndInRange) {
  for (const char* text : {"",
                           "k",
                           "-k",
                           "4q",
                           "4kb",
                           "0.3k",
                           "64.5",
                           "1e3",
                           "1e1k",
                           "infk",
                           "nank",
                           "4kk",
                           "0x4k",
                           "+4k",
                           "4k ",
                           " 4k",
                           "99999999999m",
                           " 1",
                           "1 ",
                           "+1",
                           "0x10",
                           "1.0",
                           "9223372036854775808",
                           "--1",
                           "1_000"})
    EXPECT_FALSE(count(text)) << text;
  EXPECT_EQ(parse_count("4k", 0, 4096), 4096);
  EXPECT_FALSE(parse_count("4k", 0, 4095));
  EXPECT_FALSE(parse_count("4k", 4097, 5000));
}

TEST(Quantities, PeriodsAreRatesOrTimes) {
  EXPECT_EQ(parse_period("12Hz"), 1.0 / 12);
  EXPECT_EQ(parse_period("12.5 hz"), 0.08);
  EXPECT_EQ(parse_period("50ms"), 0.05);
  EXPECT_EQ(parse_period("2"), 2);
  for (const char* text : {"", "0Hz", "-1Hz", "Hz", "12Hzz", "0s", "1e-320Hz"})
    EXPECT_FALSE(parse_period(text)) << text;
  EXPECT_EQ(print_period(1.0 / 12), "12Hz");
  EXPECT_EQ(print_period(0.05), "20Hz");
  EXPECT_EQ(print_period(0.075), "75ms");
}

TEST(Quantities, TimesAreInSecondsWithoutAUnit) {
  EXPECT_EQ(parse_seconds("50ms"), 0.05);
  EXPECT_EQ(parse_seconds("3us"), 3e-6);
  EXPECT_EQ(parse_seconds("7ns"), 7e-9);
  EXPECT_EQ(parse_seconds("2s"), 2);
  EXPECT_EQ(parse_seconds("0.25"), 0.25);
  EXPECT_EQ(parse_seconds("1e-3"), 0.001);
  EXPECT_EQ(parse_seconds("5min"), 300);
  EXPECT_EQ(parse_seconds("1.5h"), 5400);
  EXPECT_EQ(parse_seconds("50 MS"), 0.05);
  for (const char* text :
       {"", "s", "ms", "-1s", "inf", "nan", "50m", "50 ", "50  ms", "5sec", "1e999s", "1e308h"})
    EXPECT_FALSE(parse_seconds(text)) << text;
}

TEST(Quantities, SizesTellBinaryUnitsFromDecimalOnes) {
  EXPECT_EQ(parse_bytes("1GiB"), uint64_t{1} << 30);
  EXPECT_EQ(parse_bytes("1.5 gib"), uint64_t{3} << 29);
  EXPECT_EQ(parse_bytes("2GB"), 2000000000u);
  EXPECT_EQ(parse_bytes("512MiB"), uint64_t{512} << 20);
  EXPECT_EQ(parse_bytes("4KiB"), 4096u);
  EXPECT_EQ(parse_bytes("4kB"), 4000u);
  EXPECT_EQ(parse_bytes("100B"), 100u);
  EXPECT_EQ(parse_bytes("1TB"), 1000000000000u);
  EXPECT_EQ(parse_bytes("2"), uint64_t{2} << 30);
  EXPECT_EQ(parse_bytes("0.5"), uint64_t{1} << 29);
  for (const char* text : {"", "GiB", "-1GiB", "1G", "1GiBs", "inf", "1e18KiB", "9999999TiB"})
    EXPECT_FALSE(parse_bytes(text)) << text;
}

TEST(Quantities, PrintedTextsAreShortAndComeBack) {
  EXPECT_EQ(print_seconds(0.05), "50ms");
  EXPECT_EQ(print_seconds(7), "7s");
  EXPECT_EQ(print_seconds(0), "0s");
  EXPECT_EQ(print_seconds(1e-9), "1ns");
  EXPECT_EQ(print_whole_bytes(uint64_t{2} << 30), "2GiB");
  EXPECT_EQ(print_whole_bytes(uint64_t{3} << 29), "1536MiB");
  EXPECT_EQ(print_whole_bytes(1000), "1000B");
  EXPECT_EQ(print_whole_bytes(0), "0B");
  for (const double seconds : {0.1, 0.3, 1.0 / 3, 1e-7, 123.456, 1e9})
    EXPECT_EQ(parse_seconds(print_seconds(seconds)), seconds);
}

}  // namespace
}  // namespace attest::core
