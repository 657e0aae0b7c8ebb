#include "core/operations/softmax/sigma/phases.hpp"

#include <algorithm>
#include <cmath>
#include <complex>
#include <iterator>

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
double Phases::alike(double addends) const {
  if (addends < 2) return 0;
  double sums[std::size(sums_)], chance = 0;
  std::ranges::copy(sums_, sums);
  kernels::sum_phases(turns_, sizes_, waiting_, sums);
  for (int k = 1; k <= kernels::kPhaseHarmonics; ++k) {
    const double square = std::norm(std::complex(sums[2 * k - 2], sums[2 * k - 1]));
    chance += std::max(square - alone_, 0.0) / double(k * k);
  }
  return std::min(chance / (addends * (addends - 1)), 1.0);
}

double ulp_of(double u, double sum) { return std::ldexp(2 * u, std::ilogb(sum)); }

double alike_variance(double ulp, double steps, double most, double alike) {
  const double error = std::min(ulp * steps / std::sqrt(12), most);
  return error * error * alike;
}

}  // namespace attest::core
