// Addends of a float32 sum that round alike because they lie alike in the ulps of the sum. An
// example is a sum of 10,000 numbers that differ by a thousandth.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "core/operations/softmax/sigma/phase_sums.hpp"

namespace attest::core::backward {

/// Remembers addends, or some of them if there are many, until the size of the sum is known.
class AddendSample {
 public:
  static constexpr size_t kMost = 16384;
  /// It remembers at most `most` addends.
  explicit AddendSample(size_t most = kMost) : most_(most) {}
  void clear();
  /// Adds `count` addends of weight * row[c] in each channel c. `row` must live until the last call
  /// of find_chances().
  void add(double weight, const double* row, double count);
  /// Writes the probability that two addends of a channel round alike, for each channel. It is 0 if
  /// addends that lie anywhere would often have as much. An addend and its negative round in
  /// opposite directions, so they cancel here. `reach` is the largest partial sum, by channel. The
  /// sum has the ulp of `reach`; in a kernel that scales the sum, the ulp may be as large as 2^-23
  /// of it. The larger of the two probabilities is written.
  void find_chances(std::span<const double> reach, std::span<double> chances) const;

 private:
  using Addends = std::vector<kernels::ChannelAddend>;
  // Writes the chances of up to ChannelPhases::kChannels channels from `first` on, by their ulps.
  // find_some asks a sample of the addends first, and all that are remembered only where the sample
  // has a chance. find_of asks the addends that it is given.
  void find_some(size_t first, const Addends& sample, std::span<const double> ulps,
                 double* chances) const;
  void find_of(const Addends& addends, size_t first, std::span<const double> ulps,
               double* chances) const;
  Addends every(uint32_t step) const;

  size_t most_;
  Addends entries_;
  std::vector<uint32_t> indices_;  // of the entries, in the order of add()
  uint32_t added_ = 0;             // the number of calls of add()
  double all_ = 0;                 // the number of addends
  uint32_t step_ = 1;              // of so many addends one is remembered: a power of two
};

}  // namespace attest::core::backward
