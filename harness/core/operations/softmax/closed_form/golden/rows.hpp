// One row of the codebook golden: the scores of the codes, the sums over the visible keys of each
// code, and o and lse with their sigmas.
#pragma once
#include <cmath>
#include <cstdint>
#include <span>
#include <vector>

#include "core/operations/softmax/closed_form/codebook.hpp"
#include "core/operations/softmax/sigma/sigma.hpp"

namespace attest::core::codebook {

/// The scores of a head, [query groups, key groups] (-inf: hidden), and the variances of their
/// errors.
struct HeadScores {
  std::vector<double> score, a, b2;  // s; A = scale sum |q k|; B^2 = scale^2 sum (q k)^2
  std::vector<double> dot2,
      kept2;  // the squares for SigmaModel::staged_square
  std::vector<double>
      added2;  // the square that the step rounds which adds a level; 0: nothing is added
  std::vector<double> common_b2;  // the part of B^2 that all keys share and that only moves the
                                  // lse; b2 does not contain it
  std::vector<double> own_dot2;   // dot2 without the part that all keys share
  std::vector<double> uncapped, uncapped_b2;  // with a softcap: scale q k and its B^2
  // After declare(), for that arithmetic. All keys of a code share the error of the dot product
  // (shared_); keys of one level also share the error of the addition (added_); lone_ is the
  // variance of each key's own error.
  std::vector<double> shared_variance, shared_lse_variance, added_variance, added_lse_variance,
      lone_variance;
  std::vector<double> at_cap;   // after declare(): 1 if SigmaModel::is_at_cap, else 0
  std::vector<bool> localised;  // [key groups]: Codebook::localised
  // After declare(): the errors of scores that are too large for a linear sigma (else 0), and the
  // largest such error of each query group.
  std::vector<double> error, largest_error;
  // [key groups], after declare(): whether the operand of PV cannot hold the values.
  std::vector<bool> too_large;

  HeadScores() = default;
  /// Computes scores from the stored vectors, in the dtypes of Q and K.
  HeadScores(const Codebook& book, const attest_softmax_params& p, int64_t head, DType q_dtype,
             DType k_dtype);
  void declare(const SigmaModel& model);
  /// SigmaModel::any_average_of for the values of this head: sigma for an output that is only known
  /// to be an average.
  double any_average(const SigmaModel& model) const {
    return model.any_average_of(huge_ ? 4 : largest_value_);
  }
  double largest_value() const { return largest_value_; }
  /// How many stored query vectors differ: with few channels, codes may have equal ones.
  int64_t distinct_queries() const { return distinct_queries_; }
  bool has_softcap() const { return cap_ > 0; }
  /// Whether the maximum of a row rises from mark to mark.
  bool rises() const { return rises_; }
  /// The part of B^2 that moves all scores together where a query is rounded: all of it where they
  /// rise in one channel.
  double common_square(size_t at) const { return common_b2[at] + (rises_ ? b2[at] : 0); }

 private:
  /// `variance` of a score, or more if the error is so large that the slope of the softcap changes.
  double capped_variance(size_t at, double variance, const SigmaModel& model) const;

  bool huge_ = false, rises_ = false, large_scores_ = false;
  double largest_value_ = Codebook::kLargestValue, cap_ = 0;
  std::vector<double> largest_of_;  // [key groups]: bound of |v|
  int64_t keys_ = 0, distinct_queries_ = 0;
  size_t query_groups_ = 0;
};

/// For each key group: the number of keys in an interval, and the sums of their values.
class GroupSums {
 public:
  /// `place`: a query position. The sums hold for all query positions with the same pattern
  /// (ScoreLevels::pattern).
  GroupSums(const Codebook& book, const Tensor& v, int64_t b, int64_t head, int64_t kv_head,
            int64_t place = 0);
  /// Moves to the next interval: adds keys that enter and subtracts keys that leave. Intervals must
  /// not move back.
  void move_to(Interval to);
  /// Computes the sums anew for query position i, for which the levels of the keys are different
  /// (ScoreLevels::by_pair).
  void gather(int64_t i, Interval keys);

  int64_t width() const { return width_; }  // head_dim_v, padded for the kernels
  static int64_t width_of(int64_t head_dim_v);
  const std::vector<double>& count() const { return count_; }
  const double* sum() const { return sum_.data(); }  // [codes, width]
  const double* squares() const { return squares_.data(); }

 private:
  void clear(int64_t place);
  void add(int64_t j, double sign);
  void add(int64_t code, int64_t level, const double* row, double sign);
  void read(int64_t j, int64_t& code, double* row) const;

  const Codebook& book_;
  const Tensor& v_;
  int64_t b_, head_, kv_head_, place_, width_;
  Interval at_, kept_;
  std::vector<double> count_, sum_, squares_, row_;
  std::vector<double>
      kept_rows_;  // gather: V of the interval; the next position usually has the same interval
  std::vector<int64_t> kept_codes_;  // gather: the key codes of the interval
};

/// Computes the expectation of one row.
class RowExpectation {
 public:
  /// `codes`: the number of key groups; `levels` neighbouring groups have one key code. `sink`: the
  /// head's sink, or -inf.
  RowExpectation(const SigmaModel& model, const HeadScores& scores, int64_t codes, int64_t levels,
                 int64_t head_dim_v, int64_t width, double sink);
  /// Writes o and its sigma [head_dim_v], lse and its sigma, for query group `h`.
  void compute(const GroupSums& sums, size_t h, double* o, double* o_sigma, double* lse,
               double* lse_sigma);

 private:
  double weigh_codes(const double* count, size_t h, double total, double top, double lse,
                     int64_t keys);
  void share_errors(const double* count, size_t h, LseSums& sums);
  void add_sink(LseSums& sums);
  void add_flushed(const GroupSums& sums, double total);
  double lost_mass(const double* count, double total, double divided_by) const;
  double count_later(const double* count);
  double prefix(const GroupSums& sums, size_t element) const;
  void find_unsure(size_t h);
  double unsure_sigma(const GroupSums& sums, size_t element) const;
  void find_code_errors(const double* count, double kappa);
  double leaning(const GroupSums& sums, size_t element) const;
  void find_bent(const double* s, double top);
  double bent_variance(const GroupSums& sums, size_t element) const;

  const SigmaModel& model_;
  const HeadScores& scores_;
  size_t codes_, levels_;
  int64_t head_dim_v_;
  double sink_;
  double sink_error_ = 0;      // variance of o's error from the sink, as a share of o^2
  double lead_variance_ = 0;   // SigmaModel::lead_variance of the row
  double repeated_ = 0;        // repeated_variance of the row
  double lost_ = 0;            // ElementSums::lost
  double stalled_ = 0;         // ElementSums::stalled
  double top_ = 0;             // ElementSums::top
  double rest_ = 1;            // ElementSums::rest
  double at_cap_ = 0;          // ElementSums::at_cap
  double rounding_sum_ = 0;    // LseSums::rounding
  double p2_ = 0;              // sum p^2 over keys
  std::vector<double> count_;  // visible keys of each code; last, the sink
  std::vector<double> later_;  // for each code: how often the maximum may rise after its keys
  std::vector<double> marks_;  // weights of the visible marks, ascending
  // The roundings of p beside one maximum: passes::LeaningRoundings
  struct CodeErrors {
    std::vector<double> of_operands;  // [codes]: dp of one key
    double sum = 0;                   // of dp over all keys
  };
  std::vector<CodeErrors> code_errors_;  // [kTriedMaxima], if SigmaModel::leans
  std::vector<double> own_errors_;       // [codes]: dp before the operand of PV is rounded
  double leaning_of_normaliser_ = 0;     // the largest |sum of these| over keys
  // A code whose score errs so much that its keys may gain much weight
  struct UnsureCode {
    size_t code;
    double error;  // of its score beside that of the heaviest code
  };
  std::vector<UnsureCode> unsure_codes_;
  double unsure_error_ = 0;   // the largest of these errors
  bool saturated_ = false;    // values of a key with weight overflow the operand of PV
  std::vector<size_t> bent_;  // codes whose scores a softcap makes nearly equal
  double bent_error_ = 0;     // bound of the error of these scores
  std::vector<double> p_, a2_, e2_, lone2_, shared2_, o_, rounding_, score_, p2v2_, flushed_,
      unsure_, zone_;
};

/// The variance of the relative error of a normaliser that adds each of the probabilities `p`
/// (normalised) `count` times, in a chain of L = `chain` steps with unit roundoff `u`. SigmaModel
/// assumes independent roundings. Here the same few numbers are added again and again, and those
/// below an ulp are lost every time.
///
/// On average each step of a chain loses u / 4 of the final sum, or the whole addend if that is
/// less: L min(u / 4, e / L), where e is the sum of all groups but the largest, which is exactly 1
/// before it is normalised. The loss is up to u / sqrt(3) if a single key has so much weight that
/// the sum may have its final size from the first step on.
///
/// Steps that differ by much more than an ulp round independently. The share that does not is the
/// modulus of the characteristic function of a step at one ulp: that of one key to the power of the
/// n / L keys in a step. (The error of rounding is a sawtooth; this is its first harmonic.) Phases
/// of summands above an ulp count as random, unless the phases of the summands that occur agree.
/// Without this variance a healthy sequential float32 sum over 65,551 keys reads 10 sigma.
///
/// A chain of L may also be that of a part of L keys, one in each step. The part's sum reaches L /
/// n of the weight, and all parts err alike, because their sums have the same exponents at the same
/// steps: L u / 4 of the sum, times the root of the chance that two keys round alike beside a sum
/// of L / n. Without this, four float32 sums of 16,400 keys of 64 weights read 1.8 of the gate.
///
/// After the key of largest weight, `top`, the sum of its part has that size, and each of the L
/// steps rounds by u top / sqrt(3). Without this a float32 chain of 4,161 reads 11 sigma if one key
/// of 262,147 has half of the weight.
///
/// In coarse sums, Phases know the summands that lie alike in the ulps of a sum: clusters, not one.
/// `total`: the sum before it is divided, in which the largest weight is 1.
double repeated_variance(std::span<const double> p, std::span<const double> count, double u,
                         double chain, double keys, double total);

}  // namespace attest::core::codebook
