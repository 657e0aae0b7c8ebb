// In which order the keys of a task are visited: lone ones first, then those that are equal, group
// by group, so that the sums over a group can be made in one go.
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
  /// All places of `keys`. `equal`, of the task's sequence and key head, may hold others too.
  KeyOrder(Interval keys, const EqualKeys& equal);

  int64_t size() const { return keys_.size(); }
  /// Whether any of the keys are in groups. Else all are visited in the order of their places.
  bool has_groups() const { return !visited_.empty(); }

 private:
  friend class KeyBlock;
  Interval keys_;
  std::vector<int32_t> visited_;  // [size()]: places in the order of visits; empty: in their own
  std::vector<int32_t> group_;    // [equal keys]: the group of each, in the order of visits
  int64_t lone_ = 0;              // keys that are in no group
};

/// Keys that are visited one after the other, either all lone or all in groups. They are numbered
/// from 0.
class KeyBlock {
 public:
  /// At most `most` keys of `order`, from visit `begin` on. `order` must outlive the block.
  KeyBlock(const KeyOrder& order, int64_t begin, int64_t most);

  int64_t count() const { return count_; }
  int64_t place(int64_t key) const {
    return order_.has_groups() ? order_.visited_[size_t(begin_ + key)]
                               : order_.keys_.begin + begin_ + key;
  }
  /// Whether the keys are in groups; `group` is the one that a key is in.
  bool grouped() const { return order_.has_groups() && begin_ >= order_.lone_; }
  int32_t group(int64_t key) const { return order_.group_[size_t(begin_ + key - order_.lone_)]; }
  /// Whether each place is one above that before it, in this block and from block to block.
  bool contiguous() const { return !order_.has_groups(); }
  /// From the first place to the last, where the keys are lone.
  Interval span() const { return {place(0), place(count_ - 1) + 1}; }
  /// Whether the task has keys behind the first `keys` of this block.
  bool more_behind(int64_t keys) const { return begin_ + keys < order_.size(); }

 private:
  const KeyOrder& order_;
  int64_t begin_, count_;
};

}  // namespace attest::core::passes
