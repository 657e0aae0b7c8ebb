// Numbers with units against what a person should read.
#include "reports/words/units.hpp"

#include <gtest/gtest.h>

namespace attest::reports {
namespace {

TEST(Units, KeepThreeDigits) {
  EXPECT_EQ(print_time(999.0), "999 ns");
  EXPECT_EQ(print_time(999.9), "1.00 us");
  EXPECT_EQ(print_time(12345678), "12.3 ms");
  EXPECT_EQ(print_time(5e12), "5000 s");
  EXPECT_EQ(print_bytes(0), "0");
  EXPECT_EQ(print_bytes(512), "512 B");
  EXPECT_EQ(print_bytes(1.5 * 1024 * 1024 * 1024), "1.50 GiB");
}

}  // namespace
}  // namespace attest::reports
