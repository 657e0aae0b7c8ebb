#include "core/operations/softmax/golden/row_expectation.hpp"

#include <cmath>

#include "core/operations/softmax/problem/geometry.hpp"
#include "core/operations/unsure.hpp"

namespace attest::core {
namespace {

// A sample of one key in so many decides whether a row is flat. It is small because every row of a
// float32 sum is examined.
constexpr uint32_t kFlatStep = 4 * kSampleStep;

// A sink is a key whose value is 0, so only terms of o are left of it. Its probability is rounded
// only where the normaliser sums rounded ones.
void add_sink(const RowScores& row, const SigmaModel& model, kernels::WeightSums& sum) {
  if (row.sink == kHidden) return;
  const double p2 = std::exp(2 * (row.sink - row.lse)), square = row.sink * row.sink;
  sum.e2 += p2 * (square * model.score_square() + model.theta * model.u_p * model.u_p / 3);
  sum.p2 += p2;
  sum.p2t += p2 * square;
  sum.a2 += model.u_p * model.u_p * p2;
}

double largest_finite_of(const double* x, int64_t count, double so_far) {
  for (int64_t n = 0; n < count; ++n)
    if (std::isfinite(x[n])) so_far = std::max(so_far, std::fabs(x[n]));
  return so_far;
}

// What the terms of all channels of a row, and of its lse, have in common.
struct SharedTerms {
  kernels::WeightSums weights;  // with the sink
  double kappa;
  double flat_roundoff;     // of probabilities that all round alike, as a share of o
  double of_equal_scores;   // the square of the roundoff of p whose scores are equal, likewise
  double normaliser;        // LseSums::rounding
  double leaning_variance;  // LseSums::leaning_variance
  double top;               // ElementSums::top
  double rest;              // ElementSums::rest
  double coherent;          // LseSums::coherent
  double mean_o2;           // over finite channels
  double moved;             // variance of all weights beside the sink, where all scores err alike
  double score_error;  // of scores that err by too much for a sigma that is linear in it, else 0
  bool bent;           // a softcap bends errors of scores that are too large for it
  bool any_average;    // nothing is known of the row but that it is an average
};

// What the keys weigh beside the sink.
double share_of_keys(const RowScores& row) {
  if (row.sink == kHidden) return 1;
  return std::max(1 - std::exp(row.sink - row.lse), std::exp(row.largest - row.lse));
}

// The variance of a score's own roundings: of the product, and of what is added to it.
double step_variance(const RowScores& row, const SigmaModel& model) {
  constexpr double kSteps = 2;
  return kSteps * model.u_s * model.u_s / 3 * row.largest * row.largest;
}

// The variance of the error of the scores that weigh.
double error_of_scores(const RowScores& row, const kernels::WeightSums& weights,
                       const SigmaModel& model) {
  const double square = weights.px2 / share_of_keys(row);
  double variance = model.qk_variance(model.squares() ? square : std::sqrt(square));
  if (model.few_codes || model.scores_spread) variance += step_variance(row, model);
  return variance;
}

// Its root, if it is so large that sigma is not linear in it, else 0.
double large_error(const RowScores& row, const RowSums& sums, double variance,
                   const SigmaModel& model) {
  if (!model.coarse_scores && !model.few_codes && !model.scores_spread &&
      model.small_operands == 0) {
    // Rows of top_k have sums.swapped for that.
    const bool far = !sums.swapped && scores_round_to_averages(row, model);
    return far ? std::sqrt(step_variance(row, model)) : 0;
  }
  double error = std::sqrt(variance);
  // So many equal weights may be added that a coarse sum stops growing.
  if (model.large_scores) error = std::max(error, model.u_acc * model.chain(row.keys));
  const bool strict = model.large_scores || model.scores_spread || model.small_operands > 0;
  return error > (strict ? SigmaModel::kLinearIfLarge : SigmaModel::kLinear) ? error : 0;
}

double mean_square(const double* o, int64_t channels) {
  double mean = 0;
  for (int64_t d = 0; d < channels; ++d)
    if (std::isfinite(o[d])) mean += o[d] * o[d] / double(channels);
  return mean;
}

// Scores closer to one another than a probability's roundoff are one group, equal keys or not.
// Inputs of few codes may have scores that are spread over a few roundoffs, by their distances
// alone: then the roundings of some of them are left.
double roundings_together(const RowScores& row, const SigmaModel& model) {
  constexpr double kFewRoundoffs = 8;
  const double apart = row.largest - row.least;
  if (apart <= model.u_p) return model.alike;
  return model.few_codes && apart <= kFewRoundoffs * model.u_p ? model.u_p / apart : 0;
}

// How many more keys than one have the same score in the mean, because scores are rounded: a bias
// may bring all of them far from 0, where their dtype has few numbers.
double alike_beside_one(const RowScores& row, const SigmaModel& model) {
  const double apart = row.largest - row.least,
               nearest = row.largest * row.least <= 0
                             ? 0
                             : std::min(std::fabs(row.largest), std::fabs(row.least));
  if (model.u_s == 0 || nearest == 0 || !std::isfinite(nearest)) return 0;
  const double scores = 1 + apart / ulp_of(model.u_s, nearest);
  return model.alike * model.alike * std::max(double(row.keys) / scores - 1, 0.0);
}

// The ulps of sums, without chances.
AlikeAddends ulps_of_sums(const RowScores& row, const SigmaModel& model) {
  // Before it is divided, the largest weight is 1.
  const double sum = std::max(std::exp(row.lse - row.top()), 1.0), length = model.chain(row.keys);
  AlikeAddends sums{.whole = {.ulp = ulp_of(model.u_acc, sum) / sum}};
  if (length == double(row.keys)) return sums;
  if (!are_coarse(model.u_acc)) sums.block.ulp = ulp_of(model.u_acc, 1) / sum;
  if (sum > 1) sums.part.ulp = ulp_of(model.u_acc, (sum - 1) * length / double(row.keys)) / sum;
  return sums;
}

SharedTerms shared_terms(const RowScores& row, const RowSums& sums, const SigmaModel& model,
                         int64_t dim_v) {
  SharedTerms terms{.weights = sums.weights, .kappa = model.kappa(row.top(), row.lse)};
  add_sink(row, model, terms.weights);
  const double eta_kappa = model.eta_p * terms.kappa, keys = double(row.keys);
  const double together = roundings_together(row, model);
  const bool flat = together > 0;
  const double all_alike = model.u_p + keys * eta_kappa;
  // Where the normaliser sums the rounded probabilities, only the sink's part of it errs otherwise.
  const double apart = 1 - model.theta * share_of_keys(row);
  terms.flat_roundoff = together * apart * all_alike;
  // Equal scores have equal p, which round alike. At most all of them do.
  const double a2 = terms.weights.a2, more = std::min(flat ? 0 : alike_beside_one(row, model) * a2,
                                                      std::max(all_alike * all_alike - a2, 0.0));
  terms.of_equal_scores = more * apart * apart;
  terms.normaliser = flat ? all_alike * all_alike : a2 + more;
  terms.leaning_variance = model.leaning_of_normaliser(sums.leaning_normaliser, terms.normaliser);
  const AlikeAddends alike =
      model.sums_may_round_alike(row.keys) ? sums.phases.addends(row, model) : AlikeAddends{};
  // Scores are dealt out by chance, so two neighbours are equal as often as any two keys.
  const double repeated =
      std::max({model.least_repeated, sums.repeated / (keys * keys), sums.equal_neighbours / keys});
  terms.top = std::exp(row.top() - row.lse);  // of the sink too
  terms.rest = model.rest(terms.weights.small, terms.top, row.keys);
  terms.coherent = model.coherent_variance(flat ? 1 : repeated, alike, terms.top, row.keys);
  terms.mean_o2 = mean_square(sums.pv, dim_v);
  const double variance = error_of_scores(row, terms.weights, model);
  // Keys of few codes have nearly equal scores, whose errors are one; without a sink it cancels.
  const double of_sink = row.sink == kHidden ? 0 : std::exp(row.sink - row.lse);
  terms.moved = model.few_codes ? of_sink * of_sink * variance : 0;
  terms.score_error = large_error(row, sums, variance, model);
  // A softcap bends large errors of scores; of equal keys they are not independent.
  terms.bent = model.few_codes && model.coarse_scores && model.softcap > 0;
  terms.any_average =
      terms.score_error > 0 || terms.bent || sums.too_large > SigmaModel::kWeightless;
  return terms;
}

// The largest |sum of p v| over neighbours among the lost keys, without what signs give by chance.
double lost_by_runs(const RowSums& sums, int64_t d) {
  // A random walk seldom spans more than that, in units of the root of the sum of its squares.
  constexpr double kByChance = 3;
  const double run = std::max(sums.flushed_most[d], sums.flushed[d]) -
                     std::min(sums.flushed_least[d], sums.flushed[d]);
  return std::sqrt(std::max(run * run - kByChance * kByChance * sums.unsure2[d], 0.0));
}

// ElementSums::score. Bent errors of scores bring o no further than to another average.
double score_variance(const RowSums& sums, const SharedTerms& terms, const SigmaModel& model,
                      int64_t d) {
  const double o = sums.pv[d], most = model.any_average_of(sums.largest_v),
               score =
                   sums.e2v2[d] - 2 * o * sums.e2v[d] + o * o * (terms.weights.e2 + terms.moved);
  return model.coarse_scores && terms.any_average && most > 0 ? std::min(score, most * most)
                                                              : score;
}

ElementSums element_sums(const RowScores& row, const RowSums& sums, const SharedTerms& terms,
                         const SigmaModel& model, int64_t d) {
  const double o = sums.pv[d];
  // Where a2v2 was not summed apart, lone keys count by p2v2 (eta is nothing); groups are in a2v2
  // either way.
  const double rounding =
      model.theta > 0 ? 0
                      : sums.a2v2[d] + (needs_a2(model) ? 0 : model.u_p * model.u_p * sums.p2v2[d]);
  // Of keys that may be lost, none is or all are.
  const double least_lost = sums.flushed[d], most_lost = least_lost + sums.unsure[d];
  return {.o = o,
          .rounding = rounding +
                      (terms.flat_roundoff * terms.flat_roundoff + terms.of_equal_scores) * o * o,
          .score = score_variance(sums, terms, model, d),
          .shared_scores = sums.shared_scores ? sums.shared_scores[d] : 0,
          .shared_values = sums.shared_values ? sums.shared_values[d] : 0,
          .p2v2 = sums.p2v2[d],
          .p2 = terms.weights.p2,
          .flushed = std::max({std::fabs(least_lost), std::fabs(most_lost),
                               model.flushed_run * lost_by_runs(sums, d)}),
          .unsure = sums.unsure2[d],
          .prefix = sums.prefix ? std::sqrt(std::max(sums.rises, 1.0)) * sums.prefix[d] : 0,
          .resummed = terms.normaliser + terms.leaning_variance,
          .mean_o2 = terms.mean_o2,
          .coherent = terms.coherent,
          .alike_products = sums.alike_products ? sums.alike_products[d] : 0,
          .leaning = sums.leaning ? sums.leaning[d] : 0,
          .lost = model.lost_of_rest(terms.weights.small, terms.rest),
          .stalled = terms.weights.small,
          .rest = terms.rest,
          .top = terms.top,
          .at_cap = sums.at_cap,
          .kappa = terms.kappa,
          .largest_v = sums.largest_v,
          .lse = row.lse,
          .reach = sums.reach[d]};
}

LseSums lse_sums(const RowScores& row, const RowSums& sums, const SharedTerms& terms,
                 const SigmaModel& model) {
  const kernels::WeightSums& weights = terms.weights;
  const double farthest = row.farthest();
  const bool one_score = row.largest - row.least <= 2 * model.u_s * farthest;
  return {.lse = row.lse,
          .rounding = terms.normaliser,
          .leaning_variance = terms.leaning_variance,
          .score = (model.u_s * model.u_s + model.growth()) *
                       (one_score ? std::max(farthest * farthest, weights.p2t) : weights.p2t) +
                   weights.p2q,
          .square = model.squares() ? weights.px2 + sums.common_dot * sums.common_dot : 0,
          .mean_dot = sums.mean_dot,
          .common = sums.common,
          .rescales = std::sqrt(std::max(sums.rises, 1.0)),
          .coherent = terms.coherent,
          .lost = model.lost_of_lse(weights.small, terms.rest),
          .stalled = weights.small,
          .at_cap = sums.at_cap,
          .sizes = sums.sizes};
}

// A row that sees no key is 0.
void write_empty_row(const SigmaModel& model, int64_t dim_v, int64_t r, const RowResults& results) {
  if (results.o) std::fill_n(results.o + r * dim_v, dim_v, 0.0);
  std::fill_n(results.sigma + r * dim_v, dim_v, model.element_sigma({}, 0));
  results.lse_sigma[r] = 0;
  if (results.reach) results.reach[r] = 0;
}

}  // namespace

void RowScores::close(double sum, double sink_logit) {
  lse = largest + std::log(sum);
  if (sink_logit == kHidden) return;
  sink = sink_logit;
  lse = top() + std::log(sum * std::exp(largest - top()) + std::exp(sink - top()));
}

bool scores_round_to_averages(const RowScores& row, const SigmaModel& model) {
  return std::sqrt(step_variance(row, model)) > SigmaModel::kLinear;
}

// What is lost in the sum rounds alike as well, but counts as lost.
void AlikePhases::add(const RowScores& row, const SigmaModel& model, const double* p,
                      int64_t count) {
  if (row.keys < 2) return;
  const AlikeAddends sums = ulps_of_sums(row, model);
  const double least = model.unsummed_below(row.top(), row.lse, row.keys);
  const bool is_coarse = are_coarse(model.u_acc);  // of finer sums a sample of the keys is enough
  for (int64_t key = 0; key < count; ++key) {
    if (!is_coarse && !is_sampled(keys_ + uint32_t(key))) continue;
    if (!(p[key] >= least)) continue;
    whole_.add(p[key] / sums.whole.ulp);
    if (!is_coarse && is_sampled(keys_ + uint32_t(key), kFlatStep))
      coarser_.add(p[key] / (kCoarser * sums.whole.ulp));
    if (sums.part.ulp > 0) part_.add(p[key] / sums.part.ulp);
    if (sums.block.ulp > 0) block_.add(p[key] / sums.block.ulp);
  }
  keys_ += uint32_t(count);
}

AlikeAddends AlikePhases::addends(const RowScores& row, const SigmaModel& model) const {
  AlikeAddends sums = ulps_of_sums(row, model);
  const bool is_coarse = are_coarse(model.u_acc);
  const double keys = double(row.keys) / (is_coarse ? 1 : kSampleStep);
  const auto chance = [&](const Phases& phases) {
    const double alike = phases.alike(keys);
    return is_coarse || alike * keys > kAlikeByChance ? alike : 0;
  };
  sums.whole.chance = chance(whole_);
  sums.part.chance = chance(part_);
  sums.block.chance = chance(block_);
  return sums;
}

bool AlikePhases::is_flat(const RowScores& row, const SigmaModel& model) const {
  if (are_coarse(model.u_acc) || !model.sums_may_round_alike(row.keys)) return false;
  const double keys = double(row.keys) / kFlatStep;
  return coarser_.alike(keys) * keys > kAlikeByChance;
}

kernels::WeightModel weight_model(const SigmaModel& model, const RowScores& row) {
  const SigmaModel::Quadratic qk = model.qk_quadratic();
  const double kappa = model.kappa(row.top(), row.lse);
  return {.lse = row.lse,
          .u_p = model.u_p,
          .eta_kappa = model.eta_p * kappa,
          .score2 = model.score_square(),
          .q0 = qk.q0 + model.lead_variance(row.sink_lead()),
          .q1 = qk.q1,
          .q2 = qk.q2,
          .a_share = model.theta / 3,
          .small = model.unsummed_below(row.top(), row.lse, row.keys),
          .squares = model.squares()};
}

void finish_row(const RowScores& row, const RowSums& sums, const SigmaModel& model, int64_t dim_v,
                int64_t r, const RowResults& results) {
  if (row.keys == 0) return write_empty_row(model, dim_v, r, results);
  const SharedTerms terms = shared_terms(row, sums, model, dim_v);
  if (results.o) std::copy_n(sums.pv, dim_v, results.o + r * dim_v);
  double *sigma = results.sigma + r * dim_v, &lse_sigma = results.lse_sigma[r];
  for (int64_t d = 0; d < dim_v; ++d)
    sigma[d] = model.element_sigma(element_sums(row, sums, terms, model, d), row.keys);
  lse_sigma = model.lse_sigma(lse_sums(row, sums, terms, model), row.keys);
  if (terms.any_average)
    for (int64_t d = 0; d < dim_v; ++d)
      sigma[d] = std::hypot(sigma[d], model.any_average_of(sums.largest_v));
  if (terms.bent) lse_sigma = std::hypot(lse_sigma, 2 * model.softcap / SigmaModel::kGate);
  if (terms.score_error > 0) lse_sigma = std::hypot(lse_sigma, 2 * terms.score_error);
  lse_sigma = std::hypot(lse_sigma, sums.rise);
  for (int64_t d = 0; sums.swapped && model.swapped > 0 && d < dim_v; ++d)
    sigma[d] = std::isinf(sums.swapped[d])
                   ? kUnsure
                   : std::hypot(sigma[d], model.swapped * std::sqrt(sums.swapped[d]));
  lse_sigma = std::hypot(lse_sigma, model.swapped * sums.swapped_lse);
  // Before they are divided, products of p and v may sum to more than the accumulator holds.
  for (int64_t d = 0; d < dim_v; ++d)
    if (std::isfinite(sums.reach[d]) && sums.reach[d] > model.largest_sum * terms.kappa)
      sigma[d] = kUnsure;
  if (results.reach)
    results.reach[r] = largest_finite_of(sums.reach, dim_v, largest_finite_of(sums.pv, dim_v, 0));
}

}  // namespace attest::core
