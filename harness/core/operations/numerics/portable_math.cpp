#include "core/operations/numerics/portable_math.hpp"

#include <algorithm>
#include <cmath>

namespace attest::core {
namespace {

// ln 2 in two parts. The first one has 33 bits, so a product with a number of 11 bits is exact.
constexpr double kLn2High = 0x1.62e42feep-1, kLn2Low = 0x1.a39ef35793c76p-33;
constexpr double kLargestExponent = 1100;  // 2^1100 is infinite, 2^-1100 is 0

}  // namespace

double portable_exp(double x) {
  const double exponent =
      std::clamp(std::nearbyint(x / (kLn2High + kLn2Low)), -kLargestExponent, kLargestExponent);
  if (std::fabs(exponent) == kLargestExponent) return std::ldexp(1.0, int(exponent));
  // |rest| <= 0.35; the first term of Taylor's series that is left out is below 2^-60.
  const double rest = (x - exponent * kLn2High) - exponent * kLn2Low;
  double sum = 1;
  for (int n = 14; n >= 1; --n) sum = 1 + sum * rest / n;
  return std::ldexp(sum, int(exponent));
}

double portable_log(double x) {
  int exponent = 0;
  double part = std::frexp(x, &exponent);  // 0.5 <= part < 1
  if (part < 0x1.6a09e667f3bcdp-1) {       // sqrt(1/2)
    part *= 2;
    --exponent;
  }
  // log(part) = 2 artanh(z); |z| <= 0.172, and z^28 is below 2^-71.
  const double z = (part - 1) / (part + 1), z2 = z * z;
  double sum = 0;
  for (int n = 27; n >= 1; n -= 2) sum = sum * z2 + 1.0 / n;
  return exponent * kLn2High + (2 * z * sum + exponent * kLn2Low);
}

double portable_tanh(double x) {
  const double e = portable_exp(-2 * std::fabs(x));
  return std::copysign((1 - e) / (1 + e), x);
}

}  // namespace attest::core
