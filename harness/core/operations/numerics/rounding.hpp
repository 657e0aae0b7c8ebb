// Rounding of a number to any dtype of a declared arithmetic. Emulated kernels use it.
#pragma once
#include <bit>
#include <cmath>
#include <cstdint>

#include "core/tensor/dtype.hpp"

namespace attest::core {

/// x rounded to nearest even. Subnormals are kept; overflow gives infinity. The dtype may be one
/// that only names an arithmetic (tf32, 3xtf32).
inline double rounded(double x, DType dtype) {
  if (dtype == ATTEST_F32) return double(float(x));
  if (dtype == ATTEST_F64 || !std::isfinite(x)) return x;
  const double magnitude = std::fabs(x), ulp = 2 * half_subnormal(dtype);
  if (magnitude < smallest_normal(dtype)) return std::nearbyint(x / ulp) * ulp;
  // On the bits, which keeps as many as the roundoff says: a compiler may contract the products and
  // sums of Veltkamp's splitting to multiply-adds, and then nothing is rounded.
  const auto last = uint64_t(0x1p53 * unit_roundoff(dtype));  // the last bit that is kept
  uint64_t bits = std::bit_cast<uint64_t>(x);
  bits += last / 2 - ((bits & last) == 0 ? 1 : 0);
  const double y = std::bit_cast<double>(bits & ~(last - 1));
  return std::fabs(y) > largest_finite(dtype) ? std::copysign(INFINITY, x) : y;
}

/// The result of one step of a kernel, rounded to float32, or not rounded if `declared` is float64.
inline double narrowed(double x, DType declared) {
  return declared == ATTEST_F64 ? x : double(float(x));
}

/// x >= 0 truncated: the largest number of the dtype that is not above x.
inline double cut(double x, DType dtype) {
  if (dtype == ATTEST_F64 || !std::isfinite(x)) return x;
  const double ulp =
      x < smallest_normal(dtype) ? 2 * half_subnormal(dtype) : 2 * unit_roundoff(dtype) * binade(x);
  return std::floor(x / ulp) * ulp;
}

}  // namespace attest::core
