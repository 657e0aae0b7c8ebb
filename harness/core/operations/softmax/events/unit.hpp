// One sequence and key head, in which events are counted: classes of equal keys, and logits of
// single rows.
#pragma once
#include <algorithm>
#include <bit>
#include <limits>
#include <span>
#include <vector>

#include "core/operations/softmax/events/shape.hpp"

namespace attest::core::events {

/// Whether a number of the row is NaN or infinite.
bool is_wild(std::span<const float> row);

/// An inspected row: query head h at position i. It sees at least one key, if masks are ignored.
struct RowPlace {
  int64_t h, i;
  Interval keys;
  int64_t origin;       // tiles count from this position
  int32_t query_class;  // rows of one class have equal queries
};

struct Row {
  Interval keys;
  int64_t origin;
  std::span<const float> logits;  // [keys.size()], -inf: hidden

  float logit(int64_t j) const { return logits[size_t(j - keys.begin)]; }
  /// Whether the key at position j, one of `keys`, is not hidden.
  bool sees(int64_t j) const { return logit(j) != -std::numeric_limits<float>::infinity(); }
};

/// A summary of a row's logits.
struct RowSummary {
  float top = -std::numeric_limits<float>::infinity();
  float second = top;  // the next largest logit; equal to top if two are the largest
  float next = top;    // the largest logit below top - 1
  int64_t top_at = 0;  // the first position of the largest logit
  int64_t first_top = 0, last_top = 0;  // first and last position of logits within 1 of top
  int64_t tops = 0;                     // the number of logits within 1 of top
  int64_t visible = 0;
  double sum = 0;  // of exp(logit - top), relative error 1e-4
  // The row sees a NaN or an infinity in Q, K or BIAS; all but `spoilt` is undefined then.
  bool wild = false;
  // From the first to the last logit that is NaN or +inf, and of which kinds there are
  Interval spoilt;
  bool nan_logit = false, infinite_logit = false;
};

/// The inspected rows of one head.
struct RowSet {
  std::vector<RowPlace> places;
  std::vector<RowSummary> summaries;
  bool sampled = false;  // the head has other judged rows
};

/// exp(x) for x <= 0, with a relative error of 1e-4; never less than e^-87.
inline float rough_exp(float x) {
  const float t = std::max(x, -87.0f) * 1.44269504f, whole = (t + 12582912.0f) - 12582912.0f,
              f = t - whole;
  const float power =
      1 + f * (0.69314718f + f * (0.24022651f + f * (0.05550411f + f * 0.00961813f)));
  return power * std::bit_cast<float>((int32_t(whole) + 127) << 23);
}

class Unit {
 public:
  Unit(const Problem& problem, const Tensors& tensors, const Geometry& geometry, int64_t b,
       int64_t kv_head);

  /// Loads the queries of a query head. To be called before logits are computed.
  void load_head(int64_t h);

  const attest_softmax_params& params() const { return params_; }
  const Geometry& geometry() const { return geometry_; }
  int64_t b() const { return b_; }
  int64_t kv_head() const { return kv_head_; }
  int64_t head() const { return h_; }
  int64_t keys() const { return int64_t(key_class_.size()); }
  DType output_dtype() const { return output_dtype_; }
  /// is_in_f16 of the problem.
  bool in_f16() const { return in_f16_; }
  int32_t key_class(int64_t j) const { return key_class_[size_t(j)]; }
  int32_t key_classes() const { return int32_t(key_vectors_.size() / size_t(params_.head_dim)); }
  int32_t query_class(int64_t i) const { return query_class_[size_t(i)]; }
  const float* value(int64_t j) const { return &values_[size_t(j * params_.head_dim_v)]; }
  std::span<const float> query(int64_t i) const { return vector(query_vectors_, query_class(i)); }
  std::span<const float> key(int64_t j) const { return vector(key_vectors_, key_class(j)); }
  /// Positions whose key has a NaN or an infinity.
  const std::vector<int64_t>& wild_keys() const { return wild_keys_; }
  /// Positions whose value has a NaN or an infinity.
  const std::vector<int64_t>& wild_values() const { return wild_values_; }
  /// Whether a term that is added to logits depends on the row.
  bool adds_by_row() const { return adds_by_row_; }
  /// The cost of one row with this many keys, in multiply-adds.
  double cost(int64_t keys) const;

  /// Writes the scores of one query with every class of keys.
  void class_scores(int32_t query_class, std::vector<float>& scores) const;
  /// The logits of a row of the head that is loaded. They are in `buffer`.
  struct Buffer {
    std::vector<float> logits, scores;
    std::vector<double> terms;
  };
  Row row(const RowPlace& place, Buffer& buffer) const;
  /// The logit of one pair.
  float logit(const RowPlace& place, int64_t j) const;
  /// softmax_scale q.k, before a softcap.
  float plain_score(const RowPlace& place, int64_t j) const {
    return params_.softmax_scale *
           dot(vector(query_vectors_, place.query_class).data(), key(j).data());
  }
  RowSummary summary(const RowPlace& place, const Row& row) const;

 private:
  std::span<const float> vector(const std::vector<float>& vectors, int32_t of_class) const {
    return std::span(vectors).subspan(size_t(of_class) * size_t(params_.head_dim),
                                      size_t(params_.head_dim));
  }
  void load_values(const Tensor& v);
  float dot(const float* query, const float* key) const;
  float score(const float* query, const float* key) const;
  bool few_keys() const { return 4 * int64_t(key_classes()) <= keys(); }

  const attest_softmax_params& params_;
  const Geometry& geometry_;
  const Tensor q_;
  const int64_t b_, kv_head_;
  const DType output_dtype_;
  const bool in_f16_;
  int64_t h_ = -1;
  bool adds_by_row_;
  std::vector<int32_t> key_class_, query_class_;    // by place
  std::vector<float> key_vectors_, query_vectors_;  // [classes, head_dim]
  std::vector<float> values_;                       // [keys, head_dim_v]
  std::vector<int64_t> wild_keys_, wild_values_;
};

/// The judged rows of the head that is loaded that differ in query or interval, without summaries.
/// If there are many and they would cost more than `budget` multiply-adds, a sample of them, which
/// is always the same.
RowSet choose_rows(const Unit& unit, const std::vector<bool>& judged, double budget);

}  // namespace attest::core::events
