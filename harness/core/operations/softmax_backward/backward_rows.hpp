// One key head and the query heads that read it, in float64: the pairs of a query and a key, what
// they add to the gradients, and how far honest kernels may err there.
//
//   HeadRows rows(problem, tensors);
//   rows.load(b, kv_head);
//   PairErrors errors(problem, arithmetic);
//   ... rows.pair(errors, query, j, term) ...
#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "core/operations/softmax/problem/geometry.hpp"
#include "core/operations/softmax/sigma/sigma.hpp"
#include "core/operations/softmax_backward/addend_sample.hpp"
#include "core/operations/softmax_backward/backward_arithmetic.hpp"
#include "core/operations/softmax_backward/operand_steps.hpp"
#include "core/operations/softmax_backward/row_edge.hpp"

namespace attest::core::backward {

using Params = attest_softmax_params;

/// An order of rows of K in which equal rows follow one another. Equal rows are sorted by their
/// rows of V. Rows of Q have such an order, too, sorted by dO.
struct GroupedOrder {
  std::vector<int32_t> place;
  std::vector<bool> ends;      // by index: the group ends with this row
  std::vector<bool> is_alone;  // by index: no other row is equal
  std::vector<int64_t> count;  // by index: the rows of its class (backward_classes.hpp), else 1
  int64_t distinct = 0;
};

/// The score of one pair. `slope`: the derivative of the logit by the scaled product.
struct Score {
  double scaled = 0, magnitude = 0;  // softmax_scale q.k, and the sum of its addends' magnitudes
  double tanh = 0, capped = 0, slope = 1;  // under a softcap: tanh, softcap tanh, 1 - tanh^2
  double logit = 0;
  double operands = 0;  // the variance of `scaled` from Q and K that were rounded before
};

/// What one pair of a query and a key has, and the variances of its errors.
struct Pair {
  double p = 0, slope = 1;
  double d_logit = 0, ds = 0;  // the gradient of the logit, p (do.v - delta); that times the slope
  // Variances that equal keys, or equal queries, share: of the logit and so of p, relative; of p
  // times the slope, as a share of p
  double logit = 0, bent = 0;
  // Bounds of the error that all pairs at the softcap, or all with one bias, have in common: of the
  // logit; of p times the slope
  double uniform = 0, bent_uniform = 0;
  double gradient = 0;  // variance of do.v
  double value = 0;     // the logit itself
  // What an error of 1 of the scaled product does to p, and to p times the slope, as a share of p
  double moves = 1, bent_moves = 1;
  // With top_k: whether the key counts, and RowEdge::share and RowEdge::swaps if it is near the
  // edge
  bool counts = true;
  double share = 0, swaps = 0;
};

/// Variances of what belongs to a query: of delta, from its own sum and from the rounding of O, and
/// of p, relative, from the rounding of LSE.
struct QueryErrors {
  double delta = 0, given_o = 0, lse = 0;
};

/// What a sum over pairs adds: `weight` times a row. `shared`: a deviation that equal rows may have
/// in common, with the sign of the weight, or each for itself, where a bias or an lse differs;
/// `own`: a variance, of errors that equal rows of one weight have in common; `alone`: one of each
/// for itself; `common`: the factor of an error that all pairs of the sum have in common;
/// `uniform`: what all pairs at the softcap, or with one bias, may err by in common;
/// `lost`: the part of the weight that may become 0; `one_way`: a bound of an error that may have
/// one sign in all pairs. All but `own` and `alone` are times the row. `steps`: those of the row
/// where it is rounded before, else null. `is_near`: rounding decides whether the pair counts.
struct Addend {
  double weight = 0, shared = 0, own = 0, alone = 0, common = 0, lost = 0, one_way = 0, uniform = 0;
  const double* steps = nullptr;
  bool is_near = false;
};

/// The variances that depend on the declared arithmetic.
class PairErrors {
 public:
  PairErrors(const Problem& problem, const BackwardArithmetic& arithmetic);

  /// The variance of a logit.
  double of_logit(const Score& score) const;
  /// Writes Pair::logit, bent, uniform and bent_uniform.
  void set_score_errors(const Score& score, double lse, Pair& pair) const;
  /// A bound of the error of a logit's rounding that all pairs of a sum may have in common: they
  /// have one bias, or the logit is the sink's.
  double shared_rounding(double logit) const;
  /// Of a product of `width` channels whose addends' magnitudes sum to `magnitude`.
  double product(double dot, double magnitude, int64_t width) const;
  /// Of delta, from its own sum. `squares`: the sum of the squares of its addends; `factors`: that
  /// of the squares of dO and O.
  double delta(double delta, double magnitude, double squares, double factors) const;
  /// Q and K before q.k; Q and K, V, and dO before they are multiplied by others.
  const OperandRounding& of_score() const { return of_score_; }
  const OperandRounding& of_row() const { return of_row_; }
  const OperandRounding& of_v() const { return of_v_; }
  const OperandRounding& of_d_o() const { return of_d_o_; }
  /// Of p / p, from the lse.
  double lse(double lse) const;
  /// Of p, in a sum over queries.
  Addend of_probability(const Pair& pair, const QueryErrors& query) const;
  /// Of ds, in a sum over queries.
  Addend of_gradient(const Pair& pair, const QueryErrors& query) const;
  /// The same without the slope.
  Addend of_bias(const Pair& pair, const QueryErrors& query) const;
  /// Of ds, in a sum over the keys of a query, which share its errors: Addend::common is the factor
  /// of that of delta.
  Addend of_gradient_in_row(const Pair& pair, const QueryErrors& query) const;

  const BackwardArithmetic arithmetic;

 private:
  static double exponential(double variance);
  double before_cap(const Score& score) const;
  Addend swapped(const Addend& addend, const Pair& pair, double share) const;
  Addend rounded(double weight, double deviation, const Pair& pair) const;
  Addend gradient(const Pair& pair, const QueryErrors& query) const;

  SigmaModel model_;
  int64_t width_v_;
  double softcap_;
  bool shares_bias_;
  double leaning_;  // by which share all scaled products may err to one side
  OperandRounding of_score_, of_row_, of_v_, of_d_o_;
  double u_score_, eta_score_, u_delta_, eta_delta_, u_probability_, eta_probability_, u_product_,
      eta_product_;
  double lost_p_, lost_operand_;  // what is smaller becomes 0
};

/// A sum of addends for each channel of a gradient.
class GradientSum {
 public:
  /// `remembered`: of AddendSample.
  explicit GradientSum(int64_t width, size_t remembered = AddendSample::kMost);
  void clear();
  /// Adds errors that belong to the whole sum, before it is scaled: of a row that is rounded once.
  void add_common(const CommonOperand& operand, const double* steps);
  /// Adds `addend` times row[width]. `is_alone`: no other row is equal, so that no other addend has
  /// its errors; else `ends` tells whether the next row is not equal to this one. The addend is
  /// added `count` times. A near addend must have a count of 1. `row` must live until finish().
  void add(const Addend& addend, const double* row, bool is_alone, bool ends, int64_t count = 1);
  /// Writes value and sigma, [width] each. `common`: the variance of the error that all addends
  /// share by Addend::common; `relative`: that of an error of the whole sum. sigma is kUnsure
  /// where the sum is a number without what near pairs add, and what they add is none.
  void finish(const BackwardArithmetic& arithmetic, DType output, double scale, double common,
              double relative, double* value, double* sigma);
  /// Adds the errors of the equal rows so far: the next row is another one.
  void end_group();

 private:
  bool take_unsure(const Addend& addend, const double* row);
  void add_rounded_row(const Addend& addend, const double* row, double count);
  void count_equal(double weight, const double* row, double count);
  void end_equal(size_t c);
  double pairs_alike(size_t c) const;
  void end_run();
  void end_step_group();

  size_t width_;
  int64_t addends_ = 0;
  AddendSample addend_sample_;
  bool has_lost_ = false, has_one_way_ = false, has_common_ = false, has_uniform_ = false,
       has_unsure_ = false, has_steps_ = false;
  // [width_] each
  std::vector<double> sum_, variance_, squares_, reach_, group_, common_, lost_, one_way_, uniform_,
      unsure_, finite_row_, alike_chances_;
  // The errors of rows that were rounded before they were multiplied, by channel. A group is the
  // equal rows that were added last.
  std::vector<double> step_group_;  // the sum of the deviations of the group
  std::vector<double> step_all_;    // the sum of the deviations of all rows
  std::vector<double> step_own_;    // the sum of the variances of the group, if each row errs alone
  std::vector<double> step_alone_;  // the same of all rows
  std::vector<double> step_groups_;  // what equal rows add to that because they err alike
  // A run is the last addends, if they have equal rows and one weight.
  double run_weight_ = 0;
  std::vector<double> run_;        // the sum of their deviations
  std::vector<double> run_alone_;  // the sum of their variances
  // The last addends of a group, if they have one size, by channel.
  std::vector<double> equal_size_;   // their size
  std::vector<double> equal_count_;  // the number of positive ones minus that of negative ones
  std::vector<double> equal_pairs_;  // the sum of n * (n - 1) over all counts n so far
};

/// A query: head `h` of the group that reads the key head, position i of the sequence.
struct Query {
  int64_t h, i;
};

class HeadRows {
 public:
  HeadRows(const Problem& problem, const Tensors& tensors);

  /// Reads sequence b and key head kv_head: the positions below its lengths. Calls OpenMP.
  void load(int64_t b, int64_t kv_head);
  /// Finds by how much the declared arithmetic rounds Q, K, V and dO before they are multiplied.
  /// Call it after each load(); without this call nothing is rounded.
  void find_steps(const PairErrors& errors);
  /// With top_k: finds which keys count in each loaded row. Call it after each load(); without this
  /// call all keys count. RowEdge describes `ties_hold`. Calls OpenMP.
  void find_edges(const PairErrors& errors, bool ties_hold);

  const Params& params() const { return p_; }
  int64_t group() const { return group_; }  // query heads of a key head
  int64_t query_head(int64_t h) const { return kv_head_ * group_ + h; }
  int64_t sequence() const { return b_; }
  int64_t length_q() const { return length_q_; }
  int64_t length_kv() const { return length_kv_; }
  const Geometry& geometry() const { return geometry_; }
  /// The keys that position i may see: none beyond the sequence's length.
  Interval keys(int64_t i) const;
  /// Element d of O.
  double o(Query at, int64_t d) const;
  const double* k(int64_t j) const { return k_.data() + j * p_.head_dim; }
  const double* v(int64_t j) const { return v_.data() + j * p_.head_dim_v; }
  const double* q(Query at) const { return q_.data() + row(at) * p_.head_dim; }
  const double* d_o(Query at) const { return do_.data() + row(at) * p_.head_dim_v; }
  /// The deviations of the errors of these rows, with the signs of their elements: as operands of
  /// q.k, and as those of the other products. Null where they are exact.
  const double* q_score_steps(Query at) const { return of(q_score_steps_, row(at), p_.head_dim); }
  const double* k_score_steps(int64_t j) const { return of(k_score_steps_, j, p_.head_dim); }
  const double* q_steps(Query at) const { return of(q_steps_, row(at), p_.head_dim); }
  const double* k_steps(int64_t j) const { return of(k_steps_, j, p_.head_dim); }
  const double* v_steps(int64_t j) const { return of(v_steps_, j, p_.head_dim_v); }
  const double* d_o_steps(Query at) const { return of(do_steps_, row(at), p_.head_dim_v); }
  double lse(Query at) const { return lse_[size_t(row(at))]; }
  double delta(Query at) const { return delta_[size_t(row(at))]; }
  /// Whether two queries that have equal rows of Q add the same to a sum, with the same errors.
  bool are_alike(Query one, Query other) const;
  /// The errors of a query in a sum over its keys.
  QueryErrors errors_in_row(const PairErrors& errors, Query at) const;
  /// Its share of the errors in a sum over queries.
  QueryErrors errors_among_queries(const PairErrors& errors, Query at) const;
  /// The largest norm of a row of V.
  double largest_v() const;
  /// Returns a number that |do.v - delta| does not exceed for any key, and neither does |d_logit|,
  /// since p is at most 1. `largest_v` is the largest norm of a row of V. The bound is 0 if the
  /// query sees no key or lies beyond the sequence's length, and NaN if its lse is NaN.
  double d_logit_bound(Query at, double largest_v) const;
  /// Keys, and queries of all heads of the group (row h * length_q() + i), grouped by equality.
  const GroupedOrder& key_order() const { return key_order_; }
  const GroupedOrder& query_order() const { return query_order_; }

  /// The pair of a query and key j, where it is seen, and counts or may count by rounding. `term`:
  /// what is added to the score; -inf: it is hidden.
  std::optional<Pair> pair(const PairErrors& errors, Query at, int64_t j, double term) const;
  /// The pair of the sink, which is a key without a value, and of a query that sees some key. Its
  /// errors include that of the lse.
  Pair sink_pair(const PairErrors& errors, Query at, double sink) const;
  /// What is added to the score of one pair; -inf: hidden, by the band too. Keys that do not count
  /// by top_k are not hidden here.
  double pair_term(Query at, int64_t j) const;

 private:
  Score score(Query at, int64_t j, double term) const;
  /// The variance of d_o.o that comes from the rounding of O, and what is added to it where
  /// channels of O are equal. `steps` is scratch memory. All have head_dim_v elements.
  struct RoundedO {
    double alone = 0, repeated = 0;
    double variance() const;
  };
  RoundedO rounded_o(const double* d_o, const double* o,
                     std::vector<std::pair<double, double>>& steps) const;
  /// Writes equal_o_.
  void find_equal_o();
  int64_t row(Query at) const { return at.h * length_q_ + at.i; }
  static const double* of(const std::vector<double>& steps, int64_t row, int64_t width) {
    return steps.empty() ? nullptr : steps.data() + row * width;
  }

  const Tensors& tensors_;
  const Params p_;
  const Geometry geometry_;
  const int64_t group_;
  const bool has_few_codes_;  // V is in 8 bits
  int64_t b_ = 0, kv_head_ = 0, length_q_ = 0, length_kv_ = 0;
  std::vector<double> k_, v_;   // [length_kv_, head_dim], [length_kv_, head_dim_v]
  std::vector<double> q_, do_;  // [group, length_q_, head_dim], [group, length_q_, head_dim_v]
  // [group, length_q_]
  std::vector<double> lse_, delta_, delta_magnitude_, delta_squares_, delta_factors_;
  // As q_, k_, v_ and do_; empty: exact
  std::vector<double> q_score_steps_, k_score_steps_, q_steps_, k_steps_, v_steps_, do_steps_;
  std::vector<RoundedO> rounded_o_;
  std::vector<double> equal_o_;  // what is added where queries are equal: the share of each
  GroupedOrder key_order_, query_order_;
  std::vector<RowEdge> edges_;  // [group, length_q_]; empty: all keys count
};

}  // namespace attest::core::backward
