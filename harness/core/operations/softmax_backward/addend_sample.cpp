#include "core/operations/softmax_backward/addend_sample.hpp"

#include <algorithm>
#include <cmath>

#include "core/operations/softmax/sigma/phases.hpp"
#include "core/tensor/random.hpp"

namespace attest::core::backward {
namespace {

constexpr uint64_t kSeed = 0x616c696b65;

constexpr double kUnit = 0x1p-24;  // of float32
// If less than one of so many addends is looked at, those that lie anywhere may seem alike more
// often than they do by kAlikeByChance. More than one of as many overlooks sums that err.
constexpr double kFewest = 16;

// Whether the addend is one of those that are remembered of `step` addends. Neighbours are chosen
// independently of one another: addends may have a period.
bool is_remembered(uint32_t index, uint32_t step) {
  return step == 1 || random_bits(kSeed, index) % step == 0;
}

}  // namespace

void AddendSample::clear() {
  entries_.clear();
  indices_.clear();
  added_ = 0;
  all_ = 0;
  step_ = 1;
}

void AddendSample::add(double weight, const double* row, double count) {
  const uint32_t index = added_++;
  all_ += count;
  if (!is_remembered(index, step_)) return;
  entries_.push_back({weight, row, count});
  indices_.push_back(index);
  if (entries_.size() <= most_) return;
  step_ *= 2;
  size_t kept = 0;
  for (size_t n = 0; n < entries_.size(); ++n) {
    if (!is_remembered(indices_[n], step_)) continue;
    entries_[kept] = entries_[n];
    indices_[kept++] = indices_[n];
  }
  entries_.resize(kept);
  indices_.resize(kept);
}

// Every `step`-th of the remembered addends, on average.
AddendSample::Addends AddendSample::every(uint32_t step) const {
  Addends some;
  for (size_t n = 0; n < entries_.size(); ++n)
    if (is_sampled(indices_[n], step)) some.push_back(entries_[n]);
  return some;
}

void AddendSample::find_chances(std::span<const double> reach, std::span<double> chances) const {
  const uint32_t step =
      entries_.size() > kSampledFrom && step_ < kSampleStep ? kSampleStep / step_ : 1;
  const Addends sample = step > 1 ? every(step) : Addends{};
  for (size_t first = 0; first < reach.size(); first += kernels::ChannelPhases::kChannels) {
    const size_t width = std::min(reach.size() - first, kernels::ChannelPhases::kChannels);
    double exact[kernels::ChannelPhases::kChannels], scaled[kernels::ChannelPhases::kChannels],
        more[kernels::ChannelPhases::kChannels];
    for (size_t c = 0; c < width; ++c) {
      const double of = reach[first + c];
      const bool has_sum = of > 0 && std::isfinite(of);
      exact[c] = has_sum ? ulp_of(kUnit, of) : 0;
      scaled[c] = has_sum ? 2 * kUnit * of : 0;
    }
    double* chance = chances.data() + first;
    find_some(first, sample, {exact, width}, chance);
    if (std::all_of(chance, chance + width, [](double found) { return found == 1; })) continue;
    find_some(first, sample, {scaled, width}, more);
    for (size_t c = 0; c < width; ++c) chance[c] = std::max(chance[c], more[c]);
  }
}

void AddendSample::find_some(size_t first, const Addends& sample, std::span<const double> ulps,
                             double* chances) const {
  if (sample.empty()) return find_of(entries_, first, ulps, chances);
  double some[kernels::ChannelPhases::kChannels];
  find_of(sample, first, ulps, some);
  std::fill_n(chances, ulps.size(), 0.0);
  if (std::all_of(some, some + ulps.size(), [](double found) { return found == 0; })) return;
  find_of(entries_, first, ulps, chances);
  for (size_t c = 0; c < ulps.size(); ++c)
    if (some[c] == 0) chances[c] = 0;
}

void AddendSample::find_of(const Addends& addends, size_t first, std::span<const double> ulps,
                           double* chances) const {
  double per_ulp[kernels::ChannelPhases::kChannels] = {};
  for (size_t c = 0; c < ulps.size(); ++c) per_ulp[c] = ulps[c] > 0 ? 1 / ulps[c] : 0;
  kernels::ChannelPhases sums;
  kernels::sum_channel_phases(addends, first, ulps.size(), per_ulp, sums);
  for (size_t c = 0; c < ulps.size(); ++c) {
    const double chance = alike(sums, c), count = std::max(sums.addends[c], all_ / kFewest);
    chances[c] = chance * count > kAlikeByChance ? chance : 0;
  }
}

}  // namespace attest::core::backward
