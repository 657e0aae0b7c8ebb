// Key positions at which kernels lose, double or displace a key: the ends of an interval, and the
// edges of tiles.
#pragma once
#include <cstdint>
#include <utility>
#include <vector>

namespace attest::core {

class EdgePlaces {
 public:
  /// At most `most` of `length` positions, in this order: the last, the first, and those beside the
  /// edges of the last, first and middle tile of 64, 16, 128, 32 and 256 keys.
  EdgePlaces(int64_t length, int64_t most);

  int64_t size() const { return int64_t(places_.size()); }
  /// The index of a position, or -1.
  int64_t index_of(int64_t place) const;

 private:
  std::vector<std::pair<int64_t, int64_t>> places_;  // (position, index), sorted by position
};

}  // namespace attest::core
