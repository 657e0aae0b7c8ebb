// The golden of the gradients: values and sigmas of all rows or of a sample, and bounds of the
// others.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>
#include <vector>

#include "core/operations/row_sample.hpp"
#include "core/operations/softmax/problem/dequantised.hpp"
#include "core/operations/softmax_backward/backward.hpp"
#include "core/operations/softmax_backward/backward_classes.hpp"
#include "core/operations/softmax_backward/backward_rows.hpp"
#include "core/operations/softmax_backward/bias_gradient.hpp"
#include "core/operations/softmax_backward/common_operands.hpp"
#include "core/operations/softmax_backward/shared_gradients.hpp"
#include "core/tensor/constants.hpp"
#include "core/tensor/random.hpp"

namespace attest::core::backward {
namespace {

// Pairs times channels of the judged rows of dQ, and of those of dK and dV.
constexpr double kMostWork = 1e8;
constexpr int64_t kLeastRows = 16;  // of each head
constexpr int64_t kTaskRows = 8, kSweptRows = 256;
constexpr uint64_t kQuerySeed = 0x6471, kKeySeed = 0x646b, kBiasSeed = 0x6462;

/// What a pair takes, in channels of it: those of its rows, and CommonOperand, which takes some 90
/// multiply-adds in the time of a channel. In dQ it has head_dim^2 of them, in dK and dV twice as
/// many. Kernels whose tensors are stored in 16 bits round operands; others are taken for exact.
double pair_work(const Problem& problem) {
  constexpr double kAddsOfAChannel = 90;
  const auto& p = problem.as<Params>();
  const double channels = double(p.head_dim + p.head_dim_v);
  if (!is_coarse(problem.tensor[ATTEST_Q].dtype)) return channels;
  return channels + 1.5 * double(p.head_dim) * double(p.head_dim) / kAddsOfAChannel;
}

/// How many rows of each head are judged, each of which has pairs with `others`.
int64_t affordable(const Problem& problem, int64_t rows, int64_t others) {
  const auto& p = problem.as<Params>();
  const double row = pair_work(problem) * double(p.batch) * double(p.num_heads);
  return std::min(rows, std::max(kLeastRows, int64_t(kMostWork / row / double(others))));
}

int64_t affordable_queries(const Problem& problem) {
  const auto& p = problem.as<Params>();
  return affordable(problem, p.seq_len_q, p.seq_len_kv);
}
int64_t affordable_keys(const Problem& problem) {
  const auto& p = problem.as<Params>();
  return affordable(problem, p.seq_len_kv, p.seq_len_q);
}

/// The positions of a head that are judged.
std::vector<int64_t> sampled(int64_t length, int64_t count, uint64_t seed, int64_t head) {
  if (length == 0) return {};
  return sample_places(length, std::min(length, count), 0, random_bits(seed, uint64_t(head)));
}
std::vector<int64_t> sampled_keys(const Params& p, int64_t b, int64_t kv_head, int64_t length,
                                  int64_t count) {
  return sampled(length, count, kKeySeed, b * p.num_kv_heads + kv_head);
}

/// The rows 0 .. count - 1 that are not in the list, which is ascending.
std::vector<int64_t> all_but(const std::vector<int64_t>& listed, int64_t count) {
  std::vector<int64_t> rows;
  auto next = listed.begin();
  for (int64_t row = 0; row < count; ++row)
    if (next != listed.end() && *next == row)
      ++next;
    else
      rows.push_back(row);
  return rows;
}

/// Bounds of the rows of one key head and of the query heads that read it. A probability is at most
/// 1. Hidden NaN do not count; a query that sees one has a lse or a delta of NaN, and so have the
/// bounds that it belongs to, which then accept whatever was written.
struct Bounds {
  std::vector<double> k;        // [head_dim]: the largest |k|
  std::vector<double> d_logit;  // of each query: HeadRows::d_logit_bound
  std::vector<double> dk, dv;   // [head_dim], [head_dim_v]: sums over the queries
};

class BackwardGolden final : public Golden {
 public:
  BackwardGolden(const Problem& problem, const Tensors& tensors, bool ties_hold, Judged judged,
                 bool repeats)
      : given_(problem),
        inputs_(problem, tensors),
        problem_(inputs_.problem()),
        p_(problem_.as<Params>()),
        tensors_(inputs_.tensors()),
        ties_hold_(ties_hold),
        unlike_sequences_(repeats ? 1 : p_.batch) {
    const bool all = judged == Judged::kAllPairs;
    queries_ = all ? p_.seq_len_q : affordable_queries(given_);
    keys_ = all ? p_.seq_len_kv : affordable_keys(given_);
    count_distinct(judged == Judged::kClasses || !judges_all());
  }

  void expect(const Arithmetic& arithmetic, const Sink& sink) const override {
    const PairErrors errors(problem_, declared(arithmetic));
    HeadRows rows(problem_, tensors_);
    SharedGradients shared(problem_);
    for (int64_t b = 0; b < p_.batch; ++b)
      for (int64_t kv_head = 0; kv_head < p_.num_kv_heads; ++kv_head) {
        rows.load(b, kv_head);
        rows.find_steps(errors);
        rows.find_edges(errors, ties_hold_);
        for (int64_t h = 0; h < rows.group(); ++h) shared.add(rows, errors, h);
        if (!classes_.empty()) {
          expect_classes(rows, errors, kv_head, classes_[size_t(b * p_.num_kv_heads + kv_head)],
                         sink);
          continue;
        }
        const std::vector<int64_t> keys = sampled_keys(p_, b, kv_head, rows.length_kv(), keys_);
        expect_keys(rows, errors, kv_head, keys, sink);
        Bounds bounds;
        if (queries_ < rows.length_q() || keys_ < rows.length_kv()) bounds = bounds_of(rows);
        for (int64_t h = 0; h < rows.group(); ++h) {
          const std::vector<int64_t> queries =
              sampled(rows.length_q(), queries_, kQuerySeed, b * p_.num_heads + rows.query_head(h));
          expect_queries(rows, errors, h, queries, sink);
          if (queries_ < rows.length_q())
            sweep_queries(rows, bounds, h, all_but(queries, rows.length_q()), sink);
        }
        if (keys_ < rows.length_kv())
          sweep_keys(rows, bounds, kv_head, all_but(keys, rows.length_kv()), sink);
      }
    shared.finish(errors, sink);
    expect_zeros(errors, ATTEST_DQ, rows.geometry().idle_rows(), sink);
    const std::vector<int64_t> idle_keys = rows.geometry().idle_key_rows();
    for (const int32_t role : {ATTEST_DK, ATTEST_DV}) expect_zeros(errors, role, idle_keys, sink);
    if (!problem_.has(ATTEST_DBIAS)) return;
    const TensorSpec& spec = problem_.tensor[ATTEST_DBIAS];
    for (int64_t b = 0; b < spec.dim[0]; ++b)
      for (int64_t h = 0; h < spec.dim[1]; ++h) expect_bias(errors, b, h, sink);
  }

  std::vector<int64_t> exact_rows(const Arithmetic& arithmetic, int32_t role) const override {
    if (role != ATTEST_DQ) return Golden::exact_rows(arithmetic, role);
    const Geometry geometry(problem_, tensors_);
    std::vector<int64_t> exact = geometry.idle_rows();
    for (int64_t b = 0; b < p_.batch; ++b)
      for (int64_t h = 0; h < p_.num_heads; ++h) {
        const int64_t length = geometry.length_q(b);
        for (const int64_t i : sampled(length, classes_.empty() ? queries_ : length, kQuerySeed,
                                       b * p_.num_heads + h))
          exact.push_back(geometry.output_row(b, h, i));
      }
    return exact;
  }
  int64_t distinct_rows() const override { return std::min(distinct_queries_, distinct_keys_); }
  // Gradients of keys share the errors of delta and of the lse of each query. Keys may all have
  // nearly the same weight: then an error of one channel is nearly the same for all of them.
  // Where Q, K or V are rounded to an operand, all queries share the errors of each key. Each
  // channel of each key head may err once for all queries; so no more rows err independently than
  // all key heads of all sequences have channels. Sequences that repeat the same rows repeat these
  // errors too.
  int64_t independent_rows(const Arithmetic& arithmetic, int32_t role) const override {
    if (role == ATTEST_DQ) {
      const BackwardArithmetic of = declared(arithmetic);
      const bool is_exact = !is_coarse(of.qk) && !is_coarse(of.operand);
      return is_exact
                 ? distinct_queries_
                 : std::min(distinct_queries_, unlike_sequences_ * p_.num_kv_heads * p_.head_dim);
    }
    if (role == ATTEST_DREL_BIAS || role == ATTEST_DSINKS)
      return std::min(distinct_queries_, element_count(problem_.tensor[size_t(role)]));
    if (role == ATTEST_DBIAS)
      return std::min(distinct_queries_, row_count(problem_.tensor[ATTEST_DBIAS], 3));
    const int64_t channels =
        unlike_sequences_ * p_.num_kv_heads * problem_.tensor[size_t(role)].dim[3];
    return std::min({distinct_queries_, distinct_keys_, channels});
  }
  std::string method() const override {
    if (!classes_.empty()) return "closed form, all rows";
    if (judges_all()) return "float64, all rows";
    return fmt::format("float64, {} of {} queries and {} of {} keys a head", queries_, p_.seq_len_q,
                       keys_, p_.seq_len_kv);
  }

 private:
  /// Of one key head and the query heads that read it.
  struct Classes {
    GroupedOrder queries, keys;
    double pairs() const { return double(queries.place.size()) * double(keys.place.size()); }
  };

  BackwardArithmetic declared(const Arithmetic& arithmetic) const {
    return BackwardArithmetic::of(arithmetic, given_);
  }

  /// Channels of the pairs of these rows with so many others.
  int64_t pair_elements(const std::vector<int64_t>& rows, int64_t others) const {
    return int64_t(rows.size()) * others * (p_.head_dim + p_.head_dim_v);
  }

  /// Rows that belong to no position have the gradient 0.
  void expect_zeros(const PairErrors& errors, int32_t role, const std::vector<int64_t>& rows,
                    const Sink& sink) const {
    const TensorSpec& spec = problem_.tensor[size_t(role)];
    std::vector<double> value(size_t(spec.dim[3])), sigma(value);
    GradientSum(spec.dim[3])
        .finish(errors.arithmetic, spec.dtype, 1, 0, 0, value.data(), sigma.data());
    for (size_t begin = 0; begin < rows.size(); begin += size_t(kSweptRows))
      sink({.role = role,
            .leading = 3,
            .width = spec.dim[3],
            .rows =
                std::span(rows).subspan(begin, std::min(size_t(kSweptRows), rows.size() - begin)),
            .shared = true,
            .value = value.data(),
            .sigma = sigma.data()});
  }

  void expect_queries(const HeadRows& rows, const PairErrors& errors, int64_t h,
                      const std::vector<int64_t>& queries, const Sink& sink) const {
    const auto width = size_t(p_.head_dim);
#pragma omp parallel if (pair_elements(queries, rows.length_kv()) > kThreadedElements)
    {
      GradientSum sum(p_.head_dim);
      std::vector<double> terms(size_t(p_.seq_len_kv)), value(size_t(kTaskRows) * width),
          sigma(value);
      std::vector<int64_t> numbers;
#pragma omp for schedule(dynamic, 1)
      for (size_t begin = 0; begin < queries.size(); begin += size_t(kTaskRows)) {
        const size_t end = std::min(begin + size_t(kTaskRows), queries.size());
        numbers.clear();
        for (size_t n = begin; n < end; ++n) {
          numbers.push_back(
              rows.geometry().output_row(rows.sequence(), rows.query_head(h), queries[n]));
          expect_query(rows, errors, {h, queries[n]}, rows.key_order(), terms, sum,
                       &value[(n - begin) * width], &sigma[(n - begin) * width]);
        }
        sink({.role = ATTEST_DQ,
              .leading = 3,
              .width = p_.head_dim,
              .rows = numbers,
              .value = value.data(),
              .sigma = sigma.data()});
      }
    }
  }

  /// `order`: all keys, or their classes.
  void expect_query(const HeadRows& rows, const PairErrors& errors, Query at,
                    const GroupedOrder& order, std::vector<double>& terms, GradientSum& sum,
                    double* value, double* sigma) const {
    const Geometry& geometry = rows.geometry();
    const Interval keys = rows.keys(at.i);
    std::fill(terms.begin(), terms.end(), kHidden);
    std::fill_n(terms.begin() + std::min(keys.begin, p_.seq_len_kv), keys.size(), 0.0);
    if (geometry.pair_terms() && keys.size() > 0)
      geometry.add_pair_terms(rows.sequence(), rows.query_head(at.h), at.i, keys,
                              terms.data() + keys.begin);
    sum.clear();
    RowOperands of_row(rows, errors, p_.head_dim);
    const QueryErrors of_query = rows.errors_in_row(errors, at);
    for (size_t n = 0; n < order.place.size(); ++n) {
      const int64_t j = order.place[n];
      const std::optional<Pair> pair = rows.pair(errors, at, j, terms[size_t(j)]);
      if (pair) {
        Addend addend = errors.of_gradient_in_row(*pair, of_query);
        addend.steps = rows.k_steps(j);
        sum.add(addend, rows.k(j), order.is_alone[n], order.ends[n], order.count[n]);
        of_row.add_key(*pair, j, rows.k(j), order.count[n]);
      } else if (order.ends[n]) {
        sum.end_group();
      }
    }
    of_row.finish_query(at, sum);
    sum.finish(errors.arithmetic, problem_.tensor[ATTEST_DQ].dtype, double(p_.softmax_scale),
               of_query.delta + of_query.given_o, of_query.lse, value, sigma);
  }

  void expect_keys(const HeadRows& rows, const PairErrors& errors, int64_t kv_head,
                   const std::vector<int64_t>& keys, const Sink& sink) const {
    const auto width = size_t(p_.head_dim), width_v = size_t(p_.head_dim_v);
    const int64_t others = rows.group() * rows.length_q();
#pragma omp parallel if (pair_elements(keys, others) > kThreadedElements)
    {
      GradientSum of_k(p_.head_dim), of_v(p_.head_dim_v);
      std::vector<double> value(size_t(kTaskRows) * std::max(width, width_v)), sigma(value),
          value_v(value), sigma_v(value);
      std::vector<int64_t> numbers;
#pragma omp for schedule(dynamic, 1)
      for (size_t begin = 0; begin < keys.size(); begin += size_t(kTaskRows)) {
        const size_t end = std::min(begin + size_t(kTaskRows), keys.size());
        numbers.clear();
        for (size_t n = begin; n < end; ++n) {
          numbers.push_back(rows.geometry().key_row(rows.sequence(), kv_head, keys[n]));
          sum_queries(rows, errors, keys[n], rows.query_order(), of_k, of_v);
          finish_key(errors, of_k, of_v, &value[(n - begin) * width], &sigma[(n - begin) * width],
                     &value_v[(n - begin) * width_v], &sigma_v[(n - begin) * width_v]);
        }
        sink({.role = ATTEST_DK,
              .leading = 3,
              .width = p_.head_dim,
              .rows = numbers,
              .value = value.data(),
              .sigma = sigma.data()});
        sink({.role = ATTEST_DV,
              .leading = 3,
              .width = p_.head_dim_v,
              .rows = numbers,
              .value = value_v.data(),
              .sigma = sigma_v.data()});
      }
    }
  }

  void finish_key(const PairErrors& errors, GradientSum& of_k, GradientSum& of_v, double* dk,
                  double* dk_sigma, double* dv, double* dv_sigma) const {
    of_k.finish(errors.arithmetic, problem_.tensor[ATTEST_DK].dtype, double(p_.softmax_scale), 0, 0,
                dk, dk_sigma);
    of_v.finish(errors.arithmetic, problem_.tensor[ATTEST_DV].dtype, 1, 0, 0, dv, dv_sigma);
  }

  /// `order`: all queries, or their classes.
  void sum_queries(const HeadRows& rows, const PairErrors& errors, int64_t j,
                   const GroupedOrder& order, GradientSum& of_k, GradientSum& of_v) const {
    of_k.clear();
    of_v.clear();
    KeyOperands of_dk(rows, errors, p_.head_dim),
        of_dv(rows, errors, p_.head_dim_v, KeyOperands::Sum::kProbabilities);
    for (size_t n = 0; n < order.place.size(); ++n) {
      const Query at{order.place[n] / rows.length_q(), order.place[n] % rows.length_q()};
      const std::optional<Pair> pair = rows.pair(errors, at, j, rows.pair_term(at, j));
      if (pair) {
        const QueryErrors of_query = rows.errors_among_queries(errors, at);
        Addend gradient = errors.of_gradient(*pair, of_query),
               probability = errors.of_probability(*pair, of_query);
        gradient.steps = rows.q_steps(at);
        probability.steps = rows.d_o_steps(at);
        of_k.add(gradient, rows.q(at), order.is_alone[n], order.ends[n], order.count[n]);
        of_v.add(probability, rows.d_o(at), order.is_alone[n], order.ends[n], order.count[n]);
        of_dk.add_gradient(*pair, at, rows.q(at), order.count[n]);
        of_dv.add_probability(*pair, at, rows.d_o(at), order.count[n]);
      } else if (order.ends[n]) {
        of_k.end_group();
        of_v.end_group();
      }
    }
    of_dk.finish(j, of_k);
    of_dv.finish(j, of_v);
  }

  // All rows of a class of keys, or of queries, have one gradient and one sigma.
  void expect_classes(const HeadRows& rows, const PairErrors& errors, int64_t kv_head,
                      const Classes& classes, const Sink& sink) const {
    const auto &queries = classes.queries, &keys = classes.keys;
    const std::vector<int64_t> of_queries = first_indices(queries), of_keys = first_indices(keys);
    const auto key_row = [&](int32_t j) {
      return rows.geometry().key_row(rows.sequence(), kv_head, j);
    };
    const auto query_row = [&](int32_t place) {
      return rows.geometry().output_row(rows.sequence(), rows.query_head(place / rows.length_q()),
                                        place % rows.length_q());
    };
#pragma omp parallel
    {
      GradientSum of_k(p_.head_dim), of_v(p_.head_dim_v);
      std::vector<double> terms(size_t(p_.seq_len_kv)), value(size_t(p_.head_dim)), sigma(value),
          value_v(size_t(p_.head_dim_v)), sigma_v(value_v);
#pragma omp for schedule(dynamic, 1)
      for (size_t n = 0; n < keys.place.size(); ++n) {
        sum_queries(rows, errors, keys.place[n], queries, of_k, of_v);
        finish_key(errors, of_k, of_v, value.data(), sigma.data(), value_v.data(), sigma_v.data());
        const auto members =
            std::span(rows.key_order().place).subspan(size_t(of_keys[n]), size_t(keys.count[n]));
        expect_members(ATTEST_DK, members, key_row, value, sigma, sink);
        expect_members(ATTEST_DV, members, key_row, value_v, sigma_v, sink);
      }
#pragma omp for schedule(dynamic, 1)
      for (size_t n = 0; n < queries.place.size(); ++n) {
        const Query at{queries.place[n] / rows.length_q(), queries.place[n] % rows.length_q()};
        expect_query(rows, errors, at, keys, terms, of_k, value.data(), sigma.data());
        const auto members = std::span(rows.query_order().place)
                                 .subspan(size_t(of_queries[n]), size_t(queries.count[n]));
        expect_members(ATTEST_DQ, members, query_row, value, sigma, sink);
      }
    }
  }

  /// By class: the index of its first row in the order of all rows.
  static std::vector<int64_t> first_indices(const GroupedOrder& classes) {
    std::vector<int64_t> first(classes.count.size());
    std::exclusive_scan(classes.count.begin(), classes.count.end(), first.begin(), int64_t{0});
    return first;
  }

  /// `row` returns the number of the row of a place.
  template <class Row>
  static void expect_members(int32_t role, std::span<const int32_t> places, const Row& row,
                             const std::vector<double>& value, const std::vector<double>& sigma,
                             const Sink& sink) {
    std::vector<int64_t> numbers;
    for (size_t begin = 0; begin < places.size(); begin += size_t(kSweptRows)) {
      numbers.clear();
      for (size_t n = begin; n < std::min(begin + size_t(kSweptRows), places.size()); ++n)
        numbers.push_back(row(places[n]));
      sink({.role = role,
            .leading = 3,
            .width = int64_t(value.size()),
            .rows = numbers,
            .shared = true,
            .value = value.data(),
            .sigma = sigma.data()});
    }
  }

  // One slice. A row that all queries share is always judged.
  void expect_bias(const PairErrors& errors, int64_t b, int64_t h, const Sink& sink) const {
    const TensorSpec& spec = problem_.tensor[ATTEST_DBIAS];
    const int64_t head = b * spec.dim[1] + h, count = spec.dim[2], first = head * count;
    const std::vector<int64_t> listed =
        sample_places(count, std::min(queries_, count), 0, random_bits(kBiasSeed, uint64_t(head)));
    const BiasSlice slice(problem_, tensors_, errors, ties_hold_, b, h);
    const auto width = size_t(spec.dim[3]);
    std::vector<double> value(size_t(kTaskRows) * width), sigma(value);
    for (size_t begin = 0; begin < listed.size(); begin += size_t(kTaskRows)) {
      const size_t end = std::min(begin + size_t(kTaskRows), listed.size());
      std::vector<int64_t> numbers;
      for (size_t n = begin; n < end; ++n) numbers.push_back(first + listed[n]);
#pragma omp parallel
      {
        GradientSum sum(1);
#pragma omp for collapse(2) schedule(dynamic, 16)
        for (size_t n = begin; n < end; ++n)
          for (size_t j = 0; j < width; ++j) {
            const size_t at = (n - begin) * width + j;
            slice.element(errors, listed[n], int64_t(j), sum, &value[at], &sigma[at]);
          }
      }
      sink({.role = ATTEST_DBIAS,
            .leading = 3,
            .width = spec.dim[3],
            .rows = numbers,
            .value = value.data(),
            .sigma = sigma.data()});
    }
    const std::vector<int64_t> others = all_but(listed, count);
    if (!others.empty())
      sweep(
          ATTEST_DBIAS, [&](int64_t i) { return first + i; }, others, spec.dim[3],
          [&](int64_t i, size_t) { return slice.bound(i); }, sink);
  }

  Bounds bounds_of(const HeadRows& rows) const {
    Bounds bounds{.k = std::vector<double>(size_t(p_.head_dim)),
                  .d_logit = std::vector<double>(size_t(rows.group() * rows.length_q())),
                  .dk = std::vector<double>(size_t(p_.head_dim)),
                  .dv = std::vector<double>(size_t(p_.head_dim_v))};
    for (int64_t j = 0; j < rows.length_kv(); ++j)
      for (size_t c = 0; c < bounds.k.size(); ++c)
        bounds.k[c] = std::max(bounds.k[c], std::fabs(rows.k(j)[c]));
    const double largest_v = rows.largest_v();
    for (int64_t h = 0; h < rows.group(); ++h)
      for (int64_t i = 0; i < rows.length_q(); ++i) {
        const Query at{h, i};
        if (rows.lse(at) == kHidden) continue;  // it sees no key
        const double d_logit = rows.d_logit_bound(at, largest_v);
        bounds.d_logit[size_t(h * rows.length_q() + i)] = d_logit;
        for (size_t c = 0; c < bounds.dk.size(); ++c)
          bounds.dk[c] += d_logit * std::fabs(rows.q(at)[c]);
        const double p = std::isnan(d_logit) ? d_logit : 1;
        for (size_t c = 0; c < bounds.dv.size(); ++c)
          bounds.dv[c] += p * std::fabs(rows.d_o(at)[c]);
      }
    return bounds;
  }

  // Roundings are far smaller than what norms leave to spare.
  static double widened(double bound) { return 1.5 * bound + 1e-6; }

  /// `row` returns the number of the row of a place.
  void sweep(int32_t role, const std::function<int64_t(int64_t place)>& row,
             const std::vector<int64_t>& places, int64_t width,
             const std::function<double(int64_t place, size_t channel)>& bound,
             const Sink& sink) const {
#pragma omp parallel if (int64_t(places.size()) * width > kThreadedElements)
    {
      std::vector<double> low(size_t(kSweptRows * width)), high(low);
      std::vector<int64_t> numbers;
#pragma omp for schedule(dynamic, 1)
      for (size_t begin = 0; begin < places.size(); begin += size_t(kSweptRows)) {
        const size_t end = std::min(begin + size_t(kSweptRows), places.size());
        numbers.clear();
        for (size_t n = begin; n < end; ++n) {
          numbers.push_back(row(places[n]));
          for (size_t c = 0; c < size_t(width); ++c) {
            const size_t at = (n - begin) * size_t(width) + c;
            high[at] = widened(bound(places[n], c));
            low[at] = -high[at];
          }
        }
        sink({.role = role,
              .leading = 3,
              .width = width,
              .rows = numbers,
              .low = low.data(),
              .high = high.data()});
      }
    }
  }

  void sweep_queries(const HeadRows& rows, const Bounds& bounds, int64_t h,
                     const std::vector<int64_t>& queries, const Sink& sink) const {
    const double scale = std::fabs(double(p_.softmax_scale));
    sweep(
        ATTEST_DQ,
        [&](int64_t i) {
          return rows.geometry().output_row(rows.sequence(), rows.query_head(h), i);
        },
        queries, p_.head_dim,
        [&](int64_t i, size_t c) {
          return scale * bounds.d_logit[size_t(h * rows.length_q() + i)] * bounds.k[c];
        },
        sink);
  }

  void sweep_keys(const HeadRows& rows, const Bounds& bounds, int64_t kv_head,
                  const std::vector<int64_t>& keys, const Sink& sink) const {
    const double scale = std::fabs(double(p_.softmax_scale));
    const auto row = [&](int64_t j) {
      return rows.geometry().key_row(rows.sequence(), kv_head, j);
    };
    sweep(
        ATTEST_DK, row, keys, p_.head_dim, [&](int64_t, size_t c) { return scale * bounds.dk[c]; },
        sink);
    sweep(
        ATTEST_DV, row, keys, p_.head_dim_v, [&](int64_t, size_t c) { return bounds.dv[c]; }, sink);
  }

  /// Whether every row is judged by its pairs.
  bool judges_all() const { return queries_ == p_.seq_len_q && keys_ == p_.seq_len_kv; }

  /// Writes distinct_queries_, distinct_keys_ and classes_. Classes are worth it if they have no
  /// more pairs than the judged rows, since each takes as long.
  void count_distinct(bool wants_classes) {
    HeadRows rows(problem_, tensors_);
    const double heads = double(p_.batch) * double(p_.num_heads),
                 of_queries = heads * double(queries_) * double(p_.seq_len_kv),
                 of_keys = heads * double(keys_) * double(p_.seq_len_q);
    double pairs = 0;  // of classes, in dQ as in dK and dV
    for (int64_t b = 0; b < p_.batch; ++b)
      for (int64_t kv_head = 0; kv_head < p_.num_kv_heads; ++kv_head) {
        rows.load(b, kv_head);
        distinct_queries_ += rows.query_order().distinct;
        distinct_keys_ += rows.key_order().distinct;
        wants_classes = wants_classes && has_classes(rows);
        if (!wants_classes) continue;
        classes_.push_back({query_classes(rows), key_classes(rows)});
        pairs += classes_.back().pairs();
        wants_classes = 2 * pairs <= of_queries + of_keys;
      }
    if (!wants_classes) classes_ = {};
  }

  const Problem given_;
  const WithoutFactors inputs_;  // owns what Q, K and V stand for
  const Problem problem_;
  const Params p_;
  const Tensors tensors_;
  const bool ties_hold_;            // of RowEdge
  const int64_t unlike_sequences_;  // 1 where all have the same rows
  int64_t queries_ = 0, keys_ = 0;  // judged rows of each head
  int64_t distinct_queries_ = 0, distinct_keys_ = 0;
  // [batch, num_kv_heads] if all rows are judged, by their classes; else empty
  std::vector<Classes> classes_;
};

}  // namespace

std::vector<int64_t> judged_keys(const Problem& problem, int64_t b, int64_t kv_head,
                                 int64_t length) {
  const auto& p = problem.as<Params>();
  return sampled_keys(p, b, kv_head, length, affordable_keys(problem));
}

bool affords_all_rows(const Problem& problem) {
  const auto& p = problem.as<Params>();
  return affordable_queries(problem) == p.seq_len_q && affordable_keys(problem) == p.seq_len_kv;
}

std::unique_ptr<Golden> golden(const Problem& problem, const Tensors& tensors, bool ties_hold,
                               Judged judged, bool repeats) {
  return std::make_unique<BackwardGolden>(problem, tensors, ties_hold, judged, repeats);
}

}  // namespace attest::core::backward
