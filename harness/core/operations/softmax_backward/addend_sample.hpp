// Addends of a float32 sum that round alike because they lie alike in the ulps of the sum. An
// example is a sum of 10,000 numbers that differ by a thousandth.
#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

namespace attest::core::backward {

/// Remembers addends, or some of them if there are many, until the size of the sum is known.
class AddendSample {
 public:
  static constexpr size_t kMost = 16384;
  /// It remembers at most `most` addends.
  explicit AddendSample(size_t most = kMost) : most_(most) {}
  void clear();
  /// Adds `count` addends of weight * row[c] in each channel c. `row` must live until the last call
  /// of chance().
  void add(double weight, const double* row, double count);
  /// The probability that two addends of a channel round alike. It is 0 if addends that lie
  /// anywhere would often have as much. An addend and its negative round in opposite directions, so
  /// they cancel here. `reach` is the largest partial sum. The sum has the ulp of `reach`; in a
  /// kernel that scales the sum, the ulp may be as large as 2^-23 of it. The larger of the two
  /// probabilities is returned.
  double chance(size_t channel, double reach) const;

 private:
  struct Entry {
    double weight;
    const double* row;
    float count;
    uint32_t index;
  };
  double chance_in(size_t channel, double ulp) const;
  // The same of every `step`-th of the remembered addends, on average.
  double chance(size_t channel, double ulp, uint32_t step) const;

  size_t most_;
  std::vector<Entry> entries_;
  uint32_t added_ = 0;  // the number of calls of add()
  double all_ = 0;      // the number of addends
  uint32_t step_ = 1;   // of so many addends one is remembered: a power of two
};

}  // namespace attest::core::backward
