#include "core/operations/softmax/golden/passes/key_order.hpp"

#include "core/operations/softmax/sigma/phases.hpp"

namespace attest::core::passes {

KeyOrder::KeyOrder(Interval keys, const EqualKeys& equal) : keys_(keys) {
  std::vector<int32_t> equal_places;
  for (size_t n = 0; n < equal.place.size(); ++n) {
    if (!keys.contains(equal.place[n])) continue;
    equal_places.push_back(equal.place[n]);
    group_.push_back(equal.group[n]);
  }
  if (equal_places.empty()) return;
  lists_visits_ = true;
  std::vector<bool> is_equal(size_t(keys.size()), false);
  for (const int32_t place : equal_places) is_equal[size_t(place - keys.begin)] = true;
  for (int64_t place = keys.begin; place < keys.end; ++place)
    if (!is_equal[size_t(place - keys.begin)]) visited_.push_back(int32_t(place));
  lone_ = int64_t(visited_.size());
  visited_.insert(visited_.end(), equal_places.begin(), equal_places.end());
}

KeyOrder KeyOrder::sample(Interval keys, uint32_t step) {
  KeyOrder order(keys);
  order.lists_visits_ = true;
  for (int64_t place = keys.begin; place < keys.end; ++place)
    if (is_sampled(uint32_t(place), step)) order.visited_.push_back(int32_t(place));
  order.lone_ = order.size();
  return order;
}

KeyBlock::KeyBlock(const KeyOrder& order, int64_t begin, int64_t most)
    : order_(order), begin_(begin), count_(std::min(most, order.size() - begin)) {
  if (order.has_groups() && begin < order.lone_) count_ = std::min(count_, order.lone_ - begin);
}

}  // namespace attest::core::passes
