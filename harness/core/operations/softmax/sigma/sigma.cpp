#include "core/operations/softmax/sigma/sigma.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/operations/softmax/sigma/folded_scale.hpp"

namespace attest::core {
namespace {

constexpr double kUnit = 0x1p-24, kSmallestNormal = 0x1p-126;  // float32
// Which p are flushed is known but for those at the edge, whose own errors decide: their rounding,
// and that of scores, of 8 say.
constexpr double kNearlyFlushed = 0.02, kUsualScore = 8;
constexpr double kCoarse = 0x1p-5;     // roundoff of operands of 8 bits, at least
constexpr double kNothing = 0x1p-100;  // p below it are nothing, whatever becomes of them
constexpr double kMuchLost = 0.25;     // of a sum: sigma is not linear in more

double factor(SigmaTerm term) { return ScopedTermFactor<SigmaTerm>::of(term); }

// Roundoff of an operand that comes in `from` and is rounded to `to`; 0 where that changes nothing.
double extra_roundoff(DType from, DType to) {
  return unit_roundoff(to) > unit_roundoff(from) ? unit_roundoff(to) : 0;
}

}  // namespace

SigmaModel::SigmaModel(const SoftmaxArithmetic& arithmetic, DType storage, int64_t dim)
    : u_out(factor(SigmaTerm::kOutput) * unit_roundoff(arithmetic.output)),
      eta_out(factor(SigmaTerm::kOutputSubnormal) * half_subnormal(arithmetic.output)),
      u_p(factor(SigmaTerm::kProbability) *
              (unit_roundoff(arithmetic.probability) +
               extra_roundoff(arithmetic.probability, arithmetic.pv)) +
          factor(SigmaTerm::kExp) * arithmetic.exp_error),
      eta_p(half_subnormal(arithmetic.probability)),
      flush_below(0),
      flush_apart(kNearlyFlushed +
                  std::max(unit_roundoff(arithmetic.probability), unit_roundoff(arithmetic.pv)) +
                  kUsualScore * unit_roundoff(arithmetic.score)),
      flushed_apart(arithmetic.has(ATTEST_FLUSHES_SUBNORMALS)
                        ? std::pow(factor(SigmaTerm::kFlushedApart), 2)
                        : 0),
      flushed_run(arithmetic.has(ATTEST_FLUSHES_SUBNORMALS) ? factor(SigmaTerm::kFlushedRun) : 0),
      u_v(factor(SigmaTerm::kValues) * extra_roundoff(storage, arithmetic.pv)),
      eta_v(half_subnormal(arithmetic.pv) > half_subnormal(storage)
                ? factor(SigmaTerm::kSmallValues) * half_subnormal(arithmetic.pv)
                : 0),
      largest_v(largest_finite(arithmetic.pv)),
      largest_sum(largest_finite(arithmetic.accumulator)),
      eta_acc(factor(SigmaTerm::kSmallSums) * (arithmetic.has(ATTEST_FLUSHES_SUBNORMALS)
                                                   ? smallest_normal(arithmetic.accumulator)
                                                   : half_subnormal(arithmetic.accumulator))),
      sums_from(arithmetic.has(ATTEST_FLUSHES_SUBNORMALS) ? smallest_normal(arithmetic.accumulator)
                                                          : 0),
      u_s(factor(SigmaTerm::kScore) * unit_roundoff(arithmetic.score)),
      u_acc(factor(SigmaTerm::kAccumulator) * unit_roundoff(arithmetic.accumulator)),
      u_qk(factor(SigmaTerm::kOperands) * extra_roundoff(ATTEST_F32, arithmetic.qk)),
      least_operand(factor(SigmaTerm::kSmallOperands) * (arithmetic.has(ATTEST_FLUSHES_SUBNORMALS)
                                                             ? smallest_normal(arithmetic.qk)
                                                             : half_subnormal(arithmetic.qk))),
      qk(arithmetic.qk),
      pv(arithmetic.pv),
      probability(arithmetic.probability),
      coarse_scores(unit_roundoff(arithmetic.qk) >= kCoarse),
      coarse_probabilities(
          std::max(unit_roundoff(arithmetic.probability), unit_roundoff(arithmetic.pv)) >= kCoarse),
      u_dot(factor(SigmaTerm::kDotProduct) * kUnit),
      u_lse(arithmetic.has(ATTEST_WEIGHS_BY_LSE) ? factor(SigmaTerm::kWeighsByLse) * kUnit : 0),
      u_lead(factor(SigmaTerm::kSinkLead) *
             (arithmetic.probability == ATTEST_F64 ? unit_roundoff(ATTEST_F64) : kUnit)),
      scale_bias(0),
      normaliser(arithmetic.has(ATTEST_SUMS_ROUNDED_P) ? factor(SigmaTerm::kNormaliser) : 0),
      cut_sum(arithmetic.has(ATTEST_SUMS_ROUNDED_P) && arithmetic.has(ATTEST_P_TRUNCATED)
                  ? factor(SigmaTerm::kCutSum) * unit_roundoff(arithmetic.probability)
                  : 0),
      grown(factor(SigmaTerm::kDotGrowth)),
      own_order(factor(SigmaTerm::kOwnOrder)),
      query(factor(SigmaTerm::kQuery)),
      shared(factor(SigmaTerm::kSharedRoundings)),
      reach(factor(SigmaTerm::kReach)),
      alike(factor(SigmaTerm::kEqualScores)),
      absorbed(factor(SigmaTerm::kAbsorbed)),
      stalled(factor(SigmaTerm::kStalled)),
      again(factor(SigmaTerm::kRepeated)),
      blocks(factor(SigmaTerm::kBlocks)),
      parts(factor(SigmaTerm::kParts)),
      lost(factor(SigmaTerm::kFlushed)),
      underflow(factor(SigmaTerm::kUnderflow)),
      common(factor(SigmaTerm::kCommonAddend)),
      average(factor(SigmaTerm::kAverage)),
      swapped(factor(SigmaTerm::kSwapped)),
      small_sums(factor(SigmaTerm::kSmallSums)),
      alike_products(factor(SigmaTerm::kAlikeProducts)),
      leaning(factor(SigmaTerm::kLeaning)),
      exp_error(factor(SigmaTerm::kExp) * arithmetic.exp_error),
      rescale(factor(SigmaTerm::kRescale) * arithmetic.exp_error),
      sums_rounded(arithmetic.has(ATTEST_SUMS_ROUNDED_P)),
      theta(sums_rounded && !arithmetic.has(ATTEST_P_NORMALISED_FIRST | ATTEST_WEIGHS_BY_LSE) &&
                    unit_roundoff(arithmetic.pv) <= unit_roundoff(arithmetic.probability)
                ? 1
                : 0),
      resums(sums_rounded && theta == 0 ? factor(SigmaTerm::kTwoRoundings) : 0),
      least_repeated(0),
      truncated(arithmetic.has(ATTEST_P_TRUNCATED) ? factor(SigmaTerm::kTruncation) : 0),
      normalised_first(arithmetic.has(ATTEST_P_NORMALISED_FIRST)),
      few_codes(false),
      large_scores(false),
      values_may_follow(false),
      softcap(0),
      sum_chain(arithmetic.sum_chain),
      head_dim(dim) {
  // The coarser of the two dtypes that P passes through decides which small ones survive.
  if (half_subnormal(arithmetic.pv) > eta_p) eta_p = half_subnormal(arithmetic.pv);
  // What is below half the smallest number is 0 by rounding, and what is below all of it by
  // cutting.
  const bool flushes = arithmetic.has(ATTEST_FLUSHES_SUBNORMALS);
  if (flushes && eta_v > 0)
    eta_v = factor(SigmaTerm::kSmallValues) * smallest_normal(arithmetic.pv);
  flush_below =
      flushes ? std::max(smallest_normal(arithmetic.probability), smallest_normal(arithmetic.pv))
              : std::max(eta_p, (arithmetic.has(ATTEST_P_TRUNCATED) ? 2 : 1) *
                                    half_subnormal(arithmetic.probability));
  cut_step = arithmetic.has(ATTEST_P_TRUNCATED)
                 ? factor(SigmaTerm::kCutSteps) * half_subnormal(arithmetic.probability)
                 : 0;
  cut_below = cut_step > 0 ? smallest_normal(arithmetic.probability) : 0;
  if (flush_below < kNothing) flush_below = 0;
  if (sums_from < kNothing) sums_from = 0;
  eta_p *= factor(SigmaTerm::kSubnormal);
}

SigmaModel SigmaModel::of(const SoftmaxArithmetic& arithmetic, const Problem& problem) {
  const auto& p = problem.as<attest_softmax_params>();
  SigmaModel model(arithmetic, problem.tensor[ATTEST_V].dtype, p.head_dim);
  if (model.u_qk > 0)
    model.scale_bias =
        factor(SigmaTerm::kFoldedScale) *
        folded_scale_bias(double(p.softmax_scale), problem.tensor[ATTEST_Q].dtype, arithmetic.qk);
  if (problem.features & ATTEST_WITH_DESCALE) model.take_factors();
  model.softcap = double(p.softcap);
  if (p.softcap > 0 && model.has_common_addends()) {
    model.cap_error = factor(SigmaTerm::kAtCap) * model.u_s * double(p.softcap);
    model.slope_at_cap = 2 * model.u_s;
  }
  // So low a softcap makes scores nearly equal: sums in 16 bits round many of their weights alike.
  if (p.softcap > 0 && p.softcap <= 1 && model.u_acc > 0x1p-14) model.least_repeated = 0.5;
  return model;
}

void SigmaModel::take_factors() {
  scale_bias = std::hypot(scale_bias, factor(SigmaTerm::kFoldedScale) * std::sqrt(2.0 / 3) * u_qk);
}

void SigmaModel::take_subnormal_operands(double beside) {
  small_operands = double(head_dim) * least_operand * least_operand * beside * beside / 3;
}

double SigmaModel::kappa(double max, double lse) const {
  return normalised_first ? 1 : std::exp(max - lse);
}

bool SigmaModel::rounds_probabilities() const {
  return std::max(unit_roundoff(probability), unit_roundoff(pv)) > kUnit;
}

SigmaModel::Quadratic SigmaModel::qk_quadratic() const {
  // By Cauchy and Schwarz, A <= sqrt(head_dim) B.
  const double dim = squares() ? double(head_dim) : 1;
  const double unit = u_dot * u_dot;
  return {unit + small_operands, 2 * unit * std::sqrt(dim), unit * dim + u_qk * u_qk * 2 / 3};
}

double SigmaModel::qk_variance(double magnitude) const {
  const double x = squares() ? std::sqrt(magnitude) : magnitude;
  const Quadratic q = qk_quadratic();
  return q.q0 + x * (q.q1 + x * q.q2);
}

double SigmaModel::accumulation_variance(double dot_square, double magnitude) const {
  // By Cauchy and Schwarz, A <= sqrt(head_dim) B.
  const double a = squares() ? std::sqrt(double(head_dim) * magnitude) : magnitude;
  return own_order * own_order * (u_dot * u_dot * (1 + a) * (1 + a) + growth() * dot_square);
}

double SigmaModel::coherent_variance(double repeated, const AlikeAddends& addends, double top,
                                     int64_t keys) const {
  // A quarter of an ulp of the final sum, as the mean over its growth; no more than is added.
  const double length = chain(keys), step = std::min(u_acc * length / 4, 1 - top);
  // If a step adds several keys, their sum spreads by the root of their number.
  const double a_step = double(keys) / length;
  const bool is_coarse = are_coarse(u_acc);
  // What lies alike in the ulps of a float32 sum is as good as equal.
  const auto equal = [&](const AlikeAddends::Sum& sum) {
    return is_coarse ? repeated : std::max(repeated, sum.chance);
  };
  const double whole = step * step * std::pow(equal(addends.whole), a_step);
  // Of the parts, which have the weight of all other keys.
  const double part = length < double(keys) ? std::min(u_acc * length / 4, 1.0) * (1 - top) : 0;
  // Beside a large weight the sum can lose all that is added to it, but no more.
  const double block = std::min(u_acc * top * length / std::sqrt(3), 1 - top);
  // The same where the ulp is that of the final sum from the first step on: heavy keys come first.
  const auto in_ulps = [&](const AlikeAddends::Sum& sum, double steps, double of_a_step) {
    if (!is_coarse) return 0.0;
    return alike_variance(sum.ulp, steps, 1 - top, std::pow(sum.chance, of_a_step));
  };
  return blocks * blocks * block * block * equal(addends.block) +
         std::max(again * again * std::max(whole, in_ulps(addends.whole, length, a_step)),
                  parts * parts *
                      std::max(part * part * equal(addends.part),
                               in_ulps(addends.part, double(keys), 1)));
}

double SigmaModel::alike_products_variance(const AlikeProducts& products, int64_t keys) const {
  if (!std::isfinite(products.reach)) return 0;
  const double length = chain(keys), a_step = double(keys) / length,
               step = alike_products * u_acc * length / 4;
  const auto error = [step](double sum, double chance) { return step * step * sum * sum * chance; };
  return std::max({error(products.reach, std::pow(products.whole, a_step)),
                   error(std::min(products.reach * a_step, products.size), products.part),
                   error(products.reach, products.lane)});
}

double SigmaModel::underflow_bound(double kappa, double largest, int64_t keys) const {
  if (keys == 0) return 0;
  // Each key's p (kappa: before it is divided), product with v, and sum; then the result itself.
  return underflow * kSmallestNormal * (double(keys) * kappa * (1 + largest) + 1);
}

double SigmaModel::stalled_square(double lost_sum, int64_t keys) const {
  return std::min(lost_sum, u_acc * chain(keys)) > kMuchLost ? stalled : 0;
}

double SigmaModel::rest(double lost_sum, double top, int64_t keys) const {
  const bool is_flushed = lost_sum > kMuchLost && u_acc * chain(keys) <= kMuchLost;
  return is_flushed ? std::max(1 - lost_sum, top) : 1;
}

double SigmaModel::lost_of_rest(double lost_sum, double rest) const {
  return absorbed * lost_sum / rest;
}

double SigmaModel::lost_beside_top(double lost_sum, double top, int64_t keys) const {
  constexpr double kLittle = 0x1p-4;
  // The mean addend is less than an ulp of their sum.
  const bool stops = u_acc * chain(keys) > 0.5;
  if (!stops || lost_sum <= 0 || 1 - top > kLittle) return 0;
  return absorbed * std::min(u_acc * chain(keys) / 4, 1.0) * lost_sum / std::max(1 - top, lost_sum);
}

double SigmaModel::lost_of_lse(double lost_sum, double rest) const {
  return absorbed * (rest < 1 ? -std::log(rest) : lost_sum);
}

bool SigmaModel::has_common_addends() const { return u_s > kUnit; }

void SigmaModel::take_few_scores() {
  scores_repeat = true;
  if (u_s > kUnit) few_scores = factor(SigmaTerm::kFewScores) * u_s;
}

// The keys at the cap move against the others, as far as the output shows: by up to the error times
// o where their values are 0, or those of the others.
double SigmaModel::cap_variance(const ElementSums& sums) const {
  constexpr double kFew = 1e-3;
  const double moved = cap_error * sums.o;
  return sums.at_cap > kFew ? moved * moved / 3 : 0;
}

// Additions err by up to half the smallest subnormal however small the sum is, or by up to the
// smallest normal number where subnormal sums become 0, and all products that are smaller vanish,
// but no more than there is. A sum that becomes 0 is below one step, whatever was added to it, so
// the key of the largest weight adds at most one step to what is lost; all others at most
// themselves.
double SigmaModel::small_variance(const ElementSums& sums, double most, int64_t keys) const {
  const double step = eta_acc * sums.kappa,
               beside_one = step + small_sums * (1 - sums.top) * sums.largest_v,
               all = std::min({step * double(keys), most, beside_one}) / sums.rest,
               apart = std::min(step * std::sqrt(double(keys) / 3), beside_one);
  return apart * apart + all * all + eta_v * eta_v * sums.p2 / 3;
}

double SigmaModel::element_sigma(const ElementSums& sums, int64_t keys) const {
  const double p_v = std::sqrt(std::max(sums.p2v2, 0.0)),
               most = std::max(std::fabs(sums.o), reach * sums.reach) + p_v, sum = u_acc * most;
  const double output = u_out * sums.o, value = u_v * u_v * (sums.o * sums.o + sums.p2v2),
               cut = u_p * sums.o;
  // The rounding of a query moves all scores together. What that does to values that follow from
  // the keys is, to first order, a sum over the same products as o itself, each with its own
  // rounding.
  const double together = query * query * u_qk * u_qk * (sums.o * sums.o + sums.mean_o2) / 3;
  const double least = underflow_bound(sums.kappa, sums.largest_v, keys);
  // Rescaling adds an error to the normaliser. Weights that are divided before they weigh do not
  // have the same error, so it stays in the output.
  const double apart = normalised_first ? std::fabs(sums.o) : 0;
  const double rescaled = rescale * (needs_prefix() ? std::max(sums.prefix, apart) : most);
  const double score = std::max(sums.score, 0.0);
  const double others = std::max(1 - sums.top, sums.stalled),
               beside_top =
                   sums.lost_beside_top * std::min(std::fabs(sums.o), others * sums.largest_v);
  // Of probabilities and values that do not share their roundings.
  const double alone =
      (std::max(sums.rounding, 0.0) + value) / 3 + truncated * truncated * cut * cut;
  const double variance =
      least * least +
      (output * output + eta_out * eta_out + std::max(sums.rounding, 0.0) + value) / 3 +
      truncated * truncated * cut * cut +
      lost * lost * (sums.flushed * sums.flushed + sums.unsure) + sum * sum * chain(keys) / 3 +
      score + std::max(together, shared_variance(sums.shared_scores, score)) +
      shared_variance(sums.shared_values, alone) + leaning_variance(sums.leaning, kChance * alone) +
      std::max(sums.coherent * sums.o * sums.o, sums.alike_products) + beside_top * beside_top +
      sums.lost * sums.lost * sums.o * sums.o + weights_variance(sums.lse, sums.o, most) +
      small_variance(sums, most, keys) + resums * resums * sums.resummed * sums.o * sums.o +
      rescaled * rescaled + stalled_square(sums.stalled, keys) * sums.largest_v * sums.largest_v +
      cap_variance(sums);
  return std::sqrt(variance);
}

double SigmaModel::lse_sigma(const LseSums& sums, int64_t keys) const {
  const double output = 0x1p-24 * sums.lse;
  // The query's rounding is common to all keys; by Jensen's inequality it moves the lse by at most
  // the root of sum p B^2. An exp of a low-degree polynomial may lean to one side.
  const double together = query * query * u_qk * u_qk * sums.square / 3;
  const double biased = scale_bias * sums.mean_dot, capped = cap_error * sums.at_cap,
               levels = few_scores * sums.sizes;
  // An exp may lean to one side: that of the keys, what they are rescaled by, what merges parts.
  const double exps = exp_error + rescale * (1 + sums.rescales);
  return std::sqrt(output * output + biased * biased + normaliser * normaliser * sums.rounding +
                   sums.leaning_variance + cut_sum * cut_sum + exps * exps + capped * capped +
                   levels * levels + sums.score +
                   stalled_square(sums.stalled, keys) * 4 * kUsualScore * kUsualScore +
                   common_variance(sums.common) + together + sums.coherent + sums.lost * sums.lost +
                   u_acc * u_acc * chain(keys) / 3);
}

int64_t most_independent(const Arithmetic& arithmetic, const Problem& problem, int32_t role,
                         int64_t sequences) {
  const auto& p = problem.as<attest_softmax_params>();
  if (extra_roundoff(ATTEST_F32, SoftmaxArithmetic::of(arithmetic).qk) == 0)
    return std::numeric_limits<int64_t>::max();
  return sequences * p.num_kv_heads * p.head_dim * (role == ATTEST_LSE ? 1 : p.head_dim_v);
}

}  // namespace attest::core
