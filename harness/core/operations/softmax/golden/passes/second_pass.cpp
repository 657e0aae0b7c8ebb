#include "core/operations/softmax/golden/passes/second_pass.hpp"

#include <algorithm>

#include "core/operations/softmax/problem/geometry.hpp"

namespace attest::core::passes {
namespace {

// Lost probabilities are not summed apart where those of a block add up to less than this share of
// the accumulator's roundoff, unless the arithmetic flushes.
constexpr double kNegligible = 1e-3;

SigmaModel::Flushing flushing_of(const RowScores& row, const SigmaModel& model) {
  return model.flushing(model.kappa(row.top(), row.lse), row.keys);
}

}  // namespace

SecondPass::SecondPass(const Geometry& geometry, const BlockShape& shape)
    : geometry_(geometry), weights_(shape), sums_(shape), equal_sums_(shape.head_dim_v, sums_) {}

void SecondPass::start(int64_t rows, bool has_groups) {
  sums_.clear(rows);
  grouped_rows_ = has_groups ? rows : 0;
  equal_sums_.start(grouped_rows_);
}

void SecondPass::finish(const SigmaModel& model) {
  for (int64_t row = 0; row < grouped_rows_; ++row) equal_sums_.finish(row, model);
}

void SecondPass::add(const TileScores& scores, const Values& values, const KeyBlock& block,
                     const Tile& tile, std::span<const RowScores> task_rows,
                     const SigmaModel& model) {
  bool may_lose = model.flush_below > 0;
  for (int64_t r = 0; r < tile.count(); ++r) {
    const auto row = size_t(tile.first + r);
    kernels::WeightSums found =
        weights_.find(scores, r, weight_model(model, task_rows[row]), block.count());
    if (model.coarse_scores) {
      const TileWeights::Bent bent =
          weights_.bend_errors(scores, r, task_rows[row].lse, model, block.count());
      found.e2 += bent.more;
      sums_.scalars[row].rise = std::max(sums_.scalars[row].rise, bent.rise);
    }
    may_lose |= found.small > kNegligible * model.u_acc;
    add_scalars(scores, block, r, found, model, sums_.scalars[row]);
    if (model.sums_may_round_alike(task_rows[row].keys))
      sums_.scalars[row].phases.add(task_rows[row], model, weights_.probabilities.row(r),
                                    block.count());
    if (block.grouped()) add_equal_keys(scores, values, block, tile, r, task_rows[row], model);
  }
  sums_.add_probabilities(weights_, values, block, tile);
  if (!block.grouped()) sums_.add_errors(weights_, values, block, tile, needs_a2(model));
  sums_.add_non_finite(scores, weights_, values, tile);
  if (may_lose) add_lost(values, block, tile, task_rows, model);
  if (values.largest > model.largest_v)
    sums_.add_too_large(weights_, values, block, tile, model.largest_v);
}

// The sums of squares over equal keys are those of EqualKeySums.
void SecondPass::add_scalars(const TileScores& scores, const KeyBlock& block, int64_t r,
                             const kernels::WeightSums& found, const SigmaModel& model,
                             KeySums::Scalars& to) const {
  if (geometry_.common_addends() && model.has_common_addends())
    add_common(scores, weights_, r, block.count(), to.common);
  if (model.cap_error > 0) add_at_cap(scores, weights_, r, block.count(), to.at_cap);
  if (model.scale_bias > 0) add_mean_dot(scores, weights_, r, block.count(), to.mean_dot);
  if (model.few_scores > 0) add_sizes(scores, weights_, r, block.count(), to.sizes);
  if (model.scores_repeat) add_equal_neighbours(scores, r, block.count(), to.equal_neighbours);
  to.weights.px2 += found.px2;
  to.weights.small += found.small;
  if (block.grouped()) return;
  to.weights.p2 += found.p2;
  to.weights.a2 += found.a2;
  to.weights.e2 += found.e2;
  to.weights.p2t += found.p2t;
  to.weights.p2q += found.p2q;
}

void SecondPass::add_equal_keys(const TileScores& scores, const Values& values,
                                const KeyBlock& block, const Tile& tile, int64_t r,
                                const RowScores& row, const SigmaModel& model) {
  const SigmaModel::Flushing flushing = flushing_of(row, model);
  const double lead_variance = model.lead_variance(row.sink_lead());
  const bool staged = scores.staged();
  for (int64_t key = 0; key < block.count(); ++key) {
    const double score = scores.scores.row(r)[key];
    if (score == kHidden) continue;
    equal_sums_.add(tile.first + r,
                    {.group = block.group(key),
                     .score = score,
                     .p = weights_.probabilities.row(r)[key],
                     .rounding_square = weights_.rounding_squares.row(r)[key],
                     .magnitude = scores.magnitudes.row(r)[key],
                     .staged_square = staged ? scores.staged_squares.row(r)[key] : score * score,
                     .added_square = staged ? scores.added_squares.row(r)[key] : 0,
                     .lead_variance = lead_variance,
                     .value = values.values.row(key)},
                    model, flushing);
  }
}

void SecondPass::add_lost(const Values& values, const KeyBlock& block, const Tile& tile,
                          std::span<const RowScores> task_rows, const SigmaModel& model) {
  weights_.clear_lost();
  for (int64_t r = 0; r < tile.count(); ++r) {
    SigmaModel::Flushing flushing = flushing_of(task_rows[size_t(tile.first + r)], model);
    // Only the part of the keys that the sink joins may lose what is small beside it.
    if (model.few_codes && geometry_.has_sinks()) flushing.apart = std::max(flushing.apart, 1.0);
    weights_.find_lost(r, flushing, block.count());
  }
  sums_.add_lost(weights_, values, block, tile);
}

}  // namespace attest::core::passes
