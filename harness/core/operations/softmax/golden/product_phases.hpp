// How much the products p v of a row round alike, channel by channel.
//
//   ProductPhases products(value_stride);
//   products.start(row, sums, model);
//   products.add(p, values, count);  // for each block of a sample of the keys
//   products.write(model, variances);
#pragma once
#include <cstdint>
#include <vector>

#include "core/operations/softmax/golden/row_expectation.hpp"

namespace attest::core {

/// The products of one row and all channels of V. A kernel divides weights by their sum before or
/// after it multiplies them with V. The two products lie differently in the ulps of their sums, and
/// the larger chance counts.
class ProductPhases {
 public:
  /// One in so many keys is looked at.
  static constexpr uint32_t kStep = 4;

  /// `stride`: the number of channels, a multiple of 8.
  explicit ProductPhases(int64_t stride);

  /// Starts a row that is_flat. `sums`: results of the second pass, with largest_v.
  void start(const RowScores& row, const RowSums& sums, const SigmaModel& model);
  /// Adds `count` keys of the sample. p, [count], is 0 if a key is hidden; values: [count, stride].
  void add(const double* p, const double* values, int64_t count);
  /// Writes RowSums::alike_products, [stride].
  void write(const SigmaModel& model, double* variances) const;

 private:
  enum Sum { kWhole, kPart, kLane, kSums };
  enum Weights { kDivided, kUndivided, kWeights };
  // Of one sum and one kind of weights, for all channels
  struct Sums {
    std::vector<double> factors;  // [stride]: a product times its factor has the unit of an ulp
    std::vector<kernels::ChannelPhases> phases;  // [stride / 8]
  };
  double chance(Sum sum, int64_t channel) const;

  int64_t stride_, keys_ = 0;
  double least_ = 0;
  bool in_parts_ = false;  // else kPart and kLane are not used
  Sums sums_[kSums][kWeights];
  std::vector<AlikeProducts> channels_;       // [stride]; their chances are not set
  std::vector<kernels::ChannelAddend> kept_;  // of one block
};

}  // namespace attest::core
