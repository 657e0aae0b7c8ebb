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
  added_ = 0;
  all_ = 0;
  step_ = 1;
}

void AddendSample::add(double weight, const double* row, double count) {
  const uint32_t index = added_++;
  all_ += count;
  if (!is_remembered(index, step_)) return;
  entries_.push_back({weight, row, float(count), index});
  if (entries_.size() <= most_) return;
  step_ *= 2;
  std::erase_if(entries_, [&](const Entry& one) { return !is_remembered(one.index, step_); });
}

double AddendSample::chance(size_t channel, double reach) const {
  if (!(reach > 0) || !std::isfinite(reach)) return 0;
  const double exact = chance_in(channel, ulp_of(kUnit, reach));
  return exact < 1 ? std::max(exact, chance_in(channel, 2 * kUnit * reach)) : exact;
}

double AddendSample::chance_in(size_t channel, double ulp) const {
  const uint32_t step =
      entries_.size() > kSampledFrom && step_ < kSampleStep ? kSampleStep / step_ : 1;
  const double some = chance(channel, ulp, step);
  return step == 1 || some == 0 ? some : chance(channel, ulp, 1);
}

double AddendSample::chance(size_t channel, double ulp, uint32_t step) const {
  Phases phases;
  double addends = 0;
  for (const Entry& one : entries_) {
    if (step > 1 && !is_sampled(one.index, step)) continue;
    const double addend = one.weight * one.row[channel], turns = std::fabs(addend) / ulp;
    if (!std::isfinite(turns)) continue;
    const auto count = double(one.count);
    addends += count;
    if (turns == 0) continue;
    // What is far below an ulp is lost, but errs by no more than itself.
    const double share = std::min(std::sqrt(12) * turns, 1.0);
    phases.add(turns, count, addend < 0 ? -share : share);
  }
  const double alike = phases.alike(addends);
  return alike * std::max(addends, all_ / kFewest) > kAlikeByChance ? alike : 0;
}

}  // namespace attest::core::backward
