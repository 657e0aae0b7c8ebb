#include "core/operations/softmax/golden/passes/tile_weights.hpp"

#include <cmath>

#include "core/operations/softmax/problem/geometry.hpp"

namespace attest::core::passes {

TileWeights::TileWeights(const BlockShape& shape)
    : probabilities(kTileRows, shape.key_stride),
      probability_squares(kTileRows, shape.key_stride),
      rounding_squares(kTileRows, shape.key_stride),
      error_squares(kTileRows, shape.key_stride),
      lost(kTileRows, shape.key_stride),
      lost_squares(kTileRows, shape.key_stride),
      unsure(kTileRows, shape.key_stride),
      unsure_squares(kTileRows, shape.key_stride) {}

kernels::WeightSums TileWeights::find(const TileScores& from, int64_t r,
                                      const kernels::WeightModel& model, int64_t keys) {
  return kernels::weights({.scores = from.scores.row(r),
                           .staged_squares = from.staged() ? from.staged_squares.row(r) : nullptr,
                           .magnitudes = from.magnitudes.row(r)},
                          model, keys,
                          {.probabilities = probabilities.row(r),
                           .probability_squares = probability_squares.row(r),
                           .rounding_squares = rounding_squares.row(r),
                           .error_squares = error_squares.row(r)});
}

TileWeights::Bent TileWeights::bend_errors(const TileScores& scores, int64_t r, double lse,
                                           const SigmaModel& model, int64_t keys) {
  const double *p = probabilities.row(r), *score = scores.scores.row(r),
               *magnitude = scores.magnitudes.row(r),
               *staged = scores.staged() ? scores.staged_squares.row(r) : nullptr;
  double* square = error_squares.row(r);
  Bent bent;
  for (int64_t key = 0; key < keys; ++key) {
    if (score[key] == kHidden) continue;
    const double error = std::sqrt(
        model.score_variance(staged ? staged[key] : score[key] * score[key], magnitude[key]));
    if (!(error > SigmaModel::kLinear)) continue;
    const double weight = score[key] - lse, linear = p[key] * error,
                 of_p = std::max(model.bent_error(weight, error), linear),
                 more = of_p * of_p - linear * linear;
    bent.more += more;
    square[key] += more;
    const double rise = model.bent_rise(weight, error);
    bent.rise = std::max(bent.rise, std::sqrt(std::max(rise * rise - linear * linear, 0.0)));
  }
  return bent;
}

void TileWeights::find_lost(int64_t r, const SigmaModel::Flushing& flushing, int64_t keys) {
  const double* probability = probabilities.row(r);
  double *lost_p = lost.row(r), *lost_square = lost_squares.row(r), *unsure_p = unsure.row(r),
         *unsure_square = unsure_squares.row(r);
  for (int64_t key = 0; key < keys; ++key) {
    const double p = probability[key];
    lost_p[key] = flushing.lost(p);
    unsure_p[key] = p >= flushing.gone && p < flushing.kept ? p : 0;
    lost_square[key] = flushing.apart * lost_p[key] * lost_p[key];
    unsure_square[key] = unsure_p[key] * unsure_p[key];
    any_lost |= lost_p[key] > 0;
    any_apart |= lost_square[key] > 0;
    any_unsure |= unsure_p[key] > 0;
  }
}

void add_common(const TileScores& scores, const TileWeights& weights, int64_t r, int64_t keys,
                double& sum) {
  const double *p = weights.probabilities.row(r), *lesser_size = scores.lesser_sizes.row(r);
  double total = sum;
  for (int64_t key = 0; key < keys; ++key) total += p[key] * lesser_size[key];
  sum = total;
}

void add_at_cap(const TileScores& scores, const TileWeights& weights, int64_t r, int64_t keys,
                double& sum) {
  const double *p = weights.probabilities.row(r), *at_cap = scores.at_caps.row(r);
  for (int64_t key = 0; key < keys; ++key) sum += p[key] * at_cap[key];
}

void add_mean_dot(const TileScores& scores, const TileWeights& weights, int64_t r, int64_t keys,
                  double& sum) {
  const double *p = weights.probabilities.row(r), *score = scores.scores.row(r);
  const double* dot = scores.staged() ? scores.sloped_dots.row(r) : score;
  double total = sum;
  for (int64_t key = 0; key < keys; ++key)
    if (score[key] != kHidden) total += p[key] * std::fabs(dot[key]);
  sum = total;
}

void add_equal_neighbours(const TileScores& scores, int64_t r, int64_t keys, double& sum) {
  double before = kHidden;
  for (const double score : std::span(scores.scores.row(r), size_t(keys))) {
    if (score == kHidden) continue;
    sum += score == before;
    before = score;
  }
}

void add_sizes(const TileScores& scores, const TileWeights& weights, int64_t r, int64_t keys,
               double& sum) {
  const double *p = weights.probabilities.row(r), *score = scores.scores.row(r);
  const double* staged_square = scores.staged() ? scores.staged_squares.row(r) : nullptr;
  double total = sum;
  for (int64_t key = 0; key < keys; ++key)
    if (score[key] != kHidden)
      total += p[key] * (staged_square ? std::sqrt(staged_square[key]) : std::fabs(score[key]));
  sum = total;
}

}  // namespace attest::core::passes
