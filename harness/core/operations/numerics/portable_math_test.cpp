// exp, log and tanh that have the same bits on every machine.
#include "core/operations/numerics/portable_math.hpp"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>

namespace attest::core {
namespace {

TEST(PortableMath, IsAsExactAsItSays) {
  for (int n = -7000; n <= 7000; ++n) {
    const double x = n / 10.0 + 1e-3 * std::sin(n);
    if (std::fabs(x) < 690) {
      EXPECT_NEAR(portable_exp(x) / std::exp(x), 1, 0x1p-51) << x;
    }
    EXPECT_NEAR(portable_tanh(x / 100), std::tanh(x / 100), 0x1p-51) << x / 100;
    const double positive = std::exp(x / 2);
    EXPECT_NEAR(portable_log(positive), std::log(positive), 0x1p-51 * std::fabs(std::log(positive)))
        << positive;
  }
}

TEST(PortableMath, HasItsLimits) {
  EXPECT_EQ(portable_exp(0), 1);
  EXPECT_EQ(portable_exp(-1e5), 0);
  EXPECT_TRUE(std::isinf(portable_exp(1e5)));
  EXPECT_EQ(portable_log(1), 0);
  EXPECT_EQ(portable_tanh(0), 0);
  EXPECT_EQ(portable_tanh(-100), -1);
}

// Sums of these bits over many arguments: another order of the operations, or a product and a sum
// that are contracted to one operation, give another number.
TEST(PortableMath, HasTheSameBitsEverywhere) {
  uint64_t of_exp = 0, of_log = 0, of_tanh = 0;
  for (int n = 1; n <= 4096; ++n) {
    const double x = n / 64.0;
    of_exp += std::bit_cast<uint64_t>(portable_exp(-x));
    of_log += std::bit_cast<uint64_t>(portable_log(x));
    of_tanh += std::bit_cast<uint64_t>(portable_tanh(x / 8));
  }
  EXPECT_EQ(of_exp, 0xc3e4b163d9bf293fu);
  EXPECT_EQ(of_log, 0xc4b70d5296debf95u);
  EXPECT_EQ(of_tanh, 0xc397b72f55285366u);
}

}  // namespace
}  // namespace attest::core
