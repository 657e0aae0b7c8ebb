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

double Phases::alike(double addends) const {
  kernels::ChannelPhases sums;
  double own[std::size(sums.phases)];
  std::ranges::copy(sums_, own);
  kernels::sum_phases(turns_, sizes_, waiting_, own);
  for (size_t n = 0; n < std::size(own); ++n) sums.phases[n][0] = own[n];
  sums.alone[0] = alone_;
  sums.addends[0] = addends;
  return core::alike(sums, 0);
}

// Without what addends have in common with themselves.
double alike(const kernels::ChannelPhases& sums, size_t channel) {
  const double addends = sums.addends[channel];
  if (addends < 2) return 0;
  double chance = 0;
  for (size_t k = 1; k <= kernels::kPhaseHarmonics; ++k) {
    const std::complex sum(sums.phases[2 * k - 2][channel], sums.phases[2 * k - 1][channel]);
    chance += std::max(std::norm(sum) - sums.alone[channel], 0.0) / double(k * k);
  }
  return std::min(chance / (addends * (addends - 1)), 1.0);
}

double ulp_of(double u, double sum) { return std::ldexp(2 * u, std::ilogb(sum)); }

double alike_variance(double ulp, double steps, double most, double alike) {
  const double error = std::min(ulp * steps / std::sqrt(12), most);
  return error * error * alike;
}

}  // namespace attest::core
