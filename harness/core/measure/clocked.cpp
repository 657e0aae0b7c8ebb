#include "core/measure/clocked.hpp"

#include <algorithm>

#include "core/statistics/statistics.hpp"

namespace attest::core {
namespace {

constexpr double kDrop = 0.9;  // as in disturbances: what is lost below is more than times spread

}  // namespace

std::vector<double> at_full_clock(std::span<const ClockedSample> samples) {
  double highest_mhz = 0;
  for (const ClockedSample& sample : samples) highest_mhz = std::max(highest_mhz, sample.clock_mhz);
  std::vector<double> all, kept;
  for (const ClockedSample& sample : samples) {
    all.push_back(sample.run_ns);
    if (sample.clock_mhz == 0 || sample.clock_mhz >= kDrop * highest_mhz)
      kept.push_back(sample.run_ns);
  }
  return 2 * kept.size() < all.size() ? all : kept;
}

double median_mhz(std::span<const ClockedSample> samples) {
  std::vector<double> known;
  for (const ClockedSample& sample : samples)
    if (sample.clock_mhz > 0) known.push_back(sample.clock_mhz);
  return known.empty() ? 0 : summarise(known).median;
}

}  // namespace attest::core
