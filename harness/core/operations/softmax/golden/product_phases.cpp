#include "core/operations/softmax/golden/product_phases.hpp"

#include <algorithm>
#include <cassert>
#include <cmath>

namespace attest::core {

constexpr auto kPhaseChannels = int64_t(kernels::ChannelPhases::kChannels);

ProductPhases::ProductPhases(int64_t stride) : stride_(stride) {
  assert(stride % kPhaseChannels == 0);
  for (auto& weights : sums_)
    for (Sums& sums : weights) {
      sums.factors.resize(size_t(stride));
      sums.phases.resize(size_t(stride / kPhaseChannels));
    }
  channels_.resize(size_t(stride));
}

void ProductPhases::start(const RowScores& row, const RowSums& sums, const SigmaModel& model) {
  const double all = std::max(std::exp(row.lse - row.top()), 1.0),  // the sum of undivided weights
      length = model.chain(row.keys), share = length / double(row.keys),
               largest_part =
                   sums.largest_v * std::min(1.0, length * std::exp(row.top() - row.lse));
  keys_ = row.keys;
  least_ = model.unsummed_below(row.top(), row.lse, row.keys);
  in_parts_ = share < 1;
  for (auto& weights : sums_)
    for (Sums& of : weights) std::ranges::fill(of.phases, kernels::ChannelPhases{});
  for (int64_t c = 0; c < stride_; ++c) {
    const double reach = sums.reach[c], squares = sums.p2v2[c];
    channels_[size_t(c)] = {.reach = reach,
                            .size = std::min(sums.largest_v, std::sqrt(double(keys_) * squares))};
    const double part = std::min({reach, largest_part, std::sqrt(length * squares)});
    for (const auto& [sum, size] :
         {std::pair(kWhole, reach), {kPart, part}, {kLane, reach * share}})
      for (const auto& [weights, scale] : {std::pair(kDivided, 1.0), {kUndivided, all}})
        sums_[sum][weights].factors[size_t(c)] =
            size > 0 && std::isfinite(size) ? scale / ulp_of(model.u_acc, scale * size) : 0;
  }
}

void ProductPhases::add(const double* p, const double* values, int64_t count) {
  kept_.clear();
  for (int64_t key = 0; key < count; ++key)
    if (p[key] > 0 && p[key] >= least_) kept_.push_back({p[key], values + key * stride_, 1});
  for (int sum = 0; sum < (in_parts_ ? kSums : kPart); ++sum)
    for (Sums& to : sums_[sum])
      for (int64_t c = 0; c < stride_; c += kPhaseChannels)
        kernels::sum_channel_phases(kept_, size_t(c), size_t(kPhaseChannels), to.factors.data() + c,
                                    to.phases[size_t(c / kPhaseChannels)]);
}

double ProductPhases::chance(Sum sum, int64_t channel) const {
  double most = 0, addends = 0;
  for (const Sums& of : sums_[sum]) {
    const kernels::ChannelPhases& phases = of.phases[size_t(channel / kPhaseChannels)];
    const auto c = size_t(channel % kPhaseChannels);
    most = std::max(most, alike(phases, c));
    addends = phases.addends[c];
  }
  return most * addends > kAlikeByChance ? most : 0;
}

void ProductPhases::write(const SigmaModel& model, double* variances) const {
  for (int64_t c = 0; c < stride_; ++c) {
    AlikeProducts products = channels_[size_t(c)];
    products.whole = chance(kWhole, c);
    if (in_parts_) {
      products.part = chance(kPart, c);
      products.lane = chance(kLane, c);
    }
    variances[c] = model.alike_products_variance(products, keys_);
  }
}

}  // namespace attest::core
