// Rounding of a number to a dtype.
#include "core/operations/numerics/rounding.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>

#include "core/tensor/random.hpp"

namespace attest::core {
namespace {

// store() has code of its own.
TEST(Rounded, IsWhatATensorOfTheDtypeKeeps) {
  const auto kept = [](double x, DType dtype) {
    uint16_t bits = 0;
    store(&bits, dtype, 0, x);
    return load(&bits, dtype, 0);
  };
  for (const DType dtype : {ATTEST_F16, ATTEST_BF16})
    for (uint64_t n = 0; n < 20000; ++n) {
      const double x = std::ldexp(double(random_bits(7, n) >> 11) * 0x1p-53 - 0.5,
                                  int(random_bits(8, n) % 40) - 28);
      EXPECT_EQ(core::rounded(x, dtype), kept(x, dtype)) << x;
      // Between two numbers of the dtype, and the neighbours of that.
      const double step = std::ldexp(2 * unit_roundoff(dtype), std::ilogb(x)),
                   middle = (std::floor(x / step) + 0.5) * step;
      for (const double y : {middle, std::nextafter(middle, 1e9), std::nextafter(middle, -1e9)})
        EXPECT_EQ(core::rounded(y, dtype), kept(y, dtype)) << y;
    }
}

TEST(Rounded, KeepsTheBitsOfDtypesThatOnlyNameAnArithmetic) {
  EXPECT_EQ(core::rounded(1 + 0x1p-11, ATTEST_TF32), 1);
  EXPECT_EQ(core::rounded(1 + 0x1p-11 + 0x1p-40, ATTEST_TF32), 1 + 0x1p-10);
  EXPECT_EQ(core::rounded(-1 - 3 * 0x1p-11, ATTEST_TF32), -1 - 0x1p-9);
  EXPECT_EQ(core::rounded(2 - 0x1p-30, ATTEST_TF32), 2);
}

TEST(Rounded, OverflowsAndKeepsWhatIsNoNumber) {
  EXPECT_EQ(core::rounded(65519, ATTEST_F16), 65504);
  EXPECT_EQ(core::rounded(-65520, ATTEST_F16), -INFINITY);
  EXPECT_EQ(core::rounded(0, ATTEST_BF16), 0);
  EXPECT_TRUE(std::isnan(core::rounded(NAN, ATTEST_BF16)));
}

}  // namespace
}  // namespace attest::core
