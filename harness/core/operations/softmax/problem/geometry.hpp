// Which keys each query of a softmax problem may see, and where both lie in memory. No other file
// decides this.
//
// Sequence b has query positions 0 .. length_q(b) - 1 and key positions 0 .. length_kv(b) - 1. In
// every problem (dense, causal, band, patches, grid windows), the keys that position i may see are
// one interval of positions; MASK, BLOCK_MASK and BIAS may hide some of them. If a problem has
// global tokens, the interval is all positions, and the band hides some of them as a mask does:
//
//   const Geometry geometry(problem, tensors);
//   for (int64_t b = 0; b < geometry.batch(); ++b)
//     for (int64_t i = 0; i < geometry.length_q(b); ++i) {
//       const Interval keys = geometry.keys(b, i);     // begin and end never decrease with i
//       const Cell at = geometry.query(b, i);          // Q[at.outer, h, at.row, :]; so O and LSE
//       const Cell key = geometry.key(b, keys.begin);  // K[key.outer, kv_head, key.row, :]; so V
//     }
//
// On a grid, positions count window by window, so that a window is an interval too. With ORDER they
// count along the order. Code calls a position a place.
#pragma once
#include <cstdint>
#include <vector>

#include "core/operations/operation.hpp"
#include "core/tensor/constants.hpp"

namespace attest::core {

/// Whether a query sees only keys near its own position, or none behind it: window or causal.
inline bool has_band(const attest_softmax_params& params) {
  return params.window_left >= 0 || params.window_right >= 0;
}

/// The score of a hidden key: its weight is 0.
inline constexpr double kHidden = -kInfinity;

/// The positions begin .. end - 1.
struct Interval {
  int64_t begin = 0, end = 0;
  int64_t size() const { return end > begin ? end - begin : 0; }
  bool contains(int64_t place) const { return place >= begin && place < end; }
};

/// The interval of keys for query position `i` of a sequence with these lengths: the intersection
/// of the band (attest.h: p - window_left <= j <= p + window_right) and the patch or grid window.
/// Beside global tokens: all keys, of which hidden_by_band hides some.
Interval visible_keys(const attest_softmax_params& params, int64_t i, int64_t length_q,
                      int64_t length_kv);
/// The key position on the diagonal in the row of query position `i`: p in attest.h.
int64_t diagonal_place(const attest_softmax_params& params, int64_t i, int64_t length_q,
                       int64_t length_kv);
/// Beside global tokens: whether the band hides key position j from query position i. Else false.
bool hidden_by_band(const attest_softmax_params& params, int64_t i, int64_t j, int64_t length_q,
                    int64_t length_kv);
/// The number of visible (query, key) pairs of such a sequence, without what tensors hide. Takes
/// O(length_q) time; O(1) if every query sees every key.
double visible_pairs(const attest_softmax_params& params, int64_t length_q, int64_t length_kv);

/// The first and third index of a row of Q, O and LSE, or of K and V.
struct Cell {
  int64_t outer = 0;  // dim 0: batch; 0 if packed; the page if paged
  int64_t row = 0;    // dim 2
};

class Geometry {
 public:
  /// Reads CU_SEQLENS, SEQ_LENS, ORDER and PAGE_TABLE. `tensors` must outlive this object. Throws
  /// Error if lengths or rows lie outside the tensors.
  Geometry(const Problem& problem, const Tensors& tensors);

  int64_t batch() const { return params_.batch; }
  int64_t length_q(int64_t b) const { return length_q_[size_t(b)]; }
  int64_t length_kv(int64_t b) const { return length_kv_[size_t(b)]; }
  Interval keys(int64_t b, int64_t i) const {
    return visible_keys(params_, i, length_q(b), length_kv(b));
  }
  /// The key position on the diagonal of the band, where ALiBi's distance is 0, in the row of query
  /// position i: p in attest.h.
  int64_t diagonal(int64_t b, int64_t i) const {
    return diagonal_place(params_, i, length_q(b), length_kv(b));
  }
  Cell query(int64_t b, int64_t i) const;
  Cell key(int64_t b, int64_t j) const;
  /// The rows of Q, O and LSE without a position, numbered as in row_offset (leading 3). There o =
  /// 0 and lse = -inf.
  std::vector<int64_t> idle_rows() const;
  /// The same of K and V. A paged problem has none that count.
  std::vector<int64_t> idle_key_rows() const;
  /// The row of O and LSE (leading 3) of position i and query head h.
  int64_t output_row(int64_t b, int64_t h, int64_t i) const;
  /// The row of K and V (leading 3) of position j and key head kv_head.
  int64_t key_row(int64_t b, int64_t kv_head, int64_t j) const;

  /// Whether something is added to the scores of pairs or hides them: BIAS, MASK, REL_BIAS,
  /// shift_bias, ALIBI_SLOPES, BLOCK_MASK, the band beside global tokens.
  bool pair_terms() const { return may_hide() || shifted_ || slopes_; }
  bool has_sinks() const { return bool(sinks_); }
  /// The sink's logit of query head h; -inf: the problem has no sinks.
  double sink(int64_t h) const;
  /// Whether the same number may be added to many scores of a row: by shift_bias, or by a BIAS with
  /// one number for each row.
  bool common_addends() const { return shifted_ || (bias_ && bias_.spec.stride[3] == 0); }
  /// Whether keys inside an interval may be hidden: by MASK or BLOCK_MASK, by a bias with -inf, or
  /// by the band beside global tokens.
  bool may_hide() const {
    return mask_ || block_mask_ || bias_ || rel_bias_ || params_.global_tokens > 0;
  }
  /// The row of BLOCK_MASK of a query position; 0: there is none.
  int64_t block_row(int64_t i) const { return block_mask_ ? token(i) / params_.block_q : 0; }
  /// Whether BLOCK_MASK hides the pair; false: there is none.
  bool block_hidden(int64_t b, int64_t h, int64_t i, int64_t j) const {
    return block_mask_ &&
           block_mask_.at({b, h, token(i) / params_.block_q, token(j) / params_.block_kv}) == 0;
  }
  /// Adds the terms of pair_terms() to scores[j - keys.begin] for the keys of the interval. The
  /// score of a hidden pair becomes -inf, even if it was NaN.
  void add_pair_terms(int64_t b, int64_t h, int64_t i, Interval keys, double* scores) const;
  /// The index of a position in BIAS and MASK, and what counts in BLOCK_MASK: on a grid the token's
  /// number, else the position.
  int64_t token(int64_t place) const;
  /// The position with that token.
  int64_t place(int64_t token) const { return grid_.empty() ? token : place_[size_t(token)]; }
  /// On a shifted grid: 0 .. 3, telling which edges the token was rolled around. Tokens of one
  /// window with different regions were not neighbours before.
  int64_t region(int64_t place) const;
  /// The REL_BIAS of two positions of one window.
  double rel_bias(int64_t h, int64_t i, int64_t j) const;
  /// Whether query head h at position i sees key position j. Slow; for tests and single pairs.
  bool visible(int64_t b, int64_t h, int64_t i, int64_t j) const;

 private:
  struct GridPoint {
    int32_t y, x;                // in the rolled grid
    int32_t window_y, window_x;  // inside the window
  };
  const GridPoint& grid_point(int64_t place) const { return grid_[size_t(place)]; }
  void lay_out_grid();
  double pair_term(int64_t b, int64_t h, int64_t i, int64_t j) const;
  void add_rows_of_pairs(int64_t b, int64_t h, int64_t i, Interval keys, double* scores) const;
  void hide_blocks(int64_t b, int64_t h, int64_t i, Interval keys, double* scores) const;
  void hide_band(int64_t b, int64_t i, Interval keys, double* scores) const;
  void check_order() const;
  void check_pages() const;

  attest_softmax_params params_;
  Tensor q_, k_, bias_, mask_, block_mask_, rel_bias_, slopes_, sinks_, order_, pages_;
  bool packed_q_ = false, packed_kv_ = false, shifted_ = false;
  std::vector<int64_t> length_q_, length_kv_, first_q_, first_kv_;  // first: the packed row of
                                                                    // position 0
  std::vector<GridPoint> grid_;  // for each position; empty: no grid
  std::vector<int64_t> place_;   // for each token of a grid
};

}  // namespace attest::core
