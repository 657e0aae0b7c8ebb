#include "core/operations/softmax/sigma/phases.hpp"

#include <algorithm>
#include <cmath>
#include <complex>

namespace attest::core {

void Phases::add(double turns, double count, double share) {
  constexpr double kAllWhole = 0x1p52;
  turns_[waiting_] = turns < kAllWhole ? turns : 0;
  sizes_[waiting_] = count * share;
  alone_ += count * share * share;
  if (++waiting_ < kWaiting) return;
  kernels::sum_phases(turns_, sizes_, kWaiting, sums_);
  waiting_ = 0;
}

// Without what addends have in common with themselves.
double Phases::alike(std::span<const double, kHarmonics> squares, double alone, double addends) {
  if (addends < 2) return 0;
  double chance = 0;
  for (int n = 0; n < kHarmonics; ++n)
    chance += std::max(squares[size_t(n)] - alone, 0.0) / double((n + 1) * (n + 1));
  return std::min(chance / (addends * (addends - 1)), 1.0);
}

double Phases::alike(double addends) const {
  double sums[2 * kHarmonics], squares[kHarmonics];
  std::ranges::copy(sums_, sums);
  kernels::sum_phases(turns_, sizes_, waiting_, sums);
  for (int n = 0; n < kHarmonics; ++n)
    squares[n] = std::norm(std::complex(sums[2 * n], sums[2 * n + 1]));
  return alike(squares, alone_, addends);
}

double ulp_of(double u, double sum) { return std::ldexp(2 * u, std::ilogb(sum)); }

double alike_variance(double ulp, double steps, double most, double alike) {
  const double error = std::min(ulp * steps / std::sqrt(12), most);
  return error * error * alike;
}

}  // namespace attest::core
