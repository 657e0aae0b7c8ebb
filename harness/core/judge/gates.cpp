#include "core/judge/gates.hpp"

#include <algorithm>
#include <cmath>

namespace attest::core {

double Gates::rms(int64_t rows) {
  constexpr double kSurprise = 18;  // -log of the chance
  const double x = kSurprise / double(std::max<int64_t>(rows, 1));
  return std::clamp(std::sqrt(1 + 2 * std::sqrt(x) + 2 * x), kRms, kLargest);
}

double Gates::rounded_rms(double mean, double deviation, double elements) {
  return std::sqrt(mean + kQuantile * deviation / std::sqrt(elements));
}

double Gates::one_sided(double elements) { return kOneSided + 4 / std::sqrt(elements); }

}  // namespace attest::core
