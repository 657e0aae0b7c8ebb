// Marks of the fill "rising": keys whose code no other key of their interval has. A row that asks
// for a mark has its largest score there.
//
// An online softmax rescales its sums when a row's maximum rises. Which step of a kernel runs
// depends on the tile in which it rises, on the amount, and on the lane of the largest key. So
// there are marks where tiles of 16 to 256 keys begin and end, and in every lane of 64. Rows ask
// for a mark by one of several leads over all other keys.
#pragma once
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "core/operations/softmax/closed_form/tiles.hpp"

namespace attest::core {

class Marks {
 public:
  static constexpr int64_t kMost = 96, kFirstTile = kLeastTile;
  /// The marks of an interval of `length` keys, at most `most`, numbered in the order of their
  /// positions. Of more than two tiles of kFirstTile keys, only position 0 is a mark in the first
  /// one, so that it has room for the other codes.
  Marks(int64_t length, int64_t most);

  int64_t size() const { return int64_t(places_.size()); }
  int64_t place(int64_t index) const { return places_[size_t(index)]; }
  const std::vector<int64_t>& places() const { return places_; }
  /// Returns the number of keys of the interval.
  int64_t length() const { return length_; }
  /// The number of the mark at a position, or -1.
  int64_t index_of(int64_t place) const;
  /// Whether the mark was only placed for its lane.
  bool is_lane(int64_t index) const { return lane_[size_t(index)]; }

 private:
  int64_t length_;
  std::vector<int64_t> places_;
  std::vector<bool> lane_;
};

/// What a query of "rising" asks for.
struct Ask {
  // Instead of one mark: every mark scores above those before it, by much or by little.
  static constexpr int64_t kStairs = -1, kLowStairs = -2;
  // Instead of one mark: all logits are equal, and as high or as low as any in the fill "huge".
  static constexpr int64_t kHigh = -3, kLow = -4;
  int64_t mark = kStairs;
  double lead = 0;      // of the mark's score over those of all other keys
  bool is_gap = false;  // tests the weights of the other keys, not the rise
};

/// The asks for all marks with all leads, those that show most bugs first; at most `most`.
/// `little`: the least lead that tests a rise.
std::vector<Ask> asks_for(const Marks& marks, int64_t most, double little);

}  // namespace attest::core
