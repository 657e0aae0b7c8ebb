#include "core/operations/softmax/sigma/phases.hpp"

#include <algorithm>
#include <cmath>

namespace attest::core {

// By half of the angle, from -pi / 2 to pi / 2, whose sine and cosine are short series.
std::complex<double> on_circle(double turns) {
  constexpr double kAllWhole = 0x1p52;
  const double half = std::fabs(turns) < kAllWhole ? turns - double(int64_t(turns)) : 0,
               angle = M_PI * (half > 0.5    ? half - 1
                               : half < -0.5 ? half + 1
                                             : half),
               square = angle * angle;
  const double sine =
      angle *
      (1 -
       square / 6 * (1 - square / 20 * (1 - square / 42 * (1 - square / 72 * (1 - square / 110)))));
  const double cosine =
      1 -
      square / 2 * (1 - square / 12 * (1 - square / 30 * (1 - square / 56 * (1 - square / 90))));
  return {1 - 2 * sine * sine, 2 * sine * cosine};
}

void Phases::add(double turns, double count, double share) {
  const std::complex<double> once = on_circle(turns);
  // std::complex multiplies with checks for NaN, of which there are none here.
  double real = once.real(), imaginary = once.imag();
  for (std::complex<double>& sum : sums_) {
    sum += std::complex(count * share * real, count * share * imaginary);
    const double next = real * once.real() - imaginary * once.imag();
    imaginary = real * once.imag() + imaginary * once.real();
    real = next;
  }
  alone_ += count * share * share;
}

// Without what addends have in common with themselves.
double Phases::alike(double addends) const {
  if (addends < 2) return 0;
  double chance = 0;
  for (int n = 0; n < kHarmonics; ++n)
    chance += std::max(std::norm(sums_[n]) - alone_, 0.0) / double((n + 1) * (n + 1));
  return std::min(chance / (addends * (addends - 1)), 1.0);
}

double ulp_of(double u, double sum) { return std::ldexp(2 * u, std::ilogb(sum)); }

double alike_variance(double ulp, double steps, double most, double alike) {
  const double error = std::min(ulp * steps / std::sqrt(12), most);
  return error * error * alike;
}

}  // namespace attest::core
