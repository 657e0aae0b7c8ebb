// onednn/terms.hpp: what onednn_graph adds to scores, and what addition leaves wrong. onednn_graph
// turns a band or a mask into a tensor of 0 and -inf, as users of oneDNN do; it adds a dense bias
// alone as it is. Some rows then come out as NaN. A row that sees no key has no softmax, and a
// hidden score that is NaN or infinite stays NaN when -inf is added. So Terms computes two kinds of
// rows anew: those that see no key, and those whose operands are not small finite numbers.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "attest.hpp"

namespace onednn {

/// The features for which something is added to scores.
inline constexpr uint64_t kWithTerms =
    ATTEST_WITH_CAUSAL | ATTEST_WITH_WINDOW | ATTEST_WITH_BIAS | ATTEST_WITH_MASK;

/// Returns the size of an axis of the terms, which is the larger one of bias and mask.
inline int64_t dim_of_terms(const attest_problem& problem, int axis) {
  return std::max(
      {int64_t{1}, problem.tensor[ATTEST_BIAS].dim[axis], problem.tensor[ATTEST_MASK].dim[axis]});
}

/// Returns whether onednn_graph copies the terms for each sequence. It does so if all sequences and
/// all heads share the terms, because oneDNN 3.2 then falls back on reference code, which takes 200
/// times as long. The copies take `batch` times the memory of the shared terms. If heads share keys
/// (GQA), oneDNN is fast without copies.
inline bool copied_for_sequences(const attest_problem& problem) {
  const auto& p = attest::params<attest_softmax_params>(problem);
  return p.batch > 1 && p.num_heads == p.num_kv_heads && dim_of_terms(problem, 0) == 1 &&
         dim_of_terms(problem, 1) == 1;
}

/// Whether nothing but the bias is added, and oneDNN can read it where it lies: oneDNN 3.2 reads a
/// tensor that it adds as if it were dense.
inline bool adds_bias_itself(const attest_problem& problem) {
  const attest_tensor& bias = problem.tensor[ATTEST_BIAS];
  if (copied_for_sequences(problem)) return false;
  int64_t dense = 1;
  for (int axis = 3; axis >= 0; dense *= bias.dim[axis], --axis)
    if (bias.dim[axis] != 1 && bias.stride[axis] != dense) return false;
  return (problem.features & kWithTerms) == ATTEST_WITH_BIAS;
}

/// [batch|1, num_heads|1, seq_len_q, seq_len_kv], dtype of Q, dense; or the bias itself.
inline attest_tensor terms_of(const attest_problem& problem) {
  const auto& p = attest::params<attest_softmax_params>(problem);
  if (adds_bias_itself(problem)) return problem.tensor[ATTEST_BIAS];
  attest_tensor terms{};
  terms.dtype = problem.tensor[ATTEST_Q].dtype;
  terms.rank = 4;
  const int64_t sequences = copied_for_sequences(problem) ? p.batch : dim_of_terms(problem, 0);
  const int64_t dims[] = {sequences, dim_of_terms(problem, 1), p.seq_len_q, p.seq_len_kv};
  int64_t stride = 1;
  for (int axis = 3; axis >= 0; stride *= dims[axis], --axis) {
    terms.dim[axis] = dims[axis];
    terms.stride[axis] = dims[axis] == 1 ? 0 : stride;
  }
  return terms;
}

template <class T>
class Terms {
 public:
  /// Memory of one run.
  static uint64_t bytes(const attest_problem& problem) {
    const auto& p = attest::params<attest_softmax_params>(problem);
    const attest_tensor terms = terms_of(problem);
    const int64_t rows = terms.dim[0] * terms.dim[1] * p.seq_len_q;
    const int64_t elements = adds_bias_itself(problem) ? 0 : rows * p.seq_len_kv;
    return static_cast<uint64_t>(elements) * sizeof(T) +
           static_cast<uint64_t>(rows + p.batch * p.num_kv_heads);
  }

  Terms(const attest_problem& problem, void* const* data, void* memory)
      : a_(problem, data),
        spec_(terms_of(problem)),
        own_(adds_bias_itself(problem) ? nullptr : static_cast<T*>(memory)),
        added_(own_ ? memory : data[ATTEST_BIAS]) {
    const int64_t rows = spec_.dim[0] * spec_.dim[1] * a_.p.seq_len_q;
    blind_ = static_cast<uint8_t*>(memory) + (own_ ? rows * a_.p.seq_len_kv * sizeof(T) : 0);
    wild_ = blind_ + rows;
    fill(rows);
    find_wild_keys();
  }

  const void* added() const { return added_; }

  /// Computes anew the rows of O that addition leaves wrong.
  void right() const {
    const int64_t heads = a_.p.num_heads, tokens = a_.p.seq_len_q;
#pragma omp parallel for schedule(static)
    for (int64_t n = 0; n < a_.p.batch * heads * tokens; ++n) {
      const int64_t b = n / tokens / heads, h = n / tokens % heads, i = n % tokens;
      if (blind_[row_of(b, h, i)] || wild_[b * a_.p.num_kv_heads + a_.kv_head(h)] ||
          !tame(a_.p.head_dim, [&](int64_t d) { return a_.q(b, h, i, d); }))
        attend(b, h, i);
    }
  }

 private:
  static constexpr float kHidden = -std::numeric_limits<float>::infinity();
  /// The product of two numbers up to it, summed over 1,024 channels, is a finite float32, also
  /// after a softmax_scale of 1,000.
  static constexpr float kTame = 1e16f;

  template <class Element>
  static bool tame(int64_t channels, const Element& element) {
    for (int64_t d = 0; d < channels; ++d)
      if (!(std::abs(static_cast<float>(element(d))) <= kTame)) return false;
    return true;
  }

  int64_t row_of(int64_t b, int64_t h, int64_t i) const {
    const int64_t sequence = spec_.dim[0] == 1 ? 0 : b, head = spec_.dim[1] == 1 ? 0 : h;
    return (sequence * spec_.dim[1] + head) * a_.p.seq_len_q + i;
  }

  void fill(int64_t rows) const {
#pragma omp parallel for schedule(static)
    for (int64_t n = 0; n < rows; ++n) {
      const int64_t i = n % a_.p.seq_len_q, block = n / a_.p.seq_len_q;
      const int64_t b = block / spec_.dim[1], h = block % spec_.dim[1];
      blind_[n] = !(own_ ? fill_row(b, h, i, own_ + n * a_.p.seq_len_kv) : bias_shows_key(b, h, i));
    }
  }
  /// Both return whether the row sees a key.
  bool bias_shows_key(int64_t b, int64_t h, int64_t i) const {
    for (int64_t j = 0; j < a_.p.seq_len_kv; ++j)
      if (static_cast<float>(a_.bias(b, h, i, j)) != kHidden) return true;
    return false;
  }
  bool fill_row(int64_t b, int64_t h, int64_t i, T* row) const {
    const attest::Keys keys = a_.keys(b, i);
    T hidden{};
    const T seen{};
    hidden = kHidden;
    std::fill(row, row + keys.begin, hidden);
    std::fill(row + keys.end, row + a_.p.seq_len_kv, hidden);
    if (!a_.has_pair_terms()) {
      std::fill(row + keys.begin, row + keys.end, seen);
      return keys.begin < keys.end;
    }
    bool sees = false;
    for (int64_t j = keys.begin; j < keys.end; ++j) {
      const float term = a_.pair_term(b, h, i, j);
      row[j] = term;
      sees |= term != kHidden;
    }
    return sees;
  }

  void find_wild_keys() const {
    const int64_t tokens = a_.p.seq_len_kv, heads = a_.p.num_kv_heads;
    std::fill_n(wild_, a_.p.batch * heads, uint8_t{0});
#pragma omp parallel for schedule(static)
    for (int64_t n = 0; n < a_.p.batch * heads * tokens; ++n) {
      const int64_t b = n / tokens / heads, h = n / tokens % heads, j = n % tokens;
      if (tame(a_.p.head_dim, [&](int64_t d) { return a_.k(b, h, j, d); }) &&
          tame(a_.p.head_dim_v, [&](int64_t d) { return a_.v(b, h, j, d); }))
        continue;
#pragma omp atomic write
      wild_[b * heads + h] = 1;
    }
  }

  void attend(int64_t b, int64_t h, int64_t i) const {
    const attest::Keys keys = a_.keys(b, i);
    const int64_t kv_head = a_.kv_head(h);
    const auto logit = [&](int64_t j) {
      float dot = 0;
      for (int64_t d = 0; d < a_.p.head_dim; ++d)
        dot += static_cast<float>(a_.q(b, h, i, d)) * static_cast<float>(a_.k(b, kv_head, j, d));
      return a_.logit(dot, b, h, i, j);
    };
    const auto hidden = [&](int64_t j) {
      return a_.has_pair_terms() && a_.pair_term(b, h, i, j) == kHidden;
    };
    float max = kHidden;
    for (int64_t j = keys.begin; j < keys.end; ++j)
      if (!hidden(j)) max = std::max(max, logit(j));
    double sum = 0;
    std::vector<double> row(static_cast<size_t>(a_.p.head_dim_v));
    bool sees = false;
    for (int64_t j = keys.begin; j < keys.end; ++j) {
      if (hidden(j)) continue;
      const double weight = std::exp(static_cast<double>(logit(j)) - max);
      sees = true;
      sum += weight;
      for (size_t d = 0; d < row.size(); ++d)
        row[d] += weight * static_cast<float>(a_.v(b, kv_head, j, static_cast<int64_t>(d)));
    }
    for (size_t d = 0; d < row.size(); ++d)
      a_.o(b, h, i, static_cast<int64_t>(d)) = sees ? static_cast<float>(row[d] / sum) : 0.0f;
  }

  const attest::Softmax<T> a_;
  const attest_tensor spec_;
  T* const own_;             // what is added, where it is not the bias itself
  const void* const added_;  // what is added
  uint8_t* blind_;           // [batch|1, num_heads|1, seq_len_q]: whether a row sees no key
  uint8_t* wild_;  // [batch, num_kv_heads]: whether K or V has something that is not tame there
};

}  // namespace onednn
