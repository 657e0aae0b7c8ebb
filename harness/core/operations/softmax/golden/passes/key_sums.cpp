#include "core/operations/softmax/golden/passes/key_sums.hpp"

#include <algorithm>
#include <cmath>

#include "core/operations/softmax/problem/geometry.hpp"

namespace attest::core::passes {
namespace {

// Keys from `key` on that are added before the partial sums are looked at: up to the next multiple
// of kReachKeys, so that what is seen does not depend on where a task or a block begins.
int64_t keys_until_look(const KeyBlock& block, int64_t key) {
  const int64_t wanted =
      block.contiguous() ? kReachKeys - block.place(key) % kReachKeys : kReachKeys;
  return std::min(block.count() - key, wanted);
}

// Whether the partial sums are looked at after the first `keys` keys of the block; where it ends
// between two multiples of kReachKeys, the next block goes on.
bool looks_after(const KeyBlock& block, int64_t keys) {
  const int64_t last = block.place(keys - 1);
  return !block.contiguous() || (last + 1) % kReachKeys == 0 || !block.more_behind(keys);
}

/// sums += weights values, as add_weighted does. `look` gets the partial sums wherever they are
/// looked at: a pointer to [padded_rows(tile.count()), value_stride], and their number.
template <class Look>
void add_and_look(const Matrix& weights, const Matrix& values, const KeyBlock& block,
                  const Tile& tile, Matrix& sums, const Look& look) {
  const int64_t rows = padded_rows(tile.count()), channels = sums.stride();
  for (int64_t key = 0, keys = 0; key < block.count(); key += keys) {
    keys = keys_until_look(block, key);
    add_product(weights.left(0, key), values.right(key), sums.sum(tile.first),
                {.rows = rows, .inner = keys, .columns = channels});
    if (looks_after(block, key + keys)) look(sums.row(tile.first), rows * channels);
  }
}

}  // namespace

void add_weighted(const Matrix& weights, const Matrix& values, int64_t keys, const Tile& tile,
                  Matrix& sums) {
  add_product(weights.left(0), values.right(0), sums.sum(tile.first),
              {.rows = padded_rows(tile.count()), .inner = keys, .columns = values.stride()});
}

KeySums::KeySums(const BlockShape& shape)
    : pv(kTaskRows, shape.value_stride),
      reach(kTaskRows, shape.value_stride),
      p2v2(kTaskRows, shape.value_stride),
      a2v2(kTaskRows, shape.value_stride),
      e2v(kTaskRows, shape.value_stride),
      e2v2(kTaskRows, shape.value_stride),
      flushed(kTaskRows, shape.value_stride),
      flushed_most(kTaskRows, shape.value_stride),
      flushed_least(kTaskRows, shape.value_stride),
      unsure(kTaskRows, shape.value_stride),
      unsure2(kTaskRows, shape.value_stride),
      scalars(size_t(kTaskRows)) {}

void KeySums::clear(int64_t rows) {
  for (Matrix* sums : {&pv, &reach, &p2v2, &a2v2, &e2v, &e2v2, &flushed, &flushed_most,
                       &flushed_least, &unsure, &unsure2})
    sums->clear(rows);
  std::fill_n(scalars.begin(), rows, Scalars{});
}

void KeySums::add_probabilities(const TileWeights& weights, const Values& values,
                                const KeyBlock& block, const Tile& tile) {
  double* largest = reach.row(tile.first);
  add_and_look(weights.probabilities, values.values, block, tile, pv,
               [largest](const double* partial, int64_t count) {
                 for (int64_t n = 0; n < count; ++n)
                   largest[n] = std::max(largest[n], std::fabs(partial[n]));
               });
  add_weighted(weights.probability_squares, values.squares, block.count(), tile, p2v2);
}

void KeySums::add_non_finite(const TileScores& scores, const TileWeights& weights,
                             const Values& values, const Tile& tile) {
  for (const Values::NonFinite& at : values.non_finite)
    for (int64_t r = 0; r < tile.count(); ++r)
      if (scores.scores.row(r)[at.key] != kHidden)
        pv.row(tile.first + r)[at.channel] += weights.probabilities.row(r)[at.key] * at.value;
}

void KeySums::add_errors(const TileWeights& weights, const Values& values, const KeyBlock& block,
                         const Tile& tile, bool own_a2v2) {
  add_weighted(weights.error_squares, values.values, block.count(), tile, e2v);
  add_weighted(weights.error_squares, values.squares, block.count(), tile, e2v2);
  if (own_a2v2) add_weighted(weights.rounding_squares, values.squares, block.count(), tile, a2v2);
}

// Equal keys that may be lost are lost together: EqualKeySums has their unsure2. Those of several
// parts of the keys are not.
void KeySums::add_lost(const TileWeights& weights, const Values& values, const KeyBlock& block,
                       const Tile& tile) {
  const int64_t keys = block.count();
  if (weights.any_unsure) add_weighted(weights.unsure, values.values, keys, tile, unsure);
  if (weights.any_unsure && !block.grouped())
    add_weighted(weights.unsure_squares, values.squares, keys, tile, unsure2);
  if (weights.any_lost) {
    double *most = flushed_most.row(tile.first), *least = flushed_least.row(tile.first);
    add_and_look(weights.lost, values.values, block, tile, flushed,
                 [most, least](const double* partial, int64_t count) {
                   for (int64_t n = 0; n < count; ++n) {
                     most[n] = std::max(most[n], partial[n]);
                     least[n] = std::min(least[n], partial[n]);
                   }
                 });
  }
  if (weights.any_apart) add_weighted(weights.lost_squares, values.squares, keys, tile, unsure2);
}

void KeySums::add_too_large(const TileWeights& weights, const Values& values, const KeyBlock& block,
                            const Tile& tile, double largest) {
  for (int64_t key = 0; key < block.count(); ++key) {
    const double* value = values.values.row(key);
    if (std::none_of(value, value + values.values.stride(),
                     [largest](double x) { return std::fabs(x) > largest; }))
      continue;
    for (int64_t r = 0; r < tile.count(); ++r)
      scalars[size_t(tile.first + r)].too_large += weights.probabilities.row(r)[key];
  }
}

RowSums KeySums::row(int64_t row) const {
  const Scalars& of_row = scalars[size_t(row)];
  return {.pv = pv.row(row),
          .reach = reach.row(row),
          .p2v2 = p2v2.row(row),
          .a2v2 = a2v2.row(row),
          .e2v = e2v.row(row),
          .e2v2 = e2v2.row(row),
          .flushed = flushed.row(row),
          .flushed_most = flushed_most.row(row),
          .flushed_least = flushed_least.row(row),
          .unsure = unsure.row(row),
          .unsure2 = unsure2.row(row),
          .weights = of_row.weights,
          .repeated = of_row.repeated,
          .phases = of_row.phases,
          .equal_neighbours = of_row.equal_neighbours,
          .common = of_row.common,
          .at_cap = of_row.at_cap,
          .mean_dot = of_row.mean_dot,
          .sizes = of_row.sizes,
          .rise = of_row.rise,
          .too_large = of_row.too_large};
}

}  // namespace attest::core::passes
