// One row of the codebook golden: scores of the codes, sums of the visible keys of each code, o and
// lse with their sigmas.
#pragma once
#include <cmath>
#include <cstdint>
#include <span>
#include <vector>

#include "core/operations/softmax/closed_form/codebook.hpp"
#include "core/operations/softmax/sigma/sigma.hpp"

namespace attest::core::codebook {

/// The query groups x key groups scores of a head (-inf: hidden), and the variance of their error.
struct HeadScores {
  std::vector<double> score, a, b2;  // s; A = scale sum |q k|; B^2 = scale^2 sum (q k)^2
  std::vector<double> dot2,
      kept2;  // squares of what is rounded on the way: SigmaModel::staged_square
  std::vector<double>
      added2;  // of what the step that adds the level's term rounds; 0 where it adds nothing
  std::vector<double> common_b2;  // the part of B^2 that all keys share, which moves nothing but
                                  // the lse; b2 is without it
  std::vector<double> own_dot2;   // dot2 without what they share
  std::vector<double> uncapped, uncapped_b2;  // scale q k and its B^2, where there is a softcap
  // Of one declared arithmetic, after declare(). Keys of one code have one dot product, whatever
  // their levels: its error is shared by all of them. That of the addition is shared by the keys of
  // one level, and `lone` is what each key has for itself.
  std::vector<double> shared_variance, shared_lse_variance, added_variance, added_lse_variance,
      lone_variance;
  std::vector<bool> localised;  // [key groups]: Codebook::localised
  // Of scores, after declare(): 0 unless too large for a sigma that is linear in it; and the
  // largest of a query group.
  std::vector<double> error, largest_error;
  // [query groups], after declare(): the operand of PV cannot hold the values of a key that weighs.
  std::vector<bool> saturated;

  HeadScores() = default;
  /// From the vectors as they lie in memory, in the dtypes of Q and K.
  HeadScores(const Codebook& book, const attest_softmax_params& p, int64_t head, DType q_dtype,
             DType k_dtype);
  void declare(const SigmaModel& model);
  /// Any two averages of the values that a row sees differ by less: what sigma is for an output of
  /// which nothing is known but that it is one.
  double any_average(const SigmaModel& model) const {
    return model.any_average_of(huge_ ? 4 : largest_value_);
  }
  double largest_value() const { return largest_value_; }
  bool has_softcap() const { return cap_ > 0; }
  /// Whether the maximum of a row rises from mark to mark.
  bool rises() const { return rises_; }

 private:
  /// `variance` of a score, or more where the error is so large that the softcap's slope changes
  /// within it.
  double capped_variance(size_t at, double variance, const SigmaModel& model) const;

  bool huge_ = false, rises_ = false, large_scores_ = false;
  double largest_value_ = Codebook::kLargestValue, cap_ = 0;
  std::vector<double> largest_of_;  // [key groups]: |v|, at most
  int64_t keys_ = 0;
  size_t query_groups_ = 0;
};

/// Counts and sums of the keys of each code among the places that one place of a sequence sees.
class GroupSums {
 public:
  /// `place`: a query place; the sums are those of all places of its pattern
  /// (ScoreLevels::pattern).
  GroupSums(const Codebook& book, const Tensor& v, int64_t b, int64_t head, int64_t kv_head,
            int64_t place = 0);
  /// Adds what enters and takes away what leaves; intervals must not move back.
  void move_to(Interval to);
  /// The same from scratch for query place i, whose keys have levels of their own
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
      kept_rows_;  // of gather: V of the interval, which the next place has too as a rule
  std::vector<int64_t> kept_codes_;  // and the key codes
};

/// The expectation of one row.
class RowExpectation {
 public:
  /// `codes` are groups of one score, `levels` of them to a key code, side by side; `sink`: the
  /// head's, or -inf.
  RowExpectation(const SigmaModel& model, const HeadScores& scores, int64_t codes, int64_t levels,
                 int64_t head_dim_v, int64_t width, double sink);
  /// For query group `h`: writes o and its sigma [head_dim_v], lse and its sigma.
  void compute(const GroupSums& sums, size_t h, double* o, double* o_sigma, double* lse,
               double* lse_sigma);

 private:
  double weigh_codes(const double* count, size_t h, double total, double top, double lse,
                     int64_t keys);
  void share_errors(const double* count, size_t h, LseSums& sums);
  void add_sink(LseSums& sums);
  void add_flushed(const GroupSums& sums, double total);
  double lost_mass(const double* count, double total) const;
  double count_later(const double* count);
  double prefix(const GroupSums& sums, size_t element) const;
  void find_unsure(size_t h);
  double unsure_sigma(const GroupSums& sums, size_t h, size_t element) const;
  void find_bent(const double* s, double top);
  double bent_variance(const GroupSums& sums, size_t element) const;

  const SigmaModel& model_;
  const HeadScores& scores_;
  size_t codes_, levels_;
  int64_t head_dim_v_;
  double sink_;
  double sink_error_ = 0;             // variance of what o errs by with the sink, as a share of o^2
  double repeated_ = 0;               // repeated_variance of the row
  double lost_ = 0;                   // of what the normaliser should sum
  double stalled_ = 0;                // ElementSums::stalled
  double rounding_sum_ = 0;           // LseSums::rounding
  double p2_ = 0;                     // sum p^2 over keys
  std::vector<double> count_;         // of the keys whose score is not -inf; then of the sink
  std::vector<double> later_;         // of each code: how often the maximum may rise after its keys
  std::vector<double> marks_;         // weights of the marks that the row sees, in growing order
  std::vector<size_t> unsure_codes_;  // those that count and have a HeadScores::error
  double unsure_error_ = 0;           // the largest of these
  std::vector<size_t> bent_;          // codes whose scores a softcap bends to nearly one number
  double bent_error_ = 0;             // of that number, at most
  std::vector<double> p_, a2_, e2_, lone2_, shared2_, o_, rounding_, score_, p2v2_, flushed_,
      unsure_, zone_;
};

/// Variance of the relative error of a normaliser that adds `count` times each of the probabilities
/// `p` (normalised) in a chain of `chain` steps with unit roundoff `u`: what SigmaModel does not
/// know. It takes roundings for independent, but here the same few numbers are added again and
/// again, and those below an ulp are lost every time. A chain loses on average u / 4 of its end a
/// step, or what the step adds if that is less: L min(u / 4, e / L), e being all but the largest
/// group, which is 1 exactly before it is normalised; and up to u / sqrt(3) where a single key has
/// so much weight that the sum may be as large as its end from the first step on. Steps that differ
/// by much beside an ulp round independently, and how far they do not is the modulus of the
/// characteristic function of a step at one ulp, that of a key to the power of the n / L keys in a
/// step (the error of rounding is a sawtooth, and that is its first harmonic). Phases of summands
/// above an ulp are taken for random, unless those of the summands that there are agree. Without it
/// a healthy sequential float32 sum over 65,551 keys reads 10 sigma.
///
/// A chain of L may also be that of a block of L keys, one each step. Beside the key of largest
/// weight, `top`, the block's sum is of that size from there on, and L times what a key rounds by
/// is u top / sqrt(3) each time. Without it a float32 chain of 4,161 reads 11 sigma where one key
/// of 262,147 has half of the weight.
double repeated_variance(std::span<const double> p, std::span<const double> count, double u,
                         double chain, double keys);

}  // namespace attest::core::codebook
