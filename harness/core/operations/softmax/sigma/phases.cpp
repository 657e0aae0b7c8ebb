#include "core/operations/softmax/sigma/phases.hpp"

#include <algorithm>
#include <cmath>

namespace attest::core {

void Phases::add(double turns, double count) {
  const double angle = 2 * M_PI * (turns - std::floor(turns));
  const std::complex<double> once(std::cos(angle), std::sin(angle));
  std::complex<double> power = once;
  for (std::complex<double>& sum : sums_) {
    sum += count * power;
    power *= once;
  }
  count_ += count;
}

// Without what addends have in common with themselves.
double Phases::alike(double addends) const {
  if (addends < 2) return 0;
  double chance = 0;
  for (int n = 0; n < kHarmonics; ++n)
    chance += std::max(std::norm(sums_[n]) - count_, 0.0) / double((n + 1) * (n + 1));
  return std::min(chance / (addends * (addends - 1)), 1.0);
}

double ulp_of(double u, double sum) { return std::ldexp(2 * u, std::ilogb(sum)); }

double alike_variance(double ulp, double steps, double most, double alike) {
  const double error = std::min(ulp * steps / std::sqrt(12), most);
  return error * error * alike;
}

}  // namespace attest::core
