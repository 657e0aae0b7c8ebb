#include "core/operations/softmax_backward/backward_rows.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <span>

#include "core/operations/equal_rows.hpp"
#include "core/operations/softmax/problem/dequantised.hpp"
#include "core/operations/softmax/sigma/folded_scale.hpp"
#include "core/operations/softmax_backward/backward_terms.hpp"
#include "core/operations/unsure.hpp"
#include "core/tensor/constants.hpp"

namespace attest::core::backward {
namespace {

constexpr double kStep = 0x1p-24;  // roundoff of a step in float32
// A sum over queries has one pair of each row. However few swaps a row has, that pair may be one of
// them, and so may the pairs of other rows. With a quarter, the gate of six deviations is three
// times the root of the sum of what they add, squared.
constexpr double kLeastShare = 0.25;

// Without the errors of operands: Score::operands has those.
SigmaModel logit_model(const Problem& problem, const BackwardArithmetic& arithmetic) {
  return SigmaModel::of(
      SoftmaxArithmetic{.score = arithmetic.score, .probability = arithmetic.probability}, problem);
}

/// Groups `count` rows of `width`. `others` are the rows of `other_width` that belong to them.
GroupedOrder grouped(int64_t count, int64_t width, const double* rows, int64_t other_width,
                     const double* others) {
  EqualRows equal = find_equal_rows(count, width, [&](int64_t place, double* row) {
    std::copy_n(rows + place * width, width, row);
    return true;
  });
  for (size_t begin = 0; begin < equal.place.size(); begin = equal.group_end(begin))
    std::stable_sort(
        equal.place.begin() + int64_t(begin), equal.place.begin() + int64_t(equal.group_end(begin)),
        [&](int32_t one, int32_t another) {
          // By their bytes, since they may have NaN. Any order will do.
          return std::memcmp(others + one * other_width, others + another * other_width,
                             size_t(other_width) * sizeof(double)) < 0;
        });
  GroupedOrder order;
  std::vector<bool> is_listed(static_cast<size_t>(count));
  for (size_t n = 0; n < equal.place.size(); ++n) {
    const bool ends = n + 1 == equal.place.size() || equal.group[n + 1] != equal.group[n];
    order.place.push_back(equal.place[n]);
    order.ends.push_back(ends);
    order.is_alone.push_back(false);
    order.count.push_back(1);
    order.distinct += ends;
    is_listed[size_t(equal.place[n])] = true;
  }
  for (int64_t place = 0; place < count; ++place)
    if (!is_listed[size_t(place)]) {
      order.place.push_back(int32_t(place));
      order.ends.push_back(true);
      order.is_alone.push_back(true);
      order.count.push_back(1);
      ++order.distinct;
    }
  return order;
}

/// The largest error of a rounding near 0.
double smallest_step(const BackwardArithmetic& arithmetic, DType dtype) {
  return arithmetic.has(ATTEST_FLUSHES_SUBNORMALS) ? smallest_normal(dtype) : half_subnormal(dtype);
}

double norm(const double* row, int64_t width) {
  double squares = 0;
  for (int64_t c = 0; c < width; ++c) squares += row[c] * row[c];
  return std::sqrt(squares);
}

struct Dot {
  double sum = 0, magnitude = 0, squares = 0;
};
Dot dot(const double* x, const double* y, int64_t width) {
  Dot of;
  for (int64_t c = 0; c < width; ++c) {
    const double product = x[c] * y[c];
    of.sum += product;
    of.magnitude += std::fabs(product);
    of.squares += product * product;
  }
  return of;
}

// Whether pairs of one sum have one bias, or one shift_bias.
bool shares_bias(const Problem& problem) {
  const auto& p = problem.as<Params>();
  if (p.shift_bias != 0 && (p.shift_y != 0 || p.shift_x != 0)) return true;
  const TensorSpec& bias = problem.tensor[ATTEST_BIAS];
  return present(bias) && (bias.dim[2] == 1 || bias.dim[3] == 1);
}

// How many times an element may be larger than the one that is rounded: the scale is multiplied
// into Q, or its root into Q and K.
double widest(const Problem& problem) {
  const double scale = std::fabs(double(problem.as<Params>().softmax_scale));
  return scale > 0 ? std::max(1.0, 1 / scale) : 1;
}

// Q and K may be scaled before they are rounded, so that even those that are stored in the
// operand's dtype lose something.
OperandRounding of_scaled(const Problem& problem, const BackwardArithmetic& arithmetic,
                          DType operand) {
  return {ATTEST_F32, operand, arithmetic.has(ATTEST_FLUSHES_SUBNORMALS), widest(problem)};
}
OperandRounding of_stored(const Problem& problem, const BackwardArithmetic& arithmetic,
                          int32_t role) {
  return {problem.tensor[size_t(role)].dtype, arithmetic.operand,
          arithmetic.has(ATTEST_FLUSHES_SUBNORMALS), 1};
}

// Products of a number and a scale near a power of two round to one side; products of numbers of
// 8 bits and their factors may, as SigmaModel::take_factors() says.
double leaning(const Problem& problem, DType operand) {
  if (!is_coarse(operand)) return 0;
  const double of_scale = folded_scale_bias(double(problem.as<Params>().softmax_scale),
                                            problem.tensor[ATTEST_Q].dtype, operand),
               of_factors = (problem.features & ATTEST_WITH_DESCALE) != 0
                                ? std::sqrt(2.0 / 3) * unit_roundoff(operand)
                                : 0;
  return factor(Term::kFoldedScale) * std::hypot(of_scale, of_factors);
}

}  // namespace

PairErrors::PairErrors(const Problem& problem, const BackwardArithmetic& declared)
    : arithmetic(declared),
      model_(logit_model(problem, declared)),
      width_v_(problem.as<Params>().head_dim_v),
      softcap_(double(problem.as<Params>().softcap)),
      shares_bias_(shares_bias(problem)),
      leaning_(leaning(problem, declared.qk)),
      of_score_(of_scaled(problem, declared, declared.qk)),
      of_row_(of_scaled(problem, declared, declared.operand)),
      of_v_(of_stored(problem, declared, ATTEST_V)),
      of_d_o_(of_stored(problem, declared, ATTEST_DO)),
      u_score_(unit_roundoff(declared.score)),
      eta_score_(smallest_step(declared, declared.score)),
      u_delta_(unit_roundoff(declared.delta)),
      eta_delta_(smallest_step(declared, declared.delta)),
      u_probability_(unit_roundoff(declared.probability)),
      eta_probability_(half_subnormal(declared.probability)),
      u_product_(std::max(unit_roundoff(declared.product), kStep)),
      eta_product_(half_subnormal(declared.product)),
      // exp may give 0 below the smallest normal float32.
      lost_p_(std::max(smallest_normal(ATTEST_F32), declared.has(ATTEST_FLUSHES_SUBNORMALS)
                                                        ? smallest_normal(declared.probability)
                                                        : eta_probability_)),
      lost_operand_(declared.has(ATTEST_FLUSHES_SUBNORMALS) ? smallest_normal(declared.product)
                                                            : eta_product_) {}

// The variance of the logit from all errors before the softcap.
double PairErrors::before_cap(const Score& score) const {
  const double dot = score.slope * score.scaled,
               kept = dot * dot + (softcap_ > 0 ? score.capped * score.capped : 0);
  return model_.score_variance(model_.staged_square(dot * dot, kept),
                               score.slope * score.magnitude) +
         squared(Term::kScoreOperands) * score.slope * score.slope * score.operands;
}

double PairErrors::of_logit(const Score& score) const {
  return before_cap(score) + model_.u_s * model_.u_s / 3 * score.logit * score.logit;
}

// What errs before the softcap moves the slope, too: by -2 tanh / softcap times as much as the
// capped score. What errs after it does not.
void PairErrors::set_score_errors(const Score& score, double lse, Pair& pair) const {
  const bool is_capped = softcap_ > 0;
  const double slope = score.slope;
  const double before = squared(Term::kScore) * before_cap(score);
  const double after =
                   squared(Term::kScore) * model_.u_s * model_.u_s / 3 * score.logit * score.logit,
               grown = exponential(before + after),
               growth = before + after > 0 ? grown / (before + after) : 1;
  const double argument = kStep * (score.logit - lse),
               of_p = squared(Term::kArgument) * 2 * argument * argument / 3 +
                      squared(Term::kProbability) * u_probability_ * u_probability_;
  pair.logit = grown + of_p;
  const double bend = is_capped ? slope - factor(Term::kCap) * 2 * score.tanh / softcap_ : 1,
               square = factor(Term::kCap) * 2 * kStep * score.tanh * score.tanh;
  pair.bent = growth * (bend * bend * before + slope * slope * after) + slope * slope * of_p +
              square * square;
  pair.moves = slope * std::sqrt(growth);
  pair.bent_moves = bend * pair.moves;
  // What all pairs may have in common counts by its bound, not by its deviation.
  const double sign = score.tanh < 0 ? -1 : 1;
  // Scores on a grid, or distances times a slope, differ by whole steps of the logit's dtype. With
  // one bias added to all, every logit then has the same rounding error.
  pair.uniform = shares_bias_ ? sign * shared_rounding(score.logit) : 0;
  pair.bent_uniform = slope * pair.uniform;
  const double leans = leaning_ * slope * score.scaled;
  pair.uniform += leans;
  pair.bent_uniform += bend * leans;
  if (!model_.is_at_cap(slope)) return;
  const double at_cap = sign * factor(Term::kAtCap) * model_.cap_error;
  pair.uniform += at_cap;
  pair.bent_uniform += bend * at_cap;
}

double PairErrors::shared_rounding(double logit) const {
  return factor(Term::kSharedBias) * std::max(u_score_, kStep) * std::fabs(logit);
}

// exp is not linear where coarse scores, or a large lse, err by much: of three deviations a third
// counts.
double PairErrors::exponential(double variance) {
  constexpr double kLinear = 1e-6, kMost = 30;
  if (variance < kLinear) return variance;
  return std::pow(std::expm1(std::min(3 * std::sqrt(variance), kMost)) / 3, 2);
}

double PairErrors::product(double dot, double magnitude, int64_t width) const {
  return squared(Term::kDot) *
         (kStep * kStep * (magnitude * magnitude + double(width) * dot * dot / 9) +
          u_score_ * u_score_ * dot * dot / 3 + eta_score_ * eta_score_);
}

// In less than float32 each product has three roundings: of dO, of O, and its own. The sum has one.
double PairErrors::delta(double delta, double magnitude, double squares, double factors) const {
  const auto width = double(width_v_);
  double variance = squared(Term::kDelta) * kStep * kStep *
                    (magnitude * magnitude + width * delta * delta / 9 + delta * delta / 3);
  if (u_delta_ > kStep)
    variance += squared(Term::kCoarseDelta) * (u_delta_ * u_delta_ * (squares + delta * delta / 3) +
                                               (width + 1 + factors) * eta_delta_ * eta_delta_);
  return variance;
}

// Once for the lse as it is given, once for its product with log2(e).
double PairErrors::lse(double lse) const {
  return exponential(squared(Term::kGivenLse) * 2 * kStep * kStep * lse * lse / 3);
}

// The errors that both sums have: those of p, and of the weight's own rounding.
Addend PairErrors::rounded(double weight, double deviation, const Pair& pair) const {
  Addend addend{.weight = weight, .shared = deviation};
  const double eta = factor(Term::kSmallProduct) * eta_product_;
  addend.own =
      squared(Term::kProduct) * (u_product_ * u_product_ / 3 + kStep * kStep) * weight * weight +
      eta * eta;
  // Whether a number at the edge is lost depends on its own error, which may be large.
  constexpr double kEdge = 0.1;
  const double own_error = SigmaModel::kGate * std::sqrt(pair.logit);
  const double nearest = std::min(pair.p / lost_p_, std::fabs(weight) / lost_operand_);
  if (nearest < 1 - kEdge)
    addend.lost = factor(Term::kLost) * weight;
  else if (nearest < (1 + kEdge) * (1 + own_error))
    addend.own += squared(Term::kLost) * weight * weight;
  addend.one_way = factor(Term::kExp) * arithmetic.exp_error * std::fabs(weight);
  return addend;
}

Addend PairErrors::of_probability(const Pair& pair, const QueryErrors& query) const {
  Addend addend = rounded(pair.p, pair.p * std::sqrt(pair.logit), pair);
  addend.uniform = pair.p * pair.uniform;
  const double eta = factor(Term::kProbability) * eta_probability_;
  addend.own += pair.p * pair.p * query.lse + eta * eta;
  return swapped(addend, pair, std::max(pair.share, kLeastShare));
}

// A key that does not count adds nothing, unless a kernel takes it: then it adds what any key does,
// with the same errors.
Addend PairErrors::swapped(const Addend& addend, const Pair& pair, double share) const {
  if (pair.share == 0) return addend;
  const double of_swap = squared(Term::kSwapped) * share * addend.weight * addend.weight;
  if (!std::isfinite(addend.weight)) {
    if (factor(Term::kSwapped) == 0) return pair.counts ? addend : Addend{};
    return {.weight = addend.weight, .is_near = true};
  }
  const bool is_near = factor(Term::kSwapped) > 0;
  if (!pair.counts)
    return {
        .alone = of_swap + squared(Term::kSwapped) *
                               (addend.own + addend.alone + addend.shared * addend.shared +
                                addend.uniform * addend.uniform + addend.one_way * addend.one_way),
        .is_near = is_near};
  Addend counting = addend;
  counting.alone += of_swap;
  counting.is_near = is_near;
  return counting;
}

// Without the errors that depend on whose sum it is.
Addend PairErrors::gradient(const Pair& pair, const QueryErrors& query) const {
  Addend addend = rounded(pair.ds, pair.d_logit * std::sqrt(pair.bent), pair);
  addend.uniform = pair.d_logit * pair.bent_uniform;
  // p may err by as much as itself. So the product of its error and that of do.v - delta counts.
  const double p = pair.p * pair.slope, of_p = pair.p * pair.p * pair.bent;
  const double slope = pair.p > 0 ? pair.ds / pair.p : 0,
               eta = factor(Term::kProbability) * eta_probability_ * slope;
  addend.own += (p * p + of_p) * pair.gradient + of_p * query.delta + eta * eta;
  addend.alone += of_p * query.given_o;
  return addend;
}

Addend PairErrors::of_gradient(const Pair& pair, const QueryErrors& query) const {
  Addend addend = gradient(pair, query);
  const double p = pair.p * pair.slope;
  addend.own += p * p * query.delta + pair.ds * pair.ds * query.lse;
  addend.alone += p * p * query.given_o;
  return swapped(addend, pair, std::max(pair.share, kLeastShare));
}

Addend PairErrors::of_gradient_in_row(const Pair& pair, const QueryErrors& query) const {
  Addend addend = gradient(pair, query);
  addend.common = pair.p * pair.slope;
  // All swaps of the row are in this sum. They may have one sign.
  return swapped(addend, pair, pair.share + pair.swaps / (SigmaModel::kGate * SigmaModel::kGate));
}

Addend PairErrors::of_bias(const Pair& pair, const QueryErrors& query) const {
  Pair without_slope = pair;
  without_slope.slope = 1;
  without_slope.ds = pair.d_logit;
  without_slope.bent = pair.logit;
  without_slope.bent_uniform = pair.uniform;
  return of_gradient(without_slope, query);
}

GradientSum::GradientSum(int64_t width, size_t remembered)
    : width_(size_t(width)),
      addend_sample_(remembered),
      finite_row_(width_),
      alike_chances_(width_) {
  clear();
}

void GradientSum::clear() {
  for (auto* row : {&sum_,        &variance_,    &squares_,    &reach_,       &group_,
                    &common_,     &lost_,        &one_way_,    &uniform_,     &unsure_,
                    &run_,        &run_alone_,   &step_group_, &step_own_,    &step_all_,
                    &step_alone_, &step_groups_, &equal_size_, &equal_count_, &equal_pairs_})
    row->assign(width_, 0);
  addends_ = 0;
  addend_sample_.clear();
  has_lost_ = has_one_way_ = has_common_ = has_uniform_ = has_unsure_ = has_steps_ = false;
}

void GradientSum::add(const Addend& addend, const double* row, bool is_alone, bool ends,
                      int64_t count) {
  addends_ += count;
  addend_sample_.add(addend.weight, row, double(count));
  if (addend.is_near && take_unsure(addend, row)) {
    if (!std::isfinite(addend.weight)) {
      if (ends) end_group();
      return;
    }
    row = finite_row_.data();
  }
  const auto times = double(count);
  const double equal = times * factor(Term::kEqual) * addend.shared,
               own = times *
                     ((is_alone ? addend.own : 0) + addend.alone + addend.shared * addend.shared);
  double *sum = sum_.data(), *variance = variance_.data(), *squares = squares_.data(),
         *reach = reach_.data();
  for (size_t c = 0; c < width_; ++c) {
    const double term = addend.weight * row[c];
    sum[c] += times * term;
    squares[c] += times * term * term;
    reach[c] = std::max(reach[c], std::fabs(sum[c]));
    variance[c] += own * row[c] * row[c];
  }
  if (addend.common != 0) {
    has_common_ = true;
    for (size_t c = 0; c < width_; ++c) common_[c] += times * addend.common * row[c];
  }
  if (addend.lost != 0) {
    has_lost_ = true;
    for (size_t c = 0; c < width_; ++c) lost_[c] += times * addend.lost * row[c];
  }
  if (addend.one_way != 0) {
    has_one_way_ = true;
    for (size_t c = 0; c < width_; ++c) one_way_[c] += times * addend.one_way * std::fabs(row[c]);
  }
  if (addend.uniform != 0) {
    has_uniform_ = true;
    for (size_t c = 0; c < width_; ++c) uniform_[c] += times * addend.uniform * row[c];
  }
  if (addend.steps) add_rounded_row(addend, row, times);
  if (is_alone) {
    if (has_steps_) end_step_group();
    return;
  }
  count_equal(addend.weight, row, times);
  for (size_t c = 0; c < width_; ++c) group_[c] += equal * row[c];
  if (!(addend.weight == run_weight_)) end_run();
  run_weight_ = addend.weight;
  const double deviation = times * std::sqrt(addend.own);
  for (size_t c = 0; c < width_; ++c) {
    run_[c] += deviation * row[c];
    run_alone_[c] += times * addend.own * row[c] * row[c];
  }
  if (ends) end_group();
}

// What an addition rounds depends on the addend alone, as long as the sum has one exponent: the sum
// is a multiple of its last place. So equal addends err alike, and those of opposite sign cancel.
void GradientSum::count_equal(double weight, const double* row, double count) {
  for (size_t c = 0; c < width_; ++c) {
    const double term = weight * row[c], size = std::fabs(term);
    if (size != equal_size_[c]) end_equal(c);
    equal_size_[c] = size;
    equal_count_[c] += term < 0 ? -count : count;
  }
}

// Adds the pairs of equal addends. Adding 0 rounds nothing.
void GradientSum::end_equal(size_t c) {
  const double count = std::fabs(equal_count_[c]);
  if (equal_size_[c] > 0 && count > 1) equal_pairs_[c] += count * (count - 1);
  equal_size_[c] = equal_count_[c] = 0;
}

void GradientSum::add_common(const CommonOperand& operand, const double* steps) {
  operand.add_variance(steps, squared(Term::kCommonOperand), variance_.data());
}

// An element of 0 stays 0. The elements of `row` that are no numbers of a near pair are 0.
void GradientSum::add_rounded_row(const Addend& addend, const double* row, double count) {
  has_steps_ = true;
  for (size_t c = 0; c < width_; ++c) {
    if (row[c] == 0) continue;
    const double off = addend.weight * addend.steps[c];
    step_alone_[c] += count * off * off;
    step_own_[c] += count * off * off;
    step_group_[c] += count * off;
    step_all_[c] += count * off;
  }
}

// Equal rows round alike.
void GradientSum::end_step_group() {
  for (size_t c = 0; c < width_; ++c) {
    step_groups_[c] += std::max(0.0, step_group_[c] * step_group_[c] - step_own_[c]);
    step_group_[c] = step_own_[c] = 0;
  }
}

// Adds what is no number of a near pair to unsure_; returns whether anything is. finite_row_
// becomes the row without it.
bool GradientSum::take_unsure(const Addend& addend, const double* row) {
  const bool all = !std::isfinite(addend.weight);
  if (!all && std::all_of(row, row + width_, [](double x) { return std::isfinite(x); }))
    return false;
  has_unsure_ = true;
  for (size_t c = 0; c < width_; ++c) {
    const bool is_unsure = all || !std::isfinite(row[c]);
    if (is_unsure) unsure_[c] += addend.weight * row[c];
    finite_row_[c] = is_unsure ? 0 : row[c];
  }
  return true;
}

// Equal rows have equal scores. If their weights are equal too, then so is all that they were
// computed from, and they round alike. Kernels may also compute some of them in another order.
void GradientSum::end_run() {
  for (size_t c = 0; c < width_; ++c) {
    variance_[c] += std::max(squared(Term::kEqualPairs) * run_[c] * run_[c], run_alone_[c]);
    run_[c] = run_alone_[c] = 0;
  }
}

void GradientSum::end_group() {
  end_run();
  if (has_steps_) end_step_group();
  for (size_t c = 0; c < width_; ++c) {
    end_equal(c);
    variance_[c] += group_[c] * group_[c];
    group_[c] = 0;
  }
}

void GradientSum::finish(const BackwardArithmetic& arithmetic, DType output, double scale,
                         double common, double relative, double* value, double* sigma) {
  const double u_acc = unit_roundoff(arithmetic.accumulator), u_out = unit_roundoff(output);
  const auto all = double(addends_);
  const double chain = arithmetic.sum_chain > 0 ? std::min(double(arithmetic.sum_chain), all) : all;
  const double steps = squared(Term::kAccumulator) * u_acc * u_acc / 3 * chain,
               small = smallest_step(arithmetic, arithmetic.accumulator),
               one_way = u_acc > kStep ? factor(Term::kOneWay) * u_acc * chain / 6 : 0,
               output_small = factor(Term::kSmallOutput) * half_subnormal(output);
  // In less than float32, one_way bounds the errors of addends that round alike, too. In float64
  // they are nothing.
  const bool may_be_alike = u_acc == kStep;
  if (may_be_alike && factor(Term::kAlikeAddends) > 0)
    addend_sample_.find_chances(reach_, alike_chances_);
  for (size_t c = 0; c < width_; ++c) {
    // Below the smallest normal number all additions may err by their bound, the same way if the
    // addends are alike. Together they lose no more than the magnitudes of the addends.
    const double small_sum =
        factor(Term::kSmallSum) * std::min(std::sqrt(all * squares_[c]), all * small);
    double variance = variance_[c] + steps * std::max(reach_[c] * reach_[c], squares_[c]) +
                      small_sum * small_sum + one_way * one_way * reach_[c] * reach_[c];
    if (may_be_alike)
      variance +=
          u_acc * u_acc * chain / std::max(all, 1.0) * pairs_alike(c) * reach_[c] * reach_[c];
    if (has_common_) variance += common * common_[c] * common_[c];
    if (has_lost_) variance += lost_[c] * lost_[c];
    if (has_uniform_) variance += uniform_[c] * uniform_[c];
    if (has_one_way_) variance += one_way_[c] * one_way_[c];
    if (has_steps_)
      variance += squared(Term::kRows) * step_alone_[c] +
                  squared(Term::kEqualRows) * (step_groups_[c] + step_all_[c] * step_all_[c]);
    const double x = scale * sum_[c];
    value[c] = has_unsure_ ? scale * (sum_[c] + unsure_[c]) : x;
    variance = scale * scale * variance + (relative + kStep * kStep) * x * x +
               squared(Term::kOutput) * u_out * u_out / 3 * x * x + output_small * output_small;
    sigma[c] = !std::isfinite(unsure_[c]) && !std::isnan(x) ? kUnsure : std::sqrt(variance);
  }
}

// The number of pairs of addends that round alike, times the variance of what one addition rounds,
// in units of u^2 times the square of the sum. The bound makes a gate of all steps that err by u.
double GradientSum::pairs_alike(size_t c) const {
  const auto all = double(addends_);
  const double most = all * all / 36, equal = std::min(equal_pairs_[c] / 3, most);
  double alike = 0;
  if (factor(Term::kAlikeAddends) > 0) alike = std::min(alike_chances_[c] * all * all / 3, most);
  return squared(Term::kEqualAddends) * equal +
         squared(Term::kAlikeAddends) * std::max(alike - equal, 0.0);
}

HeadRows::HeadRows(const Problem& problem, const Tensors& tensors)
    : tensors_(tensors),
      p_(problem.as<Params>()),
      geometry_(problem, tensors),
      group_(p_.num_heads / p_.num_kv_heads),
      has_few_codes_(has_f8(problem) || (problem.features & ATTEST_WITH_DESCALE) != 0) {
  const auto keys = size_t(p_.seq_len_kv), queries = size_t(group_ * p_.seq_len_q);
  k_.resize(keys * size_t(p_.head_dim));
  v_.resize(keys * size_t(p_.head_dim_v));
  q_.resize(queries * size_t(p_.head_dim));
  do_.resize(queries * size_t(p_.head_dim_v));
  for (auto* row : {&lse_, &delta_, &delta_magnitude_, &delta_squares_, &delta_factors_, &equal_o_})
    row->resize(queries);
  rounded_o_.resize(queries);
}

void HeadRows::load(int64_t b, int64_t kv_head) {
  b_ = b;
  kv_head_ = kv_head;
  length_q_ = geometry_.length_q(b);
  length_kv_ = geometry_.length_kv(b);
  const auto read = [&](int32_t role, int64_t head, Cell at, int64_t width, double* to) {
    const Tensor& tensor = tensors_[size_t(role)];
    const int64_t* stride = tensor.spec.stride;
    load_row(tensor.data, tensor.spec.dtype,
             at.outer * stride[0] + head * stride[1] + at.row * stride[2], width, stride[3], to);
  };
  const Tensor& lse = tensors_[ATTEST_LSE];
  const int64_t elements = (group_ * length_q_ + length_kv_) * (p_.head_dim + p_.head_dim_v);
#pragma omp parallel if (elements > kThreadedElements)
  {
    std::vector<double> o(static_cast<size_t>(p_.head_dim_v));
    std::vector<std::pair<double, double>> steps(o.size());
#pragma omp for
    for (int64_t j = 0; j < length_kv_; ++j) {
      const Cell at = geometry_.key(b, j);
      read(ATTEST_K, kv_head, at, p_.head_dim, k_.data() + j * p_.head_dim);
      read(ATTEST_V, kv_head, at, p_.head_dim_v, v_.data() + j * p_.head_dim_v);
    }
#pragma omp for
    for (int64_t n = 0; n < group_ * length_q_; ++n) {
      const int64_t head = query_head(n / length_q_);
      const Cell at = geometry_.query(b, n % length_q_);
      double* d_o = do_.data() + n * p_.head_dim_v;
      read(ATTEST_Q, head, at, p_.head_dim, q_.data() + n * p_.head_dim);
      read(ATTEST_DO, head, at, p_.head_dim_v, d_o);
      read(ATTEST_O, head, at, p_.head_dim_v, o.data());
      const Dot delta = dot(d_o, o.data(), p_.head_dim_v);
      delta_[size_t(n)] = delta.sum;
      delta_magnitude_[size_t(n)] = delta.magnitude;
      delta_squares_[size_t(n)] = delta.squares;
      const double of_do = norm(d_o, p_.head_dim_v), of_o = norm(o.data(), p_.head_dim_v);
      delta_factors_[size_t(n)] = of_do * of_do + of_o * of_o;
      rounded_o_[size_t(n)] = rounded_o(d_o, o.data(), steps);
      lse_[size_t(n)] = lse.at({at.outer, head, at.row});
    }
  }
  edges_.clear();
  key_order_ = grouped(length_kv_, p_.head_dim, k_.data(), p_.head_dim_v, v_.data());
  query_order_ = grouped(group_ * length_q_, p_.head_dim, q_.data(), p_.head_dim_v, do_.data());
  find_equal_o();
}

void HeadRows::find_steps(const PairErrors& errors) {
  const auto find = [](const OperandRounding& rounding, const std::vector<double>& rows,
                       int64_t count, std::vector<double>& steps) {
    steps.resize(rounding ? size_t(count) : 0);
    std::transform(rows.begin(), rows.begin() + int64_t(steps.size()), steps.begin(),
                   [&](double element) { return rounding.step(element); });
  };
  const int64_t queries = group_ * length_q_;
  find(errors.of_score(), q_, queries * p_.head_dim, q_score_steps_);
  find(errors.of_score(), k_, length_kv_ * p_.head_dim, k_score_steps_);
  find(errors.of_row(), q_, queries * p_.head_dim, q_steps_);
  find(errors.of_row(), k_, length_kv_ * p_.head_dim, k_steps_);
  // One of dO and V may be exact. Its steps are 0 then.
  const bool either = errors.of_v() || errors.of_d_o();
  find(errors.of_v(), v_, length_kv_ * p_.head_dim_v, v_steps_);
  find(errors.of_d_o(), do_, queries * p_.head_dim_v, do_steps_);
  if (either && v_steps_.empty()) v_steps_.assign(size_t(length_kv_ * p_.head_dim_v), 0);
  if (either && do_steps_.empty()) do_steps_.assign(size_t(queries * p_.head_dim_v), 0);
}

void HeadRows::find_edges(const PairErrors& errors, bool ties_hold) {
  if (p_.top_k == 0) return;
  edges_.resize(size_t(group_ * length_q_));
#pragma omp parallel if (group_ * length_q_ * length_kv_ * p_.head_dim > kThreadedElements)
  {
    std::vector<double> logits(static_cast<size_t>(length_kv_)), variances(logits);
#pragma omp for schedule(dynamic, 8)
    for (int64_t n = 0; n < group_ * length_q_; ++n) {
      const Query at{n / length_q_, n % length_q_};
      const Interval seen = keys(at.i);
      std::ranges::fill(logits, kHidden);
      std::fill(logits.begin() + seen.begin, logits.begin() + seen.end, 0.0);
      if (geometry_.pair_terms() && seen.size() > 0)
        geometry_.add_pair_terms(b_, query_head(at.h), at.i, seen, logits.data() + seen.begin);
      for (int64_t j = seen.begin; j < seen.end; ++j) {
        if (logits[size_t(j)] == kHidden) continue;
        const Score score = this->score(at, j, logits[size_t(j)]);
        logits[size_t(j)] = score.logit;
        variances[size_t(j)] = errors.of_logit(score);
      }
      edges_[size_t(n)] = RowEdge(p_, logits, variances, ties_hold);
    }
  }
}

// Two channels have one O, and so one error, if V has the same codes in both for every key that has
// weight.
HeadRows::RoundedO HeadRows::rounded_o(const double* d_o, const double* o,
                                       std::vector<std::pair<double, double>>& steps) const {
  const DType dtype = tensors_[ATTEST_O].spec.dtype;
  double sum = 0;
  for (size_t c = 0; c < steps.size(); ++c) {
    const double size = std::fabs(o[c]),
                 step = d_o[c] * std::max(unit_roundoff(dtype) * size, half_subnormal(dtype));
    sum += step * step / 3;
    steps[c] = {size, o[c] < 0 ? -step : step};
  }
  if (!has_few_codes_ || !std::isfinite(sum)) return {sum};
  std::ranges::sort(steps);
  double alike = 0, group = 0;
  for (size_t c = 0; c < steps.size(); ++c) {
    group += steps[c].second;
    if (c + 1 < steps.size() && steps[c + 1].first == steps[c].first) continue;
    alike += group * group / 3;
    group = 0;
  }
  return {sum, std::max(alike - sum, 0.0)};
}

double HeadRows::RoundedO::variance() const { return alone + squared(Term::kRepeatedO) * repeated; }

// Equal queries with equal rows of O have one error of each channel of O: in a sum over queries it
// is multiplied by the sum of their dO.
void HeadRows::find_equal_o() {
  std::ranges::fill(equal_o_, 0);
  const auto width = size_t(p_.head_dim_v);
  std::vector<double> o(width), d_o(width);
  std::vector<std::pair<double, double>> steps(width);
  const auto read_o = [&](int32_t n) {
    for (size_t c = 0; c < width; ++c) o[c] = this->o({n / length_q_, n % length_q_}, int64_t(c));
  };
  std::vector<std::pair<uint64_t, int32_t>> members;  // a hash of O, and the query
  const auto add_variance = [&](std::span<const std::pair<uint64_t, int32_t>> alike) {
    double alone = 0;
    std::ranges::fill(d_o, 0);
    for (const auto& [hash, n] : alike) {
      alone += rounded_o_[size_t(n)].variance();
      for (size_t c = 0; c < width; ++c) d_o[c] += do_[size_t(n) * width + c];
    }
    read_o(alike[0].second);
    const double added = rounded_o(d_o.data(), o.data(), steps).variance() - alone;
    if (!(added > 0)) return;  // it may be NaN
    for (const auto& [hash, n] : alike) equal_o_[size_t(n)] = added / double(alike.size());
  };
  for (size_t n = 0; n < query_order_.place.size(); ++n) {
    if (query_order_.is_alone[n]) continue;
    const int32_t query = query_order_.place[n];
    read_o(query);
    members.emplace_back(hash_bytes(o.data(), width * sizeof(double)), query);
    if (!query_order_.ends[n]) continue;
    std::ranges::sort(members);
    for (size_t begin = 0, end; begin < members.size(); begin = end) {
      for (end = begin + 1; end < members.size() && members[end].first == members[begin].first;)
        ++end;
      add_variance(std::span(members).subspan(begin, end - begin));
    }
    members.clear();
  }
}

double HeadRows::o(Query at, int64_t d) const {
  const Cell cell = geometry_.query(b_, at.i);
  return tensors_[ATTEST_O].at({cell.outer, query_head(at.h), cell.row, d});
}

bool HeadRows::are_alike(Query one, Query other) const {
  const auto a = size_t(row(one)), b = size_t(row(other));
  // By its bytes: dO may have NaN.
  const auto width = size_t(p_.head_dim_v);
  return std::memcmp(&do_[a * width], &do_[b * width], width * sizeof(double)) == 0 &&
         lse_[a] == lse_[b] && delta_[a] == delta_[b] &&
         delta_magnitude_[a] == delta_magnitude_[b] && delta_squares_[a] == delta_squares_[b] &&
         delta_factors_[a] == delta_factors_[b] && rounded_o_[a].alone == rounded_o_[b].alone &&
         rounded_o_[a].repeated == rounded_o_[b].repeated && equal_o_[a] == equal_o_[b];
}

QueryErrors HeadRows::errors_in_row(const PairErrors& errors, Query at) const {
  const auto n = size_t(row(at));
  return {
      .delta = errors.delta(delta_[n], delta_magnitude_[n], delta_squares_[n], delta_factors_[n]),
      .given_o = squared(Term::kGivenO) * rounded_o_[n].variance(),
      .lse = errors.lse(lse_[n])};
}

QueryErrors HeadRows::errors_among_queries(const PairErrors& errors, Query at) const {
  QueryErrors made = errors_in_row(errors, at);
  made.given_o += squared(Term::kGivenO) * squared(Term::kEqualO) * equal_o_[size_t(row(at))];
  return made;
}

double HeadRows::largest_v() const {
  double largest = 0;
  for (int64_t j = 0; j < length_kv_; ++j) largest = std::max(largest, norm(v(j), p_.head_dim_v));
  return largest;
}

double HeadRows::d_logit_bound(Query at, double largest_v) const {
  if (at.i >= length_q_ || lse(at) == kHidden) return 0;
  if (std::isnan(lse(at))) return lse(at);
  return norm(d_o(at), p_.head_dim_v) * largest_v + std::fabs(delta(at));
}

std::optional<Pair> HeadRows::pair(const PairErrors& errors, Query at, int64_t j,
                                   double term) const {
  if (term == kHidden) return {};
  const Score score = this->score(at, j, term);
  Pair made;
  if (!edges_.empty()) {
    const RowEdge& edge = edges_[size_t(row(at))];
    made.counts = edge.counts(score.logit, j);
    if (edge.is_near(score.logit, errors.of_logit(score))) {
      made.share = edge.share(made.counts);
      made.swaps = edge.swaps();
    }
    if (!made.counts && made.share == 0) return {};
  }
  const Dot gradient = dot(d_o(at), v(j), p_.head_dim_v);
  made.value = score.logit;
  made.p = std::exp(score.logit - lse(at));
  made.slope = score.slope;
  made.d_logit = made.p * (gradient.sum - delta(at));
  made.ds = made.d_logit * made.slope;
  errors.set_score_errors(score, lse(at), made);
  made.gradient = errors.product(gradient.sum, gradient.magnitude, p_.head_dim_v);
  if (const double* const steps = v_steps(j))
    made.gradient += squared(Term::kValueOperands) *
                     product_variance(d_o(at), d_o_steps(at), v(j), steps, p_.head_dim_v);
  return made;
}

Pair HeadRows::sink_pair(const PairErrors& errors, Query at, double sink) const {
  Pair made;
  made.value = sink;
  made.p = std::exp(sink - lse(at));
  made.d_logit = made.ds = -made.p * delta(at);
  errors.set_score_errors({.logit = sink}, lse(at), made);
  made.logit += errors.lse(lse(at));
  made.uniform = errors.shared_rounding(sink);
  return made;
}

Score HeadRows::score(Query at, int64_t j, double term) const {
  const Dot product = dot(q(at), k(j), p_.head_dim);
  const auto scale = double(p_.softmax_scale), cap = double(p_.softcap);
  Score made{.scaled = scale * product.sum, .magnitude = std::fabs(scale) * product.magnitude};
  if (const double* const steps = k_score_steps(j))
    made.operands =
        scale * scale * product_variance(q(at), q_score_steps(at), k(j), steps, p_.head_dim);
  made.capped = made.scaled;
  if (cap > 0) {
    made.tanh = std::tanh(made.scaled / cap);
    made.capped = cap * made.tanh;
    made.slope = 1 - made.tanh * made.tanh;
  }
  made.logit = made.capped + term;
  return made;
}

Interval HeadRows::keys(int64_t i) const {
  return i < length_q_ ? geometry_.keys(b_, i) : Interval{};
}

double HeadRows::pair_term(Query at, int64_t j) const {
  if (!keys(at.i).contains(j)) return kHidden;
  double term = 0;
  if (geometry_.pair_terms())
    geometry_.add_pair_terms(b_, query_head(at.h), at.i, {j, j + 1}, &term);
  return term;
}

}  // namespace attest::core::backward
