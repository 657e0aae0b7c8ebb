// Addends of a float32 sum that round alike, since they lie alike in the ulps of the sum: numbers
// that agree to a thousandth, say, where some 10,000 are added.
#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

namespace attest::core::backward {

/// Remembers addends, or some of them if there are many, until the size of the sum is known.
class AddendSample {
 public:
  static constexpr size_t kMost = 16384;
  /// `most`: so many addends are remembered, at most.
  explicit AddendSample(size_t most = kMost) : most_(most) {}
  void clear();
  /// Adds `count` addends of weight * row[c] in each channel c. `row` must live until the last call
  /// of chance().
  void add(double weight, const double* row, double count);
  /// The chance that two addends of a channel round alike. An addend and its negative round to
  /// opposite sides, and count against each other. 0 where it is not more than chance gives.
  /// `reach`: the largest partial sum. The chance is the larger of those in two ulps: that of
  /// `reach`, and 2^-23 of it, the largest that the sum has if a kernel scales it.
  double chance(size_t channel, double reach) const;

 private:
  struct Entry {
    double weight;
    const double* row;
    float count;
    uint32_t index;
  };
  double chance_in(size_t channel, double ulp) const;
  // Of one of `step` addends that are remembered.
  double chance(size_t channel, double ulp, uint32_t step) const;

  size_t most_;
  std::vector<Entry> entries_;
  uint32_t added_ = 0;  // the number of calls of add()
  double all_ = 0;      // the number of addends
  uint32_t step_ = 1;   // of so many addends one is remembered: a power of two
};

}  // namespace attest::core::backward
