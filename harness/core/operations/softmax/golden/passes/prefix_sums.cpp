#include "core/operations/softmax/golden/passes/prefix_sums.hpp"

#include <algorithm>
#include <cmath>

#include "core/operations/softmax/golden/score_kernels.hpp"
#include "core/operations/softmax/problem/geometry.hpp"

namespace attest::core::passes {
namespace {

constexpr int64_t kPrefixKeys = 16;

}  // namespace

PrefixSums::PrefixSums(const BlockShape& shape)
    : probabilities_(kTileRows, shape.key_stride),
      partial_(kTaskRows, shape.value_stride),
      largest_(kTaskRows, shape.value_stride) {}

void PrefixSums::start(std::span<const RowScores> scores) {
  partial_.clear();
  largest_.clear();
  rows_.clear();
  for (const RowScores& row : scores)
    rows_.push_back({.lse = row.lse,
                     .sink = row.sink,
                     .mass = row.keys > 0 ? std::exp(row.sink - row.lse) : 0});
}

void PrefixSums::add(const Matrix& scores, const Values& values, const KeyBlock& block,
                     const Tile& tile, const Matrix& outputs) {
  const int64_t stride = probabilities_.stride();
  for (int64_t r = 0; r < tile.count(); ++r) {
    const double *score = scores.row(r), lse = rows_[size_t(tile.first + r)].lse;
    double* shifted = probabilities_.row(r);
    for (int64_t key = 0; key < stride; ++key) shifted[key] = score[key] - lse;
  }
  kernels::exp(probabilities_.row(0), probabilities_.row(0), tile.count() * stride);
  for (int64_t key = 0, keys = 0; key < block.count(); key += keys) {
    keys = std::min(block.count() - key, kPrefixKeys - block.place(key) % kPrefixKeys);
    add_prefix(scores, values, key, keys, tile, outputs);
  }
}

void PrefixSums::add_prefix(const Matrix& scores, const Values& values, int64_t first_key,
                            int64_t keys, const Tile& tile, const Matrix& outputs) {
  const int64_t channels = partial_.stride();
  add_product(probabilities_.left(0, first_key), values.values.right(first_key),
              partial_.sum(tile.first),
              {.rows = padded_rows(tile.count()), .inner = keys, .columns = channels});
  for (int64_t r = 0; r < tile.count(); ++r) {
    Progress& row = rows_[size_t(tile.first + r)];
    const double *p = probabilities_.row(r), *score = scores.row(r);
    double maximum = kHidden;
    for (int64_t key = first_key; key < first_key + keys; ++key) {
      row.mass += p[key];
      maximum = std::max(maximum, score[key]);
    }
    row.maxima.push_back(maximum);
    const double *partial = partial_.row(tile.first + r), *output = outputs.row(tile.first + r);
    double* largest = largest_.row(tile.first + r);
    for (int64_t d = 0; d < channels; ++d)
      largest[d] = std::max(largest[d], std::fabs(partial[d] - output[d] * row.mass));
  }
}

double PrefixSums::rises(int64_t row) const {
  const Progress& progress = rows_[size_t(row)];
  const std::vector<double> backwards(progress.maxima.rbegin(), progress.maxima.rend());
  return std::max(count_rises(progress.maxima, progress.sink),
                  count_rises(backwards, progress.sink));
}

double count_rises(std::span<const double> maxima, double first) {
  double rises = 0, top = first;
  for (const double next : maxima) {
    if (!(next > top)) continue;
    if (top > kHidden) ++rises;
    top = next;
  }
  return rises;
}

}  // namespace attest::core::passes
