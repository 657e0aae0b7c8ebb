#include "core/operations/softmax/golden/row_expectation.hpp"

#include <cmath>

namespace attest::core {
namespace {

constexpr double kHidden = -std::numeric_limits<double>::infinity();
constexpr double kLinear = 0.25;  // an error of scores up to which sigma, linear in it, holds
constexpr double kFewSteps = 8;   // of half a subnormal step

// A key like another one, whose value is 0: only terms of o are left of it. Where rounded
// probabilities are not summed, its own is not rounded.
void add_sink(const RowScores& row, const SigmaModel& model, kernels::WeightSums& sum) {
  if (row.sink == kHidden) return;
  const double p2 = std::exp(2 * (row.sink - row.lse)), square = row.sink * row.sink;
  sum.e2 += p2 * (square * model.score_square() + model.theta * model.u_p * model.u_p / 3);
  sum.p2 += p2, sum.p2t += p2 * square, sum.a2 += model.u_p * model.u_p * p2;
}

double largest_finite_of(const double* x, int64_t count, double so_far) {
  for (int64_t n = 0; n < count; ++n)
    if (std::isfinite(x[n])) so_far = std::max(so_far, std::fabs(x[n]));
  return so_far;
}

double lse_sigma(const RowScores& row, const RowSums& sums, const kernels::WeightSums& weights,
                 const SigmaModel& model, double rounding, double coherent) {
  const double farthest = row.farthest();
  const bool one_score = row.largest - row.least <= 2 * model.u_s * farthest;
  const LseSums lse{
      .lse = row.lse,
      .rounding = rounding,
      .score = (model.u_s * model.u_s + model.growth()) *
                   (one_score ? std::max(farthest * farthest, weights.p2t) : weights.p2t) +
               weights.p2q,
      .square = model.squares() ? weights.px2 : 0,
      .mean_dot = sums.mean_dot,
      .common = sums.common,
      .rescales = std::sqrt(std::max(sums.rises, 1.0)),
      .coherent = coherent,
      .stalled = weights.small};
  return model.lse_sigma(lse, row.keys);
}

}  // namespace

void RowScores::close(double sum, double sink_logit) {
  lse = largest + std::log(sum);
  if (sink_logit == kHidden) return;
  sink = sink_logit;
  lse = top() + std::log(sum * std::exp(largest - top()) + std::exp(sink - top()));
}

kernels::WeightModel weight_model(const SigmaModel& model, const RowScores& row) {
  const SigmaModel::Quadratic qk = model.qk_quadratic();
  const double kappa = model.kappa(row.top(), row.lse);
  return {.lse = row.lse,
          .u_p = model.u_p,
          .eta_kappa = model.eta_p * kappa,
          .score2 = model.score_square(),
          .q0 = qk.q0,
          .q1 = qk.q1,
          .q2 = qk.q2,
          .a_share = model.theta / 3,
          .small = model.unsummed_below(kappa, row.keys),
          .squares = model.squares()};
}

void finish_row(const RowScores& row, const RowSums& sums, const SigmaModel& model, int64_t dim_v,
                int64_t r, const RowResults& results) {
  double *o = results.o ? results.o + r * dim_v : nullptr, *sigma = results.sigma + r * dim_v;
  if (row.keys == 0) {
    if (o) std::fill_n(o, dim_v, 0.0);
    std::fill_n(sigma, dim_v, model.element_sigma({}, 0));
    results.lse_sigma[r] = 0;
    if (results.reach) results.reach[r] = 0;
    return;
  }
  kernels::WeightSums weights = sums.weights;
  add_sink(row, model, weights);
  const double kappa = model.kappa(row.top(), row.lse), eta_kappa = model.eta_p * kappa,
               keys = double(row.keys);
  // Scores closer to one another than a probability's roundoff are one group, equal keys or not. So
  // are probabilities that are all of a few subnormal steps: they round the same way.
  const double largest_p = std::exp(row.largest - row.lse);
  const double together = row.largest - row.least <= model.u_p ? model.alike
                          : largest_p < kFewSteps * eta_kappa  ? model.few_steps
                                                               : 0;
  const bool flat = together > 0;
  const double flat_roundoff = together * (1 - model.theta) * (model.u_p + keys * eta_kappa);
  const double repeated = std::max(model.least_repeated, sums.repeated / (keys * keys));
  const double top = std::exp(row.top() - row.lse);  // of the sink too
  const double coherent =
      model.coherent_variance(weights.small, flat ? 1 : repeated, top, row.keys);
  const double all_alike = model.u_p + keys * eta_kappa,
               normaliser = flat ? all_alike * all_alike : weights.a2;
  double mean_o2 = 0;
  for (int64_t d = 0; d < dim_v; ++d)
    if (std::isfinite(sums.pv[d])) mean_o2 += sums.pv[d] * sums.pv[d] / double(dim_v);
  // Of a row whose scores err by more nothing is known but that it is an average.
  const double score_error = model.coarse_scores ? std::sqrt(model.qk_variance(weights.px2)) : 0;
  const bool unsure = score_error > kLinear;
  for (int64_t d = 0; d < dim_v; ++d) {
    const double value = sums.pv[d];
    // Where a2v2 was not summed apart, lone keys count by p2v2 (eta is nothing); groups are in a2v2
    // either way.
    const double rounding =
        model.theta > 0
            ? 0
            : sums.a2v2[d] + (needs_a2(model) ? 0 : model.u_p * model.u_p * sums.p2v2[d]);
    const double survives = sums.flushed[d],
                 goes = survives + sums.unsure[d];  // of keys that may be lost all, or none
    const ElementSums element{
        .o = value,
        .rounding = rounding + flat_roundoff * flat_roundoff * value * value,
        .score = sums.e2v2[d] - 2 * value * sums.e2v[d] + value * value * weights.e2,
        .p2v2 = sums.p2v2[d],
        .p2 = weights.p2,
        .flushed = std::max(std::fabs(survives), std::fabs(goes)),
        .unsure = sums.unsure2[d],
        .prefix = sums.prefix ? std::sqrt(std::max(sums.rises, 1.0)) * sums.prefix[d] : 0,
        .resummed = normaliser,
        .mean_o2 = mean_o2,
        .coherent = coherent,
        .stalled = weights.small,
        .kappa = kappa,
        .largest_v = sums.largest_v,
        .lse = row.lse,
        .reach = sums.reach[d]};
    if (o) o[d] = value;
    sigma[d] = model.element_sigma(element, row.keys);
    if (unsure) sigma[d] = std::hypot(sigma[d], model.any_average_of(sums.largest_v));
  }
  if (results.reach)
    results.reach[r] = largest_finite_of(sums.reach, dim_v, largest_finite_of(sums.pv, dim_v, 0));
  results.lse_sigma[r] = lse_sigma(row, sums, weights, model, normaliser, coherent);
  if (unsure) results.lse_sigma[r] = std::hypot(results.lse_sigma[r], 2 * score_error);
}

}  // namespace attest::core
