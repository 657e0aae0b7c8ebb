// Element types against exact definitions, and hashes that see every element whatever the strides.
#include "core/tensor/tensor.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstring>
#include <limits>

#include "core/tensor/error.hpp"
#include "core/tensor/random.hpp"

namespace attest::core {
namespace {

TEST(DType, NamesRoundTrip) {
  for (DType dtype = ATTEST_F32; dtype <= ATTEST_3XTF32; ++dtype)
    EXPECT_EQ(dtype_from_name(dtype_name(dtype)), dtype);
  EXPECT_FALSE(dtype_from_name("float"));
  EXPECT_FALSE(dtype_from_name("none"));
}

TEST(DType, KnownConstants) {
  EXPECT_EQ(unit_roundoff(ATTEST_F16), 0x1p-11);
  EXPECT_EQ(unit_roundoff(ATTEST_BF16), 0x1p-8);
  EXPECT_EQ(unit_roundoff(ATTEST_F32), 0x1p-24);
  EXPECT_EQ(unit_roundoff(ATTEST_TF32), 0x1p-11);
  EXPECT_EQ(half_subnormal(ATTEST_F16), 0x1p-25);
  EXPECT_EQ(half_subnormal(ATTEST_F32), 0x1p-150);
  EXPECT_EQ(half_subnormal(ATTEST_BF16), 0x1p-134);
  EXPECT_EQ(half_subnormal(ATTEST_F64), 0) << "no float64 is 2^-1075";
  EXPECT_EQ(unit_roundoff(ATTEST_F64), 0x1p-53);
  EXPECT_EQ(unit_roundoff(ATTEST_3XTF32), 0x1p-21);
  EXPECT_EQ(smallest_normal(ATTEST_F16), 0x1p-14);
  for (const DType dtype : {ATTEST_F32, ATTEST_BF16, ATTEST_TF32, ATTEST_3XTF32})
    EXPECT_EQ(smallest_normal(dtype), 0x1p-126) << dtype_name(dtype);
  EXPECT_EQ(smallest_normal(ATTEST_F64), std::numeric_limits<double>::min());
  EXPECT_EQ(largest_finite(ATTEST_F32), double(std::numeric_limits<float>::max()));
  EXPECT_EQ(largest_finite(ATTEST_F16), 65504);
  EXPECT_EQ(largest_finite(ATTEST_BF16), 0x1.fep127);
  EXPECT_EQ(unit_roundoff(ATTEST_NONE), 1) << "what has no digits rounds to anything";
}

TEST(DType, ABinadeBeginsAtItsPowerOfTwo) {
  EXPECT_EQ(binade(1), 1);
  EXPECT_EQ(binade(std::nextafter(2, 0)), 1);
  EXPECT_EQ(binade(-3), 2);
  EXPECT_EQ(binade(0x1.8p-1022), 0x1p-1022);
  EXPECT_EQ(binade(0), 0);
  EXPECT_EQ(binade(5e-324), 0);
  EXPECT_EQ(binade(-INFINITY), INFINITY);
  EXPECT_EQ(binade(NAN), INFINITY);
}

TEST(DType, EveryHalfSurvivesARoundTrip) {
  for (const DType dtype : {ATTEST_F16, ATTEST_BF16}) {
    for (uint32_t bits = 0; bits < 0x10000; ++bits) {
      const auto half = uint16_t(bits);
      double row;
      load_row(&half, dtype, 0, 1, 1, &row);
      const double value = load(&half, dtype, 0);
      uint16_t back = 0, back_row = 0;
      store(&back, dtype, 0, value);
      const auto narrow = float(value);
      store_row(&back_row, dtype, 0, 1, 1, &narrow);
      if (std::isnan(value)) {
        EXPECT_TRUE(std::isnan(row) && std::isnan(load(&back, dtype, 0)) &&
                    std::isnan(load(&back_row, dtype, 0)));
      } else {
        ASSERT_EQ(row, value) << bits;
        ASSERT_EQ(back, half);
        ASSERT_EQ(back_row, half);
      }
    }
  }
}

// Between two neighbours the nearer one is taken, and the even one at the middle.
TEST(DType, RoundsToNearestEven) {
  for (const DType dtype : {ATTEST_F16, ATTEST_BF16}) {
    const uint16_t top = dtype == ATTEST_F16 ? 0x7bff : 0x7f7f;
    for (uint16_t low = 0; low < top; ++low) {
      const auto high = uint16_t(low + 1);
      const double a = load(&low, dtype, 0), b = load(&high, dtype, 0), middle = (a + b) / 2;
      const uint16_t even = low & 1 ? high : low;
      for (const auto& [value, expected] : {std::pair(middle, even),
                                            {std::nextafter(float(middle), -1.0f), low},
                                            {std::nextafter(float(middle), INFINITY), high}}) {
        uint16_t wide = 0, row = 0;
        store(&wide, dtype, 0, value);
        const auto narrow = float(value);
        store_row(&row, dtype, 0, 1, 1, &narrow);
        ASSERT_EQ(wide, expected) << dtype_name(dtype) << " " << low;
        ASSERT_EQ(row, expected) << dtype_name(dtype) << " " << low;
      }
    }
  }
}

TEST(DType, OverflowIsInfinity) {
  uint16_t half = 0;
  store(&half, ATTEST_F16, 0, 65520.0);
  EXPECT_EQ(half, 0x7c00);
  store(&half, ATTEST_F16, 0, 65519.9);
  EXPECT_EQ(half, 0x7bff);
  const float big = -1e9f;
  store_row(&half, ATTEST_F16, 0, 1, 1, &big);
  EXPECT_EQ(half, 0xfc00);
  for (const double beyond : {0x1.ffp127, 1e300, std::numeric_limits<double>::max()}) {
    store(&half, ATTEST_BF16, 0, beyond);
    EXPECT_EQ(half, 0x7f80) << beyond;
  }
  store(&half, ATTEST_BF16, 0, std::nextafter(0x1.ffp127, 0));
  EXPECT_EQ(half, 0x7f7f);
  store(&half, ATTEST_BF16, 0, 5e-324);
  EXPECT_EQ(half, 0);
}

// What a code of 8 bits stands for, by the formula of the format (OCP 8-bit floating point, 2023):
// 2^(exponent - bias) times 1.mantissa, or 2^(1 - bias) times 0.mantissa where the exponent is 0.
// It counts units of the last place and shares nothing with dtype.cpp.
double value_of_code(DType dtype, int code) {
  const bool e4m3 = dtype == ATTEST_F8E4M3;
  const int places = e4m3 ? 8 : 4, magnitude = code % 128, exponent = magnitude / places;
  double value = magnitude % places + (exponent > 0 ? places : 0);
  for (int doublings = 1; doublings < exponent; ++doublings) value *= 2;
  value /= e4m3 ? 512 : 65536;  // the smallest number: 2^-9, 2^-16
  if (e4m3 && magnitude == 127) value = std::nan("");
  if (!e4m3 && exponent == 31) value = magnitude % places ? std::nan("") : INFINITY;
  return code < 128 ? value : -value;
}

TEST(DType, EveryCodeOf8BitsHasTheValueOfItsFormula) {
  EXPECT_EQ(value_of_code(ATTEST_F8E4M3, 0x7e), largest_finite(ATTEST_F8E4M3));
  EXPECT_EQ(value_of_code(ATTEST_F8E5M2, 0x7b), largest_finite(ATTEST_F8E5M2));
  EXPECT_EQ(value_of_code(ATTEST_F8E4M3, 0x08), smallest_normal(ATTEST_F8E4M3));
  EXPECT_EQ(value_of_code(ATTEST_F8E5M2, 0x04), smallest_normal(ATTEST_F8E5M2));
  for (const DType dtype : {ATTEST_F8E4M3, ATTEST_F8E5M2}) {
    std::array<uint8_t, 512> spread{};
    for (size_t code = 0; code < 256; ++code) spread[2 * code] = uint8_t(code);
    std::array<double, 256> row{};
    load_row(spread.data(), dtype, 0, 256, 2, row.data());
    for (int code = 0; code < 256; ++code) {
      const double expected = value_of_code(dtype, code),
                   read = load(spread.data(), dtype, 2 * code);
      uint8_t back = 0, back_row = 0;
      store(&back, dtype, 0, expected);
      const auto narrow = float(expected);
      store_row(&back_row, dtype, 0, 1, 1, &narrow);
      if (std::isnan(expected)) {
        EXPECT_TRUE(std::isnan(read) && std::isnan(row[size_t(code)])) << code;
        EXPECT_TRUE(std::isnan(load(&back, dtype, 0)) && std::isnan(load(&back_row, dtype, 0)));
        continue;
      }
      ASSERT_EQ(read, expected) << dtype_name(dtype) << " " << code;
      ASSERT_EQ(row[size_t(code)], expected) << dtype_name(dtype) << " " << code;
      ASSERT_EQ(std::signbit(read), code >= 128);
      ASSERT_EQ(back, code);
      ASSERT_EQ(back_row, code);
    }
  }
}

TEST(DType, CodesOf8BitsRoundToNearestEven) {
  for (const DType dtype : {ATTEST_F8E4M3, ATTEST_F8E5M2}) {
    const int top = dtype == ATTEST_F8E4M3 ? 0x7e : 0x7b;
    for (int low = 0; low < top; ++low) {
      const double middle = (value_of_code(dtype, low) + value_of_code(dtype, low + 1)) / 2;
      for (const auto& [value, expected] :
           {std::pair(middle, low & 1 ? low + 1 : low),
            {double(std::nextafter(float(middle), -1.0f)), low},
            {double(std::nextafter(float(middle), INFINITY)), low + 1}})
        for (const int sign : {1, -1}) {
          uint8_t wide = 0, row = 0;
          store(&wide, dtype, 0, sign * value);
          const auto narrow = float(sign * value);
          store_row(&row, dtype, 0, 1, 1, &narrow);
          ASSERT_EQ(wide, expected + (sign < 0 ? 128 : 0)) << dtype_name(dtype) << " " << low;
          ASSERT_EQ(row, wide) << dtype_name(dtype) << " " << low;
        }
    }
  }
}

// Beyond the middle between the largest number and the one that would follow.
TEST(DType, CodesOf8BitsOverflowToInfinityOrNaNUnlessSaturated) {
  const auto stored = [](DType dtype, double value) {
    uint8_t code = 0;
    store(&code, dtype, 0, value);
    return int(code);
  };
  EXPECT_EQ(stored(ATTEST_F8E4M3, 464), 0x7e);
  EXPECT_EQ(stored(ATTEST_F8E4M3, 464.1), 0x7f);
  EXPECT_EQ(stored(ATTEST_F8E4M3, -INFINITY), 0xff);
  EXPECT_EQ(stored(ATTEST_F8E5M2, 61439.9), 0x7b);
  EXPECT_EQ(stored(ATTEST_F8E5M2, 61440), 0x7c);
  EXPECT_EQ(stored(ATTEST_F8E5M2, -INFINITY), 0xfc);
  EXPECT_EQ(saturated(1000, ATTEST_F8E4M3), 448);
  EXPECT_EQ(saturated(-INFINITY, ATTEST_F8E4M3), -448);
  EXPECT_EQ(saturated(INFINITY, ATTEST_F8E5M2), 57344);
  EXPECT_EQ(saturated(-447.5f, ATTEST_F8E4M3), -447.5f);
  EXPECT_TRUE(std::isnan(saturated(NAN, ATTEST_F8E4M3)));
}

TEST(DType, PoisonIsNaN) {
  for (const DType dtype : {ATTEST_F32, ATTEST_F16, ATTEST_BF16, ATTEST_F64}) {
    const uint64_t bits = poison_bits(dtype);
    EXPECT_TRUE(std::isnan(load(&bits, dtype, 0))) << dtype_name(dtype);
  }
}

TEST(Tensor, ExtentAndOffsetsFollowStrides) {
  const int64_t shape[] = {2, 3, 5, 4};
  const int order[] = {0, 2, 1, 3};
  const TensorSpec spec = permuted_tensor(ATTEST_F32, ATTEST_READ, shape, order);
  EXPECT_EQ(extent(spec), 120);
  EXPECT_FALSE(is_dense(spec));
  EXPECT_EQ(row_offset(spec, 3, (1 * 3 + 2) * 5 + 4), 1 * 60 + 4 * 12 + 2 * 4);
  EXPECT_TRUE(is_dense(dense_tensor(ATTEST_F32, ATTEST_READ, shape)));
  const int64_t broadcast[] = {1, 3, 1, 4};
  EXPECT_EQ(dense_tensor(ATTEST_F32, ATTEST_READ, broadcast).stride[0], 0);
}

TEST(Tensor, HashIsOfTheElements) {
  const int64_t shape[] = {2, 3, 5, 4};
  const int order[] = {0, 2, 1, 3};
  std::vector<float> a(120), b(120);
  Tensor dense{dense_tensor(ATTEST_F32, ATTEST_READ, shape), a.data()},
      permuted{permuted_tensor(ATTEST_F32, ATTEST_READ, shape, order), b.data()};
  for (int64_t row = 0; row < 30; ++row)
    for (int64_t d = 0; d < 4; ++d) {
      const double x = random_normal(1, uint64_t(row * 4 + d));
      store(dense.data, ATTEST_F32, row_offset(dense.spec, 3, row) + d, x);
      store(permuted.data, ATTEST_F32, row_offset(permuted.spec, 3, row) + d, x);
    }
  EXPECT_EQ(hash_tensor(dense), hash_tensor(permuted));
  for (float& x : b) {  // every element counts
    const float kept = x;
    x += 1;
    ASSERT_NE(hash_tensor(dense), hash_tensor(permuted));
    x = kept;
  }
}

TEST(Random, IsCentredAndOfUnitVariance) {
  double sum = 0, squares = 0;
  const int n = 100000;
  for (int i = 0; i < n; ++i) {
    const double x = random_normal(7, uint64_t(i));
    sum += x;
    squares += x * x;
  }
  EXPECT_NEAR(sum / n, 0, 0.02);
  EXPECT_NEAR(squares / n, 1, 0.02);
  EXPECT_NE(random_bits(1, 2), random_bits(2, 1));
}

TEST(Error, QuotesStayOnOneShortLine) {
  EXPECT_EQ(in_quotes("a\nb\x01\xff"), "'a?b?\?'");
  EXPECT_EQ(in_quotes(std::string(61, 'x')), "'" + std::string(60, 'x') + "...'");
}

}  // namespace
}  // namespace attest::core
