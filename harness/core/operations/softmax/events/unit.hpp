// One sequence and key head as events are looked for in it: equal keys found from their bytes,
// logits of single rows.
#pragma once
#include <limits>
#include <span>
#include <vector>

#include "core/operations/softmax/events/shape.hpp"

namespace attest::core::events {

/// Whether some number of a row is NaN or infinite.
bool is_wild(std::span<const float> row);

/// A row that is looked at: query head h at place i, which sees at least one key before masks.
struct RowPlace {
  int64_t h, i;
  Interval keys;
  int64_t origin;       // tiles count from here
  int32_t query_class;  // rows of one class have equal queries
};

struct Row {
  Interval keys;
  int64_t origin;
  std::span<const float> logits;  // [keys.size()], -inf: hidden
};

/// What most detectors need of a row's logits.
struct RowSummary {
  float top = -std::numeric_limits<float>::infinity();
  float second = top;                   // the next largest; top where there are two
  float next = top;                     // the largest that is below top - 1
  int64_t top_at = 0;                   // the first place of the largest
  int64_t first_top = 0, last_top = 0;  // places of those within 1 of it
  int64_t tops = 0;                     // and their number
  int64_t visible = 0;
  double sum = 0;     // of exp(logit - top), to 1e-4
  bool wild = false;  // it sees a NaN or an infinity in Q, K or BIAS; the rest means nothing then
};

/// The rows of one head that are looked at.
struct RowSet {
  std::vector<RowPlace> places;
  std::vector<RowSummary> summaries;
  bool sampled = false;  // there are others
};

/// exp(x) to 1e-4 of it, for x <= 0; never less than e^-87.
float rough_exp(float x);

class Unit {
 public:
  Unit(const Problem& problem, const Tensors& tensors, const Geometry& geometry, int64_t b,
       int64_t kv_head);

  /// The queries of one of its heads; before logits are asked for.
  void load_head(int64_t h);

  const attest_softmax_params& params() const { return params_; }
  const Geometry& geometry() const { return geometry_; }
  int64_t b() const { return b_; }
  int64_t kv_head() const { return kv_head_; }
  int64_t head() const { return h_; }
  int64_t keys() const { return int64_t(key_class_.size()); }
  DType output_dtype() const { return output_dtype_; }
  int32_t key_class(int64_t j) const { return key_class_[size_t(j)]; }
  int32_t key_classes() const { return int32_t(key_vectors_.size() / size_t(params_.head_dim)); }
  int32_t query_class(int64_t i) const { return query_class_[size_t(i)]; }
  const float* value(int64_t j) const { return &values_[size_t(j * params_.head_dim_v)]; }
  std::span<const float> query(int64_t i) const { return vector(query_vectors_, query_class(i)); }
  std::span<const float> key(int64_t j) const { return vector(key_vectors_, key_class(j)); }
  /// Places whose key, or value, has a NaN or an infinity.
  const std::vector<int64_t>& wild_keys() const { return wild_keys_; }
  const std::vector<int64_t>& wild_values() const { return wild_values_; }
  /// Whether something that is added to logits depends on the row.
  bool adds_by_row() const { return adds_by_row_; }
  /// Multiply-adds, or what takes as long, of one row of so many keys.
  double cost(int64_t keys) const;

  /// Scores of one query with every class of keys.
  void class_scores(int32_t query_class, std::vector<float>& scores) const;
  /// The logits of a row of the head that is loaded; `buffer` keeps them.
  struct Buffer {
    std::vector<float> logits, scores;
    std::vector<double> terms;
  };
  Row row(const RowPlace& place, Buffer& buffer) const;
  /// The logit of one pair.
  float logit(const RowPlace& place, int64_t j) const;
  RowSummary summary(const RowPlace& place, const Row& row) const;

 private:
  std::span<const float> vector(const std::vector<float>& vectors, int32_t of_class) const {
    return std::span(vectors).subspan(size_t(of_class) * size_t(params_.head_dim),
                                      size_t(params_.head_dim));
  }
  void load_values(const Tensor& v);
  float score(const float* query, const float* key) const;
  bool few_keys() const { return 4 * int64_t(key_classes()) <= keys(); }

  const attest_softmax_params& params_;
  const Geometry& geometry_;
  const Tensor q_;
  const int64_t b_, kv_head_;
  const DType output_dtype_;
  int64_t h_ = -1;
  bool adds_by_row_;
  std::vector<int32_t> key_class_, query_class_;    // by place
  std::vector<float> key_vectors_, query_vectors_;  // [classes, head_dim]
  std::vector<float> values_;                       // [keys, head_dim_v]
  std::vector<int64_t> wild_keys_, wild_values_;
};

/// Judged rows of the head that is loaded: each one that differs from the others in query or
/// interval, where all of them take no more than `budget` multiply-adds, else a sample of them,
/// always the same. Without summaries.
RowSet choose_rows(const Unit& unit, const std::vector<bool>& judged, double budget);

}  // namespace attest::core::events
