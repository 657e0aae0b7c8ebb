// The standard deviation of the error that a declared arithmetic may make in softmax attention;
// core/judge/README.md derives it.
//
// Goldens differ in how they gather the sums over keys (full, sampled, closed form); what becomes
// of the sums is here.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstdint>

#include "core/operations/operation.hpp"
#include "core/operations/softmax/arithmetic.hpp"
#include "core/operations/term_factor.hpp"

namespace attest::core {

/// The terms that sigma is made of, each for one thing that honest arithmetic does.
enum class SigmaTerm {
  kOutput,           // rounding of o
  kOutputSubnormal,  // the same below the smallest normal number
  kProbability,      // rounding of p, relative
  kSubnormal,        // rounding of p below the smallest normal number, absolute
  kExp,              // the declared error of exp
  kEqualScores,      // equal keys err alike: their errors add up
  kNormaliser,       // of the lse: the normaliser sums rounded p
  kTruncation,       // p is cut: all errors to one side
  kFlushed,          // p below the smallest normal number is 0
  kScore,            // rounding of scores
  kDotProduct,       // accumulation of a dot product of mixed signs
  kDotGrowth,        // accumulation of a dot product that grows
  kOwnOrder,         // equal keys whose dot products are summed in different orders
  kOperands,         // Q and K rounded to an operand
  kQuery,            // a rounded query moves all scores together
  kValues,           // V rounded to an operand
  kAccumulator,      // sums over keys
  kReach,            // sums that grow beyond their end before they cancel
  kAbsorbed,         // p that vanish in the sum they are added to
  kRepeated,         // one number added again and again rounds the same way
  kUnderflow,        // what lies below the smallest normal float32 may be 0
  kCommonAddend,     // of the lse: scores that are coarse and all get the same addend round alike
  kFoldedScale,      // Q times a scale near a power of two rounds to one side
  kWeighsByLse,      // exp(x - lse) as weights: what lse is rounded by stays in them
  kRescale,          // the declared error of an exp that a prefix of the keys shares
  kCutSum,           // of the lse: the normaliser sums p that are cut
  kSmallSums,        // sums over keys below the smallest normal number
  kSmallValues,      // V rounded to an operand below its smallest normal number
  kBlocks,           // the same beside a key of large weight, where each block of keys is one chain
  kStalled,          // so many p vanish in the sum they are added to that it stops growing
  kTwoRoundings,     // p that are rounded in the normaliser and, apart from it, in the product
  kFewSteps,         // p that are all of a few subnormal steps round alike
  kAverage,          // scores err by so much that a row only has to be an average
  kCount
};

/// Sums over the visible keys j of one row, for one element with values v_j; p_j = exp(s_j - lse).
/// A group g is a set of keys of equal score: their roundings are equal, so they add before they
/// are squared; a lone key is a group of its own.
struct ElementSums {
  double o = 0;         // sum p v
  double rounding = 0;  // sum_g (sum_{j in g} a_j (v_j - theta o))^2,  a_j = u_p p_j + eta_p kappa
  // sum_g (sum_{j in g} p_j (v_j - o))^2 e_g^2,  e^2 = SigmaModel::score_variance
  double score = 0;
  double p2v2 = 0;     // sum p^2 v^2
  double p2 = 0;       // sum p^2
  double flushed = 0;  // sum of p v over the keys that are lost: SigmaModel::Flushing
  // Variance of the same over keys that may be, or may not: SigmaModel::Flushing
  double unsure = 0;
  double prefix = 0;  // largest |sum of p (v - o)| over keys that come first, times the root of how
                      // often they are rescaled
  double resummed = 0;   // LseSums::rounding where SigmaModel::resums
  double mean_o2 = 0;    // mean of o^2 over the channels; 0: not known
  double coherent = 0;   // LseSums::coherent
  double stalled = 0;    // sum of p below SigmaModel::absorbed_below
  double kappa = 1;      // SigmaModel::kappa
  double largest_v = 0;  // largest finite |v| that the row may see
  double lse = 0;
  double reach = 0;  // largest |sum p v| on the way through the keys in the order of their places;
                     // at least |o|. Values that follow a scene grow far beyond o before they
                     // cancel, and every addition rounds what it has by then
};
/// The same for the log-sum-exp.
struct LseSums {
  double lse = 0;
  // sum_g (sum_{j in g} a_j)^2, as in ElementSums; where SigmaModel::sums_rounded
  double rounding = 0;
  double score = 0;   // sum_g (sum_{j in g} p_j)^2 (u_s^2 s_g^2 + growth s_g^2 + qk_variance)
  double square = 0;  // sum p B^2 where SigmaModel::squares
  // sum p |scaled dot product|, times the softcap's slope; where SigmaModel::scale_bias
  double mean_dot = 0;
  // sum p g over keys to which something was added, see SigmaModel::common_variance
  double common = 0;
  double rescales = 1;  // errors of an online softmax's exp in it, in SigmaModel::rescale
  double coherent = 0;  // variance of errors of the normaliser's sum that do not average out:
                        // SigmaModel::coherent_variance
  double stalled = 0;   // ElementSums::stalled
};

struct SigmaModel {
  /// `storage`: the dtype of Q, K and V: operands as coarse as what is stored are not rounded once
  /// more (V), or once (scaled Q). Of queries that need no scaling; of() knows the problem's.
  SigmaModel(const SoftmaxArithmetic& arithmetic, DType storage, int64_t head_dim);
  static SigmaModel of(const SoftmaxArithmetic& arithmetic, const Problem& problem);

  double u_out, eta_out;  // output
  double u_p, eta_p;      // probabilities; u_p includes exp_error, and the operand of PV
                          // where that is coarser
  double flush_below;     // probabilities under it become 0; 0: none do
  double flush_apart;     // how far from it, as a share, that is not known
  double u_v, eta_v;      // rounding of V to the operand of PV; 0 where none
  double largest_v;       // that the operand of PV holds
  double eta_acc;         // of sums over keys
  double u_s, u_acc;      // scores, accumulator
  double u_qk;            // operand of QK where coarser than float32; else 0
  bool coarse_scores;     // it has 8 bits: errors of scores may be too large for a linear sigma
  double u_dot;           // accumulation of QK: float32
  double u_lse;           // of the lse where it weighs: float32; else 0
  double scale_bias;  // folded_scale_bias of Q where it may be scaled before it is rounded; else 0
  double normaliser;  // of the lse: 1 where the normaliser sums the rounded probabilities; else 0
  double cut_sum;     // of the lse: roundoff of these where they are cut; else 0
  // Factors of terms that have no roundoff to themselves: 1 but in tests.
  double grown, own_order, query, reach, alike, absorbed, stalled, again, blocks, lost, underflow,
      common, few_steps, average;
  double exp_error;   // exp_error
  double rescale;     // the same of an exp that a prefix of the keys shares
  bool sums_rounded;  // the normaliser sums the rounded probabilities
  double theta;       // 1: and divides them by that sum
  double resums;      // 1: it does not: they are divided first, weighed by the lse, or rounded once
                      // more to the operand of PV
  double least_repeated;  // of coherent_variance's `repeated`, where keys are nearly alike
  double truncated;       // 1: probabilities are cut
  bool normalised_first;
  int64_t sum_chain;  // 0: all keys
  int64_t head_dim;

  /// exp(max - lse): what an absolute error of an unnormalised probability becomes.
  double kappa(double max, double lse) const;
  /// Keys in the longest sequential sum of a row that sees `keys` keys.
  double chain(int64_t keys) const {
    return double(sum_chain > 0 && sum_chain < keys ? sum_chain : keys);
  }
  /// Which magnitude of a dot product qk_variance takes: false: A = scale sum |q_c k_c|; true: B^2
  /// = scale^2 sum (q_c k_c)^2.
  bool squares() const { return u_qk > 0; }
  /// Variance of the error of a score from its operands and its float32 accumulation. In float32 (u
  /// (1 + A))^2: with c = 1 it is above the error of every order of summation seen, so a larger c
  /// would only buy slack. Operands coarser than float32 are rounded channel by channel,
  /// independently, so they enter by B: two of them, each of variance u_qk^2 / 3. To take A for
  /// them as well would make sigma sqrt(3 head_dim) larger and hide a lost tile in bf16.
  double qk_variance(double magnitude) const;
  /// The part of qk_variance that equal keys do not share: their sums may be taken in other orders,
  /// as at the edge of a vectorised loop. A group's variance has it beside what the group has in
  /// common.
  double accumulation_variance(double dot_square, double magnitude) const;
  /// The same as coefficients: q0 + q1 x + q2 x^2, where x = A or x = B.
  struct Quadratic {
    double q0, q1, q2;
  };
  Quadratic qk_quadratic() const;
  /// A sum that ends at s has passed partial sums of that size: where all products have one sign
  /// they grow evenly, and head_dim sequential roundings of them have the variance u^2 s^2 head_dim
  /// / 9. That matters where queries resemble their keys.
  double growth() const { return grown * grown * 0x1p-48 * double(head_dim) / 9; }
  /// What the square of a scaled dot product adds to the variance of its error.
  double dot_growth() const { return growth() + scale_bias * scale_bias; }
  /// Where a dot product is as large from its first products on, growth() is kUneven times that.
  static constexpr double kUneven = 3;
  /// For inputs whose vectors are a large common part and one of few codes: their dot products do
  /// not grow evenly, and many of their weights are nearly alike.
  void take_few_codes() {
    grown *= std::sqrt(kUneven);
    least_repeated = 1;
  }
  /// Variance of the error of a score: of its dot product, and of its own rounding, a uniform error
  /// of u_s |s|.
  double score_square() const { return u_s * u_s / 3 + dot_growth(); }
  double score_variance(double square, double magnitude) const {
    return score_square() * square + qk_variance(magnitude);
  }
  /// A score may be kept, and rounded, after each step that makes it: scaled, capped, with what is
  /// added to it (bias, ALiBi). What score_square() is the factor of: s^2 where there is one step,
  /// else a mean of the squares of the steps. `dot`: of the scaled product, times the square of the
  /// softcap's slope, by which its error shrinks; `kept`: the sum over all steps.
  double staged_square(double dot, double kept) const {
    return (u_s * u_s / 3 * kept + dot_growth() * dot) / score_square();
  }

  /// Probabilities below `gone` are lost: flushed, or smaller than half an ulp of the sum that they
  /// are added to, where a step of the chain adds keys / chain of them. Those between it and `kept`
  /// may be: what is rounded first may survive.
  struct Flushing {
    double gone, kept;
  };
  Flushing flushing(double kappa, int64_t keys) const {
    const double gone = std::max(flush_below * (1 - flush_apart) * kappa, absorbed_below(keys));
    return {gone, std::max(flush_below * (1 + flush_apart) * kappa, gone)};
  }
  double absorbed_below(int64_t keys) const {
    return u_acc * chain(keys) / double(std::max<int64_t>(keys, 1));
  }
  /// The same of the normaliser, which sums them before they are flushed unless theta is 1.
  double unsummed_below(double kappa, int64_t keys) const {
    return sums_rounded ? flushing(kappa, keys).kept : absorbed_below(keys);
  }
  /// Sums that do not average out: what is lost altogether (sum of p below unsummed_below), and the
  /// same addend again and again, which rounds the same way as long as the sum has the same
  /// exponent; `repeated`: the chance that two addends are alike, the sum of (share of all keys)^2
  /// over groups of two keys and more. Where a step of the chain adds several keys, all of them
  /// must be alike. But the chain may be that of a block of keys, one each step. Beside a key that
  /// has much of the weight, `top`, such a sum is as large as its end from the first step on, and
  /// what is added rounds the same way each time.
  double coherent_variance(double lost, double repeated, double top, int64_t keys) const;

  /// Sigma is linear in what a sum loses. A sum that has lost a quarter and more may have stopped
  /// growing, and the normaliser before the products: what remains to be said of an output is that
  /// it is of the size of the values, of the lse that it is a number of the size of scores. 0 or 1,
  /// times the variance of these.
  double stalled_square(double lost_sum) const;

  /// An exp may give 0 where float32 has no normal number (-87 is a usual limit), and so may
  /// products, partial sums and results: each key errs by up to the smallest normal number, times
  /// |v|, all to one side. Beside all else this is nothing unless the keys that take the weight
  /// have values of 0. At 2^18 keys it is 2^-108 |v|: no bug is of that size.
  double underflow_bound(double kappa, double largest, int64_t keys) const;
  /// A score that was rounded to a coarse dtype is a multiple of an ulp. Adding one number to many
  /// of these and rounding again leaves all of them with the same error, that of the addend beside
  /// the ulp; where the sum's ulp is larger, what the scores' own places in it do averages out. So
  /// the common part is at most u_s g, g = min(|score before|, |score after|), uniform. It moves
  /// the lse by its mean over p, and o not at all. Float32's is nothing beside the lse's own
  /// rounding.
  bool has_common_addends() const;
  double common_variance(double mean) const {
    return common * common * u_s * u_s / 3 * mean * mean;
  }

  /// Weights exp(x - lse) are all off by what lse is rounded by, a uniform error of u |lse|, and
  /// nothing divides it out again; those of parts that are merged besides by what the lse of each
  /// part is. A part of weight w has lse + ln w, and w |ln w| < 1. What is off by u |lse|: o, and
  /// the parts' own sums, which `sum` bounds. Nor is the declared error of exp divided out.
  double weights_variance(double lse, double o, double sum) const {
    const double off = u_lse * (std::fabs(lse) + 1), rough = u_lse > 0 ? exp_error : 0;
    return (off * off / 3 + rough * rough) * (o * o + sum * sum);
  }

  /// An online softmax multiplies what it has summed so far by exp(old maximum - new one): all keys
  /// before share the error of that exp. In o it is that error times sum p (v - o) over them, so
  /// its largest value matters. An error of few units in the last place is not worth looking for
  /// it: the largest partial sum of p v bounds it nearly.
  bool needs_prefix() const { return rescale > 0x1p-20; }

  /// What sigma is where nothing is known of an output but that it is an average of values up to
  /// `largest` in size: two averages differ by a gate at most.
  double any_average_of(double largest) const { return average * 2 * largest / kGate; }
  /// Gates::kLargest: how many sigmas an honest output may be off.
  static constexpr double kGate = 6;

  double small_variance(const ElementSums& sums, double most, int64_t keys) const;
  double element_sigma(const ElementSums& sums, int64_t keys) const;
  double lse_sigma(const LseSums& sums, int64_t keys) const;
};

}  // namespace attest::core
