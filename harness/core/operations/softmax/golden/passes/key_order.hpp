// The order in which the keys of a task are visited: first lone keys, then groups of equal keys,
// one group after another, so that each group is summed at once.
//
//   const KeyOrder order(task.keys, equal);
//   for (int64_t begin = 0; begin < order.size();) {
//     const KeyBlock block(order, begin, 256);
//     for (int64_t key = 0; key < block.count(); ++key) visit(block.place(key));
//     begin += block.count();
//   }
#pragma once
#include <algorithm>
#include <cstdint>
#include <vector>

#include "core/operations/softmax/problem/equal_keys.hpp"

namespace attest::core::passes {

class KeyOrder {
 public:
  /// Orders all positions of `keys`. `equal`: the equal keys of the task's sequence and key head;
  /// it may contain keys outside of `keys`.
  KeyOrder(Interval keys, const EqualKeys& equal);
  /// Orders a sample of `keys`, one of `step`, by their positions. All of them count as lone.
  static KeyOrder sample(Interval keys, uint32_t step);

  int64_t size() const { return lists_visits_ ? int64_t(visited_.size()) : keys_.size(); }
  /// Whether any keys are equal. If not, keys are visited in the order of their positions.
  bool has_groups() const { return !group_.empty(); }

 private:
  friend class KeyBlock;
  explicit KeyOrder(Interval keys) : keys_(keys) {}

  Interval keys_;
  // If true, visited_ has the positions. If false, all keys are visited in the order of positions.
  bool lists_visits_ = false;
  std::vector<int32_t> visited_;  // [size()] or empty: positions in the order of visits
  std::vector<int32_t> group_;    // [equal keys]: the group of each, in the order of visits
  int64_t lone_ = 0;              // number of keys without a group
};

/// Consecutive visited keys, numbered from 0. Either all are lone, or all are in groups.
class KeyBlock {
 public:
  /// At most `most` keys of `order`, beginning with visit `begin`. `order` must outlive the block.
  KeyBlock(const KeyOrder& order, int64_t begin, int64_t most);

  int64_t count() const { return count_; }
  int64_t place(int64_t key) const {
    return order_.lists_visits_ ? order_.visited_[size_t(begin_ + key)]
                                : order_.keys_.begin + begin_ + key;
  }
  /// Whether the keys are in groups.
  bool grouped() const { return order_.has_groups() && begin_ >= order_.lone_; }
  /// The group of a key, if grouped().
  int32_t group(int64_t key) const { return order_.group_[size_t(begin_ + key - order_.lone_)]; }
  /// Whether the positions are consecutive, within this block and from block to block.
  bool contiguous() const { return !order_.lists_visits_; }
  /// From the first position to the last. Only if the keys are lone.
  Interval span() const { return {place(0), place(count_ - 1) + 1}; }
  /// Whether the task has further keys after the first `keys` of this block.
  bool more_behind(int64_t keys) const { return begin_ + keys < order_.size(); }

 private:
  const KeyOrder& order_;
  int64_t begin_, count_;
};

}  // namespace attest::core::passes
