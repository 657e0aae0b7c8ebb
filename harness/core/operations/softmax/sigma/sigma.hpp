// Sigma: the standard deviation of the error that a declared arithmetic may make in softmax
// attention. core/judge/SIGMA.md derives it.
//
// Goldens compute sums over keys in different ways (all rows, a sample, closed form). This file
// computes sigma from the sums.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstdint>

#include "core/operations/operation.hpp"
#include "core/operations/softmax/arithmetic.hpp"
#include "core/operations/softmax/sigma/phases.hpp"
#include "core/operations/term_factor.hpp"

namespace attest::core {

/// The terms of sigma. Each stands for one rounding of honest arithmetic.
enum class SigmaTerm {
  kOutput,           // rounding of o
  kOutputSubnormal,  // the same below the smallest normal number
  kProbability,      // rounding of p, relative
  kSubnormal,        // rounding of p below the smallest normal number, absolute
  kExp,              // the declared error of exp
  kEqualScores,      // equal keys err alike: their errors add up
  kNormaliser,       // of the lse: the normaliser sums rounded p
  kTruncation,       // p is truncated: all errors have one sign
  kFlushed,          // p below the smallest normal number is 0
  kFlushedApart,     // p that some parts of the keys flush and others keep
  kFlushedRun,       // p that only a run of neighbouring keys flushes
  kScore,            // rounding of scores
  kDotProduct,       // accumulation of a dot product of mixed signs
  kDotGrowth,        // accumulation of a dot product that grows
  kOwnOrder,         // equal keys whose dot products are summed in different orders
  kOperands,         // Q and K rounded to an operand
  kQuery,            // a rounded query moves all scores together
  kValues,           // V rounded to an operand
  kAccumulator,      // sums over keys
  kReach,            // partial sums that are larger than the final sum
  kAbsorbed,         // p too small to change the sum that they are added to
  kRepeated,         // adding the same number again and again rounds the same way
  kUnderflow,        // numbers below the smallest normal float32 may become 0
  kCommonAddend,     // of the lse: coarse scores with the same addend round alike
  kFoldedScale,      // Q times a scale near a power of two rounds to one side
  kWeighsByLse,      // weights exp(x - lse) contain the rounding of the lse
  kRescale,          // the declared error of an exp that a prefix of the keys shares
  kCutSum,           // of the lse: the normaliser sums truncated p
  kSmallSums,        // sums over keys below the smallest normal number
  kSmallValues,      // V rounded to an operand below its smallest normal number
  kBlocks,           // kRepeated beside a key of large weight, if each block of keys is one chain
  kParts,            // kRepeated in every part of the keys, if each part is one chain
  kStalled,          // so many p are absorbed that the sum stops growing
  kTwoRoundings,     // p that are rounded in the normaliser and again in the product
  kAverage,          // scores err by so much that a row only has to be an average
  kAtCap,            // coarse scores at the softcap share the rounding of the cap
  kSinkLead,         // score - maximum, where the maximum is a sink far above all scores
  kCutSteps,         // truncated p below the smallest normal number all lose half a step
  kSharedRoundings,  // of a query, of nearly equal keys and values, where values follow from keys
  kSwapped,          // keys near the edge of top_k that a rounded score moves across it
  kFewScores,        // of the lse: coarse scores that take few values round alike
  kSmallOperands,    // Q and K rounded to an operand below its smallest normal number
  kAlikeProducts,    // products p v that lie alike in the ulps of a float32 sum
  kLeaning,          // nearly equal p, or p of 8 bits, round to one side
  kCount
};

/// Sums over the visible keys j of one row, for one element with values v_j; p_j = exp(s_j - lse).
/// A group g is a set of keys of equal score. Their roundings are equal and are added before they
/// are squared. A lone key is a group by itself.
struct ElementSums {
  double o = 0;         // sum p v
  double rounding = 0;  // sum_g (sum_{j in g} a_j (v_j - theta o))^2,  a_j = u_p p_j + eta_p kappa
  // sum_g (sum_{j in g} p_j (v_j - o))^2 e_g^2,  e^2 = SigmaModel::score_variance
  double score = 0;
  // passes::SharedRoundings::Variances, if SigmaModel::needs_shared
  double shared_scores = 0, shared_values = 0;
  double p2v2 = 0;  // sum p^2 v^2
  double p2 = 0;    // sum p^2
  // |sum of p v| over the keys that are lost: SigmaModel::Flushing; the largest over any run of
  // neighbours among them, if SigmaModel::flushed_run
  double flushed = 0;
  // Variance of the sum of p v over keys that may be lost, or that one part of the keys may lose
  // and another keep: SigmaModel::Flushing
  double unsure = 0;
  double prefix = 0;  // largest |sum of p (v - o)| over a prefix of the keys, times the root of the
                      // number of rescalings
  double resummed = 0;         // LseSums::rounding if SigmaModel::resums
  double mean_o2 = 0;          // mean of o^2 over the channels; 0: not known
  double coherent = 0;         // LseSums::coherent
  double alike_products = 0;   // SigmaModel::alike_products_variance
  double leaning = 0;          // passes::LeaningRoundings::Errors::o, if SigmaModel::leans
  double lost = 0;             // SigmaModel::lost_of_rest
  double lost_beside_top = 0;  // SigmaModel::lost_beside_top
  double stalled = 0;          // sum of p below SigmaModel::unsummed_below
  double rest = 1;             // SigmaModel::rest
  double top = 0;              // the largest p, that of the sink included
  double at_cap = 0;           // sum of p over keys of SigmaModel::is_at_cap
  double kappa = 1;            // SigmaModel::kappa
  double largest_v = 0;        // largest finite |v| that the row may see
  double lse = 0;
  double reach = 0;  // largest |partial sum of p v| in the order of the keys; at least |o|. Values
                     // that follow a scene sum to much more than o before they cancel, and every
                     // addition rounds the partial sum
};
/// Sums over the visible keys of one row, for the log-sum-exp.
struct LseSums {
  double lse = 0;
  // sum_g (sum_{j in g} a_j)^2, as in ElementSums; if SigmaModel::sums_rounded
  double rounding = 0;
  double leaning_variance = 0;  // SigmaModel::leaning_of_normaliser
  double score = 0;   // sum_g (sum_{j in g} p_j)^2 (u_s^2 s_g^2 + growth s_g^2 + qk_variance)
  double square = 0;  // sum p B^2, if SigmaModel::squares
  // sum p |scaled dot product|, times the softcap's slope; if SigmaModel::scale_bias
  double mean_dot = 0;
  // sum p g over keys to which something was added, see SigmaModel::common_variance
  double common = 0;
  double rescales = 1;  // error of the rescalings of an online softmax, in units of
                        // SigmaModel::rescale
  double coherent = 0;  // variance of errors of the normaliser's sum that do not average out:
                        // SigmaModel::coherent_variance
  double lost = 0;      // SigmaModel::lost_of_lse
  double stalled = 0;   // ElementSums::stalled
  double at_cap = 0;    // ElementSums::at_cap
  double sizes = 0;     // sum p |score|, of all steps of a score; if SigmaModel::few_scores
};

/// Addends of sums that round alike: of all keys in one sum, in sums of parts of them, and, in
/// float32, in the sum of the part that has the largest weight.
struct AlikeAddends {
  struct Sum {
    double ulp = 0;     // as a share of the sum of all keys
    double chance = 0;  // Phases::alike
  };
  Sum whole, part, block;
};

/// Products p v of one channel that round alike in float32 sums.
struct AlikeProducts {
  double reach = 0;  // ElementSums::reach
  double size = 0;   // at least sum p |v|
  // The chances that two products round alike, as Phases::alike gives them, in three sums. They are
  // the sum of all keys, the largest sum of SigmaModel::chain keys that are neighbours, and a sum
  // of as many keys from all over the row. Each has its own ulp.
  double whole = 0, part = 0, lane = 0;
};

struct SigmaModel {
  /// `storage`: the dtype of Q, K and V. If the operands have the same dtype, V is not rounded
  /// again, and scaled Q is rounded once. The constructor assumes that queries need no scaling;
  /// of() uses the problem's scale.
  SigmaModel(const SoftmaxArithmetic& arithmetic, DType storage, int64_t head_dim);
  static SigmaModel of(const SoftmaxArithmetic& arithmetic, const Problem& problem);

  double u_out, eta_out;  // output
  double u_p, eta_p;      // probabilities; u_p includes exp_error, and the operand of PV
                          // if that is coarser
  double flush_below;     // probabilities below this become 0; 0: none do
  double flush_apart;    // within this relative distance of flush_below, a probability may become 0
  double flushed_apart;  // Flushing::apart
  double cut_below, cut_step;  // Flushing::below and ::cut, for a kappa of 1; 0: p are rounded
  // 1 if the kernel flushes: an online softmax keeps what it flushes from the maximum's key on, so
  // where values follow the position of their keys it loses what does not cancel; else 0
  double flushed_run;
  double u_v, eta_v;     // rounding of V to the operand of PV; 0: V is not rounded
  double largest_v;      // the largest number of the operand of PV
  double largest_sum;    // the largest number of the accumulator
  double eta_acc;        // of sums over keys
  double sums_from;      // probabilities and sums below this become 0 in sums over keys; 0: none do
  double u_s, u_acc;     // scores, accumulator
  double u_qk;           // operand of QK if coarser than float32; else 0
  double least_operand;  // error of an operand of QK below its smallest normal number, absolute
  DType qk, pv;          // the operands' dtypes
  DType probability;     // of P before it is the operand of PV
  bool coarse_scores;    // the operand of QK has 8 bits: scores may err too much for a linear sigma
  bool coarse_probabilities;  // probabilities or the operand of PV have 8 bits
  double u_dot;               // the roundoff of float32, in which QK is accumulated
  double u_lse;               // the same if weights are computed from the lse; else 0
  double u_lead;  // the roundoff of score - maximum: that of float64 if P has it, else of float32
  double scale_bias;     // folded_scale_bias if Q may be scaled before it is rounded; else 0
  double normaliser;     // of the lse: 1 if the normaliser sums the rounded probabilities; else 0
  double cap_error = 0;  // rounding of the cap as a coarse score; 0: no cap, or float32 scores
  double slope_at_cap = -1;  // see is_at_cap; below 0: no score is
  double cut_sum;         // of the lse: roundoff of summed probabilities that are truncated; else 0
  double few_scores = 0;  // of the lse: roundoff of scores, after take_few_scores; else 0
  // Factors of terms without their own roundoff. Always 1, except in tests.
  double grown, own_order, query, shared, reach, alike, absorbed, stalled, again, blocks, parts,
      lost, underflow, common, average, swapped, small_sums, alike_products, leaning;
  double exp_error;   // of exp, as declared
  double rescale;     // the error of an exp that a prefix of the keys shares
  bool sums_rounded;  // the normaliser sums the rounded probabilities
  double theta;       // 1: the rounded probabilities are divided by their sum
  double resums;  // 1: they are divided before rounding, weighed by the lse, or rounded again to
                  // the operand of PV
  double least_repeated;  // least `repeated` of coherent_variance, if keys are nearly alike
  double truncated;       // 1: probabilities are truncated
  bool normalised_first;
  bool few_codes, large_scores;  // take_few_codes
  bool scores_repeat = false;    // take_few_scores
  bool values_may_follow;        // take_any_values
  bool scores_spread = false;    // take_spread_scores
  double small_operands = 0;     // variance of a score: take_subnormal_operands
  double softcap;                // 0: none
  int64_t sum_chain;             // 0: all keys
  int64_t head_dim;

  /// exp(max - lse): the factor by which normalising multiplies an absolute error of a probability.
  double kappa(double max, double lse) const;
  /// The number of keys in the longest sequential sum of a row that sees `keys` keys.
  double chain(int64_t keys) const {
    return double(sum_chain > 0 && sum_chain < keys ? sum_chain : keys);
  }
  /// The magnitude of a dot product that qk_variance takes. False: A = scale sum |q_c k_c|. True:
  /// B^2 = scale^2 sum (q_c k_c)^2.
  bool squares() const { return u_qk > 0; }
  /// The variance of a score's error from its operands and its float32 accumulation. For float32
  /// operands it is (u (1 + A))^2, which exceeds the error of every order of summation that was
  /// tried. Operands coarser than float32 round each channel independently, so they add B^2 times
  /// the variances of two roundings, u_qk^2 / 3 each. With A instead of B, sigma would be sqrt(3
  /// head_dim) times larger and hide a lost tile in bf16.
  double qk_variance(double magnitude) const;
  /// The part of qk_variance that equal keys do not share, because their products may be summed in
  /// different orders, as at the edge of a vectorised loop. It is added to the variance that a
  /// group has in common.
  double accumulation_variance(double dot_square, double magnitude) const;
  /// qk_variance as coefficients: q0 + q1 x + q2 x^2, where x = A or x = B.
  struct Quadratic {
    double q0, q1, q2;
  };
  Quadratic qk_quadratic() const;
  /// A sum that ends at s has partial sums of that size. If all products have the same sign, the
  /// partial sums grow evenly, and their head_dim sequential roundings have the variance u^2 s^2
  /// head_dim / 9. That matters if queries resemble their keys.
  double growth() const { return grown * grown * 0x1p-48 * double(head_dim) / 9; }
  /// The variance of a dot product's error, divided by the square of the scaled dot product.
  double dot_growth() const { return growth() + scale_bias * scale_bias; }
  /// If the first products of a dot product already sum to its size, growth() is this many times as
  /// large.
  static constexpr double kUneven = 3;
  /// Call this for inputs whose vectors are a large common part plus one of few codes. Their dot
  /// products do not grow evenly, and many of their weights are nearly equal. `large` says that the
  /// scores of all rows are large.
  void take_few_codes(bool large) {
    grown *= std::sqrt(kUneven);
    least_repeated = 1;
    few_codes = true;
    large_scores = large;
  }
  /// Call this for inputs whose scores take few values. Coarse scores that are equal round
  /// alike, whether or not their keys are equal. All of them may round to one side: a query that
  /// was itself rounded brings every score equally near to a number of the scores' dtype. So the
  /// lse errs by up to u_s sum p |s|, which is reached where each error is the largest. The
  /// probabilities of equal scores are equal addends of the normaliser.
  void take_few_scores();
  /// Call this for inputs whose scores spread over hundreds and more. A coarse score may err so
  /// much there that the wrong key has the largest. One product may have the size of the whole dot
  /// product, and may be the first.
  void take_spread_scores() {
    grown *= std::sqrt(kUneven);
    scores_spread = true;
  }
  /// Call this for inputs whose scores are sums of products of two numbers, of which one is near
  /// the smallest normal number of the operands' dtype and the other has the magnitude `beside`.
  /// Half a step between subnormal numbers, or a whole number where they become 0, errs by much
  /// more there than a roundoff. A scale that is above 1 may be part of the operand that rounds.
  void take_subnormal_operands(double beside);
  /// Up to these errors of scores exp(x) - 1 is nearly x: to 13 % where the scores of some rows are
  /// large, to 2.5 % where those of all rows are.
  static constexpr double kLinear = 0.25, kLinearIfLarge = 0.05;
  /// A value of any size does not show if its key has no more weight than this.
  static constexpr double kWeightless = 1e-17;
  /// The variance of a score's error: that of its dot product, plus that of its own rounding, which
  /// is a uniform error of up to u_s |s|.
  double score_square() const { return u_s * u_s / 3 + dot_growth(); }
  double score_variance(double square, double magnitude) const {
    return score_square() * square + qk_variance(magnitude);
  }
  /// A sink that is above all scores is the maximum, and a kernel subtracts it from each score.
  /// Returns the variance of that subtraction's rounding. `lead` is how far the sink is above the
  /// largest score. If a key has the maximum, keys far below it weigh little, so score_variance
  /// covers their rounding.
  double lead_variance(double lead) const { return u_lead * u_lead * lead * lead / 3; }

  /// A score may be rounded after each step: after scaling, after the softcap, and after the
  /// addition of bias and ALiBi. Returns the square by which score_square() is multiplied: s^2 if
  /// there is one step, else a weighted mean over the steps. `dot`: the square of the scaled
  /// product, times the square of the softcap's slope. `kept`: the sum of the squares after all
  /// steps, likewise.
  double staged_square(double dot, double kept) const { return staged_square(dot, dot, kept); }
  /// `own_dot`: as `dot`, without the part of the product that all keys share and that a scaled
  /// query rounds alike.
  double staged_square(double dot, double own_dot, double kept) const {
    return (u_s * u_s / 3 * kept + growth() * dot + scale_bias * scale_bias * own_dot) /
           score_square();
  }

  /// Probabilities below `gone` are lost: they are flushed, or too small to change the sum that
  /// they are added to, of which each step adds keys / chain probabilities. Those between `gone`
  /// and `kept` may be lost, depending on how they are rounded before. A kernel that splits the
  /// keys into parts, or meets the maximum late, flushes by the maximum that it knows. So it may
  /// lose only some of the keys below `gone`, whose sum need not cancel as that of all of them
  /// does: `apart` is what each adds to the variance, in units of p^2 v^2.
  ///
  /// Of probabilities from `gone` to `below` truncation takes `cut` each: half a subnormal step in
  /// the mean, whatever their size.
  struct Flushing {
    double gone, kept, apart = 0, below = 0, cut = 0;

    /// What is lost of p.
    double lost(double p) const { return p < gone ? p : p < below ? cut : 0; }
  };
  Flushing flushing(double kappa, int64_t keys) const {
    const double gone = std::max(flush_below * (1 - flush_apart) * kappa, absorbed_below(keys));
    return {gone, std::max(flush_below * (1 + flush_apart) * kappa, gone), flushed_apart,
            cut_below * kappa, cut_step * kappa};
  }
  double absorbed_below(int64_t keys) const {
    return u_acc * chain(keys) / double(std::max<int64_t>(keys, 1));
  }
  /// Probabilities below this are lost in the normaliser. It sums them before they are flushed,
  /// unless sums_rounded, but a sum may be flushed itself.
  /// Such a sum is of exp(s - max), even if what PV sums was divided first.
  double unsummed_below(double max, double lse, int64_t keys) const {
    return std::max(sums_rounded ? flushing(kappa(max, lse), keys).kept : absorbed_below(keys),
                    sums_from * (1 + flush_apart) * std::exp(max - lse));
  }
  /// The variance of errors of the normaliser's sum that do not average out, beside what it loses.
  /// It has three parts. Equal addends: they round the same way as long as the sum has the same
  /// exponent; `repeated` is the chance that two addends are equal, the sum of
  /// (share of all keys)^2 over groups of at least two keys. If a step of the chain adds several
  /// keys, all of them must be equal. But the chain may be that of a part of the keys, with one key
  /// in each step. The sums of all parts then have the same exponents at the same steps. So these
  /// sums err alike. Blocks: if one key has much of the weight, `top`, the sum of its part has its
  /// final size from then on, and every addition rounds the same way. Addends that lie alike in the
  /// ulps of the sum round alike, too: in float32 they are as good as equal.
  double coherent_variance(double repeated, const AlikeAddends& addends, double top,
                           int64_t keys) const;
  /// The same of the sums of products of one channel, where values cancel over the row: then o is
  /// much smaller than the partial sums whose ulps the errors have. If keys are split, each part of
  /// neighbouring keys has its own partial sums.
  double alike_products_variance(const AlikeProducts& products, int64_t keys) const;
  /// Whether a sum over `keys` keys needs AlikeAddends. Sums that are finer than float32 do not.
  /// Nor do short sums in float32: their gate has room for additions that round alike.
  bool sums_may_round_alike(int64_t keys) const {
    return are_coarse(u_acc) || (u_acc >= 0x1p-24 && keys > int64_t(kSampledFrom));
  }

  /// Sigma is linear in the share that a sum loses. A sum that has lost a quarter or more may have
  /// stopped growing, and the normaliser may have stopped before the products. Then the output is
  /// only known to have the size of the values, and the lse the size of the scores. Returns 0 or 1,
  /// a factor of the squares of these sizes. `lost_sum` is of p below unsummed_below. Of these, at
  /// most u_acc * chain is absorbed. The rest is flushed, and does not stop a sum.
  double stalled_square(double lost_sum, int64_t keys) const;
  /// What is left of a normaliser of 1 that has lost a quarter or more in flushed sums; 1: it has
  /// lost less, or its sum may have stopped. A flushed sum keeps the largest p, `top`. Divided by
  /// what is left, all errors are that much larger.
  double rest(double lost_sum, double top, int64_t keys) const;
  /// What a normaliser loses, as a share of what is left of it. A product whose values are large
  /// loses less, so o may be too large by that share, and no average any more.
  double lost_of_rest(double lost_sum, double rest) const;
  /// If nearly all of the weight is that of one key, whose value may be 0, the partial sums of o
  /// may be those of all other keys. Returns which share of them they lose beside one another.
  double lost_beside_top(double lost_sum, double top, int64_t keys) const;
  /// By how much the lse is too small then, at most: -log(rest), which is less than that share.
  double lost_of_lse(double lost_sum, double rest) const;

  /// The variance of o from the error that all scores at the softcap share.
  double cap_variance(const ElementSums& sums) const;

  /// exp, products, partial sums and results may give 0 for numbers below the smallest normal
  /// float32 (exp often from -87 on). Each key then errs by up to that number times |v|, always in
  /// the same direction. This only matters if the keys that take the weight have values of 0. At
  /// 2^18 keys the bound is 2^-108 |v|; no bug is that small.
  double underflow_bound(double kappa, double largest, int64_t keys) const;
  /// Scores that were rounded to a coarse dtype are multiples of an ulp. If the same number is
  /// added to many of them and the sums are rounded again, all have the same error: that of the
  /// addend, rounded to the ulp. If the ulp of a sum is larger, the rest averages out. So the
  /// common error is uniform and at most u_s g, g = min(|score before|, |score after|). It moves
  /// the lse by its mean over p, and o not at all. For float32 scores it is negligible beside the
  /// rounding of the lse.
  bool has_common_addends() const;

  /// Softcaps bend all large scores to the cap or to its negative, less than a roundoff apart. So
  /// coarse scores of different keys share the error with which the cap is rounded. `slope`: of the
  /// softcap at the score, 1 - tanh^2.
  bool is_at_cap(double slope) const { return slope <= slope_at_cap; }
  double common_variance(double mean) const {
    return common * common * u_s * u_s / 3 * mean * mean;
  }

  /// All weights exp(x - lse) contain the rounding of the lse, a uniform error of up to u |lse|,
  /// which no division removes. If parts are merged, their weights also contain the rounding of the
  /// part's own lse: a part of weight w has lse + ln w, and w |ln w| < 1. The error affects o, and
  /// the sums of the parts, which `sum` bounds. The declared error of exp is not divided out
  /// either.
  double weights_variance(double lse, double o, double sum) const {
    const double off = u_lse * (std::fabs(lse) + 1), rough = u_lse > 0 ? exp_error : 0;
    return (off * off / 3 + rough * rough) * (o * o + sum * sum);
  }

  /// The sigma of a probability exp(x) whose score errs by `error`, more than kLinear: four of
  /// these errors are four of that sigma. A key of little weight and a large value shows such an
  /// error alone. No probability is larger than 1.
  double bent_error(double x, double error) const {
    return average * (std::exp(std::min(x + kErrors * error, 0.0)) - std::exp(x)) / kErrors;
  }
  /// The sigma of the lse from such a key, which may take all of the weight.
  double bent_rise(double x, double error) const {
    return average * std::max(x + kErrors * error, 0.0) / kErrors;
  }
  static constexpr double kErrors = 4;

  /// Whether the golden needs ElementSums::prefix. An online softmax multiplies its sums by exp(old
  /// maximum - new maximum), and all earlier keys share the error of that exp. In o the error is
  /// multiplied by the sum of p (v - o) over these keys, so the largest such sum is needed. For an
  /// error of a few ulp, the largest partial sum of p v is a good enough bound.
  bool needs_prefix() const { return rescale > 0x1p-20; }

  /// The sigma of an output of which nothing is known except that it averages values of |v| <=
  /// `largest`: any two averages differ by at most one gate.
  double any_average_of(double largest) const { return average * 2 * largest / kGate; }
  /// Gates::kLargest: the largest error that passes, in sigmas.
  static constexpr double kGate = 6;

  /// Call this where Q, K and V are stored in 8 bits with factors. A kernel that multiplies Q
  /// and K by theirs before it rounds them to a coarse operand rounds equal numbers alike: f8e4m3
  /// has 8 mantissas and f8e5m2 has 4, so the roundings do not average out over the channels. Sigma
  /// assumes that the mean error of Q is spread evenly over one roundoff of the operand on either
  /// side of 0, the worst case, and that of K too.
  void take_factors();

  /// Call this for inputs whose values may follow from their keys, as those of tokens do.
  void take_any_values() { values_may_follow = true; }
  /// Whether the golden needs passes::SharedRoundings.
  bool needs_shared() const { return values_may_follow && shared > 0 && (u_qk > 0 || u_v > 0); }
  /// Whether probabilities are rounded to less than float32.
  bool rounds_probabilities() const;
  /// What independent roundings may give by chance, in units of their variance.
  static constexpr double kChance = 2;
  /// By how much a variance of roundings that keys share exceeds what independent ones may give by
  /// chance; `apart` is their variance.
  double shared_variance(double together, double apart) const {
    return shared * shared * std::max(0.0, together - kChance * apart);
  }

  /// Whether the golden needs passes::LeaningRoundings: probabilities that are rounded below
  /// float32 may be nearly equal, or are rounded to 8 bits. Truncated ones err to one side in any
  /// case, and have terms for that; tokens need more.
  bool leans() const {
    if (leaning == 0 || !rounds_probabilities()) return false;
    const bool clusters = few_codes || is_small(softcap);
    return values_may_follow || (truncated == 0 && (clusters || coarse_probabilities));
  }
  /// Whether a softcap is so small that clusters of equal scores have some weight.
  static bool is_small(double softcap) { return softcap > 0 && softcap <= 8; }
  /// By how much the square of an error of LeaningRoundings exceeds `apart`, what independent
  /// roundings give.
  double leaning_variance(double error, double apart) const {
    return leaning * leaning * std::max(0.0, error * error - apart);
  }
  /// The same of a normaliser, whose sum errs by `error`. `rounding`: LseSums::rounding.
  double leaning_of_normaliser(double error, double rounding) const {
    return sums_rounded ? leaning_variance(error, rounding + cut_sum * cut_sum) : 0;
  }

  double small_variance(const ElementSums& sums, double most, int64_t keys) const;
  double element_sigma(const ElementSums& sums, int64_t keys) const;
  double lse_sigma(const LseSums& sums, int64_t keys) const;
};

/// At most so many rows of output `role` err independently, however many queries there are.
///
/// To first order, keys that are rounded by dk_j move the lse of a row by scale q . (sum p_j dk_j).
/// Where weights are alike in all rows, the sum is one vector for all queries of a key head, so no
/// more than head_dim errors are independent. Each element of o has a sum of its own for each
/// channel of V. `sequences`: how many have keys of their own.
int64_t most_independent(const Arithmetic& arithmetic, const Problem& problem, int32_t role,
                         int64_t sequences);

}  // namespace attest::core
