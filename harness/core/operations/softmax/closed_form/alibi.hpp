// The codebook golden of a problem with ALiBi: every row of one sequence and head from sums that
// fade with the distance.
//
// With w = exp(-slope d), d = |p - j|, a row's numerator is sum_g e^S_hg sum_{j in g} w_j v_j. The
// inner sums run forward for keys up to the diagonal and backward for those after it; a step
// further away multiplies what was there by exp(-slope), which their age holds until a new key
// makes what is old vanish. A row far from all keys weighs them from the nearest place that it
// sees: exp(-slope d) alone would be 0 there.
//
// No two keys share a score, so the rounding of the probabilities and of the scores with their
// distance is every key's own, and the latter differs by key: a score that its distance brings to 0
// errs by nothing, the next one by what the difference rounds. So the sums are kept with the
// distance and its square too. The dot product before it is shared by the keys of a code.
#pragma once
#include <functional>
#include <vector>

#include "core/operations/softmax/closed_form/rows.hpp"

namespace attest::core::codebook {

class AlibiRows {
 public:
  /// What one row expects: o and its sigma [head_dim_v], lse and its sigma.
  using Row = std::function<void(int64_t place, const double* o, const double* o_sigma, double lse,
                                 double lse_sigma)>;

  /// `scores` with the arithmetic of `model` declared; slope >= 0.
  AlibiRows(const Codebook& book, const attest_softmax_params& params, const Tensor& v,
            const HeadScores& scores, const SigmaModel& model, double slope, int64_t b,
            int64_t head);
  /// Whether the problem is one that this is for: a band or none, no patches.
  static bool fit(const Problem& problem);
  void run(const Row& row);

 private:
  // Sums over the keys on one side of the diagonal, by group, as they were `age` places ago: true
  // weights are exp(-slope age) times x, true distances d + age.
  struct Side {
    std::vector<double> v;                 // [groups, kFadingSums, width], see codebook_kernels.hpp
    std::vector<double> w, w2, w2d, w2d2;  // [groups]: sum x, x^2, x^2 d, x^2 d^2
    std::vector<int64_t> nearest;          // [groups]: the key added last, or -1
    int64_t age = 0;
  };
  // Sums of a row of a chunk over all groups, of both sides; unnormalised, relative to a key at the
  // nearest place.
  struct Partial {
    std::vector<double> sums;  // [kFadedSums, width]
    double total = 0, p2 = 0, e2 = 0, shared = 0, lse_score = 0, lse_shared = 0, square = 0,
           mean_dot = 0, largest = 0;
    int sides = 0;
  };
  // One key code on one side of a row.
  struct CodeSums {
    std::vector<double> v;  // [width]: sum p v
    double p = 0;
  };

  Side empty_side() const;
  double fade(const Side& side, int64_t from) const;
  void renew(Side& side) const;
  void add(Side& side, int64_t j, int64_t distance, double sign) const;
  void load(int64_t j) const;
  int64_t group_of(int64_t j) const;  // -1: hidden, or seen by nobody
  int64_t nearest_place(int64_t place) const;
  void weigh(const Side& side, int64_t place, int64_t farthest, Partial& row);
  void weigh_group(const Side& side, size_t at, size_t g, double x, int64_t p, Partial& row);
  void share(size_t at, Partial& row) const;
  void forward_to(int64_t p, Side& side, int64_t& at) const;
  void backward_to(int64_t p, Side& side, int64_t& at) const;
  void finish(int64_t place, int64_t group, const Partial& partial, const Row& row);
  void move_plain(Interval keys);
  double faded(int64_t group, const Partial& row, int64_t keys, int64_t span, double least,
               int power) const;

  const Codebook& book_;
  const attest_softmax_params& p_;
  const Tensor& v_;
  const HeadScores& scores_;
  const SigmaModel& model_;
  double slope_;
  int64_t b_, head_, kv_head_, length_, width_;
  size_t groups_;
  std::vector<double> top_;          // [query groups]: largest score of any group
  mutable std::vector<double> row_;  // [width]
  CodeSums code_;
  Interval plain_at_;  // unweighted sums of the visible keys
  double plain_count_ = 0;
  std::vector<double> plain_v_, plain_v2_, plain_groups_;
};

}  // namespace attest::core::codebook
