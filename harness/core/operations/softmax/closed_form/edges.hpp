// Key places where kernels lose, double or displace a key: the ends of an interval, and of the
// tiles that it may be cut into.
#pragma once
#include <cstdint>
#include <utility>
#include <vector>

namespace attest::core {

class EdgePlaces {
 public:
  /// Of `length` keys: the last, the first, and those beside the edges of the last, the first and
  /// the middle tile of 64, 16, 128, 32 and 256 keys; in that order, at most `most`.
  EdgePlaces(int64_t length, int64_t most);

  int64_t size() const { return int64_t(places_.size()); }
  /// Which of them a place is, or -1.
  int64_t index_of(int64_t place) const;

 private:
  std::vector<std::pair<int64_t, int64_t>> places_;  // (place, index), by place
};

}  // namespace attest::core
