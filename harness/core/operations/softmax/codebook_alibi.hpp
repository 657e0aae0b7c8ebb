// The codebook golden of a problem with ALiBi: every row of one sequence and head from sums that fade with the distance.
//
// With w = exp(-slope d), d = |p - j|, a row's numerator is sum_g e^S_hg sum_{j in g} w_j v_j. The inner sums run forward for
// keys up to the diagonal and backward for those after it; a step multiplies what was there by exp(-slope), which a common factor
// holds until it has to be multiplied out. No two keys share a score, so every key counts for itself in sigma; the part of a
// score that grows with the distance enters its error by its mean square over a group.
#pragma once
#include <functional>
#include <vector>

#include "core/operations/softmax/codebook_rows.hpp"

namespace attest::core::codebook {

class AlibiRows {
 public:
  /// What one row expects: o and its sigma [head_dim_v], lse and its sigma.
  using Row = std::function<void(int64_t place, const double* o, const double* o_sigma, double lse, double lse_sigma)>;

  /// `scores` with the arithmetic of `model` declared; slope >= 0.
  AlibiRows(const Codebook& book, const attest_softmax_params& params, const Tensor& v, const HeadScores& scores,
            const SigmaModel& model, double slope, int64_t b, int64_t head);
  /// Whether the problem is one that this is for: a band or none, no patches.
  static bool fit(const Problem& problem);
  void run(const Row& row);

 private:
  // Sums over the keys on one side of the diagonal, by group; true values are `fade` (its square for the second powers) times
  // these.
  struct Side {
    std::vector<double> v, v2, v1;         // [groups, width]: sum w v, sum w^2 v^2, sum w^2 v
    std::vector<double> w, w2, w2d, w2d2;  // [groups]: sum w, w^2, w^2 d, w^2 d^2; w2d and w2d2 are true values
    std::vector<int64_t> nearest;          // [groups]: the key added last, or -1
    double fade = 1;
  };
  // Sums of the rows of a chunk over all groups, of both sides; unnormalised.
  struct Partial {
    std::vector<double> o, p2v2, p2v, e2v2, e2v;  // [width]
    double total = 0, p2 = 0, e2 = 0, lse_score = 0, square = 0, largest = 0;
  };

  Side empty_side() const;
  void step(Side& side) const;
  void add(Side& side, int64_t j, int64_t distance, double sign) const;
  void load(int64_t j) const;
  int64_t group_of(int64_t j) const;  // -1: hidden, or seen by nobody
  void weigh(const Side& side, int64_t group, int64_t p, int64_t farthest, Partial& row) const;
  void forward_to(int64_t p, Side& side, int64_t& at) const;
  void backward_to(int64_t p, Side& side, int64_t& at) const;
  void finish(int64_t place, int64_t group, const Partial& partial, const Row& row);
  void move_plain(Interval keys);
  double faded(int64_t group, const Partial& row, int64_t keys, int64_t farthest, double least, int power) const;

  const Codebook& book_;
  const attest_softmax_params& p_;
  const Tensor& v_;
  const HeadScores& scores_;
  const SigmaModel& model_;
  double slope_, decay_;
  int64_t b_, head_, kv_head_, length_, width_;
  size_t groups_;
  std::vector<double> top_;          // [query groups]: largest score of any group
  mutable std::vector<double> row_;  // [width]
  Interval plain_at_;                // unweighted sums of the visible keys
  double plain_count_ = 0;
  std::vector<double> plain_v_, plain_v2_, plain_groups_;
};

}  // namespace attest::core::codebook
