// One rounding to any dtype that an arithmetic can be declared in, for kernels that are emulated.
#pragma once
#include <cmath>

#include "core/tensor/dtype.hpp"

namespace attest::core {

/// x rounded to nearest even; subnormals kept, overflow to infinity. Dtypes that name an arithmetic
/// only (tf32, 3xtf32) too.
inline double rounded(double x, DType dtype) {
  if (dtype == ATTEST_F32) return double(float(x));
  if (dtype == ATTEST_F64 || !std::isfinite(x)) return x;
  const double magnitude = std::fabs(x), ulp = 2 * half_subnormal(dtype);
  if (magnitude < smallest_normal(dtype)) return std::nearbyint(x / ulp) * ulp;
  // Veltkamp's splitting: as many bits as the roundoff says.
  const double t = (0x1p53 * unit_roundoff(dtype) + 1) * x, y = t - (t - x);
  return std::fabs(y) > largest_finite(dtype) ? std::copysign(INFINITY, x) : y;
}

/// What one step of a kernel gives: float32, unless float64 is declared for what comes of it.
inline double narrowed(double x, DType declared) {
  return declared == ATTEST_F64 ? x : double(float(x));
}

/// x >= 0 cut to the largest number of the dtype that is not above it.
inline double cut(double x, DType dtype) {
  if (dtype == ATTEST_F64 || !std::isfinite(x)) return x;
  const double ulp = x < smallest_normal(dtype)
                         ? 2 * half_subnormal(dtype)
                         : std::ldexp(2 * unit_roundoff(dtype), std::ilogb(x));
  return std::floor(x / ulp) * ulp;
}

}  // namespace attest::core
