#include "core/operations/linear/shared_errors.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace attest::core::linear {
namespace {

// The square of the cosine between two vectors; 1 if one of them is 0.
double alike(const std::vector<double>& x, const std::vector<double>& y) {
  const auto dot = [](const std::vector<double>& a, const std::vector<double>& b) {
    return std::inner_product(a.begin(), a.end(), b.begin(), 0.0);
  };
  const double sizes = dot(x, x) * dot(y, y), both = dot(x, y);
  return sizes > 0 ? std::min(both * both / sizes, 1.0) : 1;
}

// The mean over pairs of different vectors.
double mean_alike(const std::vector<std::vector<double>>& vectors) {
  double sum = 0, pairs = 0;
  for (size_t n = 0; n < vectors.size(); ++n)
    for (size_t m = 0; m < n; ++m, ++pairs) sum += alike(vectors[n], vectors[m]);
  return pairs > 0 ? sum / pairs : 1;
}

// Errors of phi(k) are of v - o: V less what all keys have in common.
std::vector<std::vector<double>> centred(std::vector<std::vector<double>> columns) {
  for (std::vector<double>& column : columns) {
    const double mean = std::accumulate(column.begin(), column.end(), 0.0) /
                        double(std::max<size_t>(column.size(), 1));
    for (double& v : column) v -= mean;
  }
  return columns;
}

}  // namespace

double independent_errors(const OutputSample& sample) {
  const double own = 1 / double(sample.channels),  // the chance that two outputs have one channel
      others = (1 - own) * mean_alike(centred(sample.values));
  const size_t rows = sample.queries.size();
  double within = own, between = 0, pairs = 0;  // mean r^2 within a row, and between two
  for (size_t n = 0; n < rows; ++n) {
    const double features = sample.feature_share[n];
    within += features * features * others / double(rows);
    for (size_t m = 0; m < n; ++m, ++pairs) {
      const double of_features = features * sample.feature_share[m],
                   of_state = sample.state_share[n] * sample.state_share[m],
                   same = std::sqrt(of_features) + std::sqrt(of_state);
      between += alike(sample.queries[n], sample.queries[m]) *
                 (of_features * others + std::min(same * same, 1.0) * own);
    }
  }
  const double chance = 1 / double(sample.rows);  // that two outputs are of one row
  return 1 / (chance * within + (1 - chance) * (pairs > 0 ? between / pairs : 0));
}

}  // namespace attest::core::linear
