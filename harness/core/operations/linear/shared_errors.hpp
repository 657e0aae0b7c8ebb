// How many errors of linear attention are independent. All rows of a key head read one state, so
// they share the errors of phi(k), of V's sums and of what they are rounded to.
#pragma once
#include <cstdint>
#include <vector>

namespace attest::core::linear {

/// A sample of the outputs of one key head: some rows, some channels, some keys.
struct OutputSample {
  int64_t rows = 0, channels = 0;  // of all outputs, not of the sample
  // Weighted phi(q) of the sampled rows, [sampled rows][head_dim].
  std::vector<std::vector<double>> queries;
  // What the errors of phi(k), and those of the state, are of each sampled row's variance: 0 to 1.
  std::vector<double> feature_share, state_share;
  std::vector<std::vector<double>> values;  // V in some channels, [sampled channels][sampled keys]
};

/// The number n of independent errors whose mean square is as steady as that of all outputs: the
/// variance of a mean of squares is 2 / n, and for errors with correlations r it is 2 mean(r^2).
/// Rows err alike as far as their phi(q) point in one direction, channels as far as their values
/// do: the errors of phi(k) have one factor of either. Those of the state have the first factor
/// alone, because each channel has a state of its own.
double independent_errors(const OutputSample& sample);

}  // namespace attest::core::linear
