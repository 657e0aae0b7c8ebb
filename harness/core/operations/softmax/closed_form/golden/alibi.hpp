// The codebook golden of a problem with ALiBi. It computes every row of one sequence and head from
// sums that fade with the distance.
//
// With w = exp(-slope d), d = |p - j|, a row's numerator is sum_g e^S_hg sum_{j in g} w_j v_j. The
// inner sums run forwards for keys up to the diagonal and backwards for keys after it. Moving one
// step away multiplies a sum by exp(-slope); `age` counts these steps, and the multiplication is
// done when old keys would vanish. For a row far from all keys, exp(-slope d) would be 0, so
// distances count from the nearest position that it sees.
//
// No two keys have the same score. So each key has its own rounding of its probability, and of its
// score after the distance was added; the latter depends on that score. Therefore there are also
// sums with the distance and with its square as factors. The keys of a code share the dot product
// and its error.
#pragma once
#include <functional>
#include <vector>

#include "core/operations/softmax/closed_form/golden/rows.hpp"

namespace attest::core::codebook {

class AlibiRows {
 public:
  /// Receives the expectation of one row: o and its sigma [head_dim_v], lse and its sigma.
  using Row = std::function<void(int64_t place, const double* o, const double* o_sigma, double lse,
                                 double lse_sigma)>;

  /// The arithmetic of `model` must have been declared to `scores`. slope >= 0.
  AlibiRows(const Codebook& book, const attest_softmax_params& params, const Tensor& v,
            const HeadScores& scores, const SigmaModel& model, double slope, int64_t b,
            int64_t head);
  /// Whether this class can compute the problem: a band is allowed, patches are not.
  static bool fit(const Problem& problem);
  void run(const Row& row);

 private:
  // Sums over the keys on one side of the diagonal, by group, as they were `age` positions ago. The
  // true weights are exp(-slope age) x, the true distances d + age.
  struct Side {
    std::vector<double> v;                 // [groups, kFadingSums, width], see kernels.hpp
    std::vector<double> w, w2, w2d, w2d2;  // [groups]: sum x, x^2, x^2 d, x^2 d^2
    std::vector<int64_t> nearest;          // [groups]: the last key that was added, or -1
    int64_t age = 0;
  };
  // Sums of one row over all groups and both sides. Not normalised; relative to a key at the
  // nearest position.
  struct Partial {
    std::vector<double> sums;  // [kFadedSums, width]
    double total = 0, p2 = 0, e2 = 0, shared = 0, lse_score = 0, lse_shared = 0, square = 0,
           mean_dot = 0, at_cap = 0, largest = 0;
    int sides = 0;
  };
  // Keys of a row whose p is below a bound: their number, and the sums of p and p^2.
  struct Below {
    double keys = 0, p = 0, p2 = 0;
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
  int64_t group_of(int64_t j) const;  // -1: hidden, or no query sees it
  int64_t nearest_place(int64_t place) const;
  void weigh(const Side& side, int64_t place, int64_t farthest, Partial& row);
  void weigh_group(const Side& side, size_t at, size_t g, double x, int64_t p, Partial& row);
  void share(size_t at, Partial& row) const;
  void forward_to(int64_t p, Side& side, int64_t& at) const;
  void backward_to(int64_t p, Side& side, int64_t& at) const;
  void finish(int64_t place, int64_t group, const Partial& partial, const Row& row);
  void move_plain(Interval keys);
  Below below(int64_t group, int64_t place, double total, double least) const;

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
  Interval plain_at_;  // the keys of the unweighted sums below
  double plain_count_ = 0;
  std::vector<double> plain_v_, plain_v2_, plain_groups_;
};

}  // namespace attest::core::codebook
