// Marks of the fill "rising": keys whose code no other key of their interval has, each the largest
// of the rows that ask for it.
//
// An online softmax rescales what it has summed when a row's maximum rises. Which tile it rises in,
// by how much, and in which lane the largest key stands decide which step of a kernel runs. So
// marks stand where tiles of 16 to 256 keys begin and end, and in every lane of 64; and rows ask
// for a mark by one of several leads over all other keys.
#pragma once
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace attest::core {

class Marks {
 public:
  static constexpr int64_t kMost = 96, kFirstTile = 16;
  /// Of an interval of `length` keys, at most `most`, counted in the order of their places. The
  /// first kFirstTile keys have none but place 0, so that the first tile of a row holds every other
  /// code.
  Marks(int64_t length, int64_t most);

  int64_t size() const { return int64_t(places_.size()); }
  int64_t place(int64_t index) const { return places_[size_t(index)]; }
  const std::vector<int64_t>& places() const { return places_; }
  /// Which mark a place is, or -1.
  int64_t index_of(int64_t place) const;
  /// Whether a mark is there for its lane alone.
  bool is_lane(int64_t index) const { return lane_[size_t(index)]; }

 private:
  std::vector<int64_t> places_;
  std::vector<bool> lane_;
};

/// What a query of "rising" asks for.
struct Ask {
  // No mark: each one is above those before it, by much or by little.
  static constexpr int64_t kStairs = -1, kLowStairs = -2;
  int64_t mark = kStairs;
  double lead = 0;      // of the mark's score over that of every other key
  bool is_gap = false;  // for the weights of the others, in place of the rise
};

/// Every mark by its leads, most telling first; as many as `most`.
std::vector<Ask> asks_for(const Marks& marks, int64_t most);

}  // namespace attest::core
