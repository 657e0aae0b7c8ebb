// Which keys each query of a softmax problem may see, and where both lie: no other file knows.
//
// Positions. Sequence b has length_q(b) query positions i and length_kv(b) key positions j.
// Whatever the problem (dense, causal, band, patches, grid windows), the keys that position i may
// see are one interval of positions, less what mask and bias take away:
//
//   const Geometry geometry(problem, tensors);
//   for (int64_t b = 0; b < geometry.batch(); ++b)
//     for (int64_t i = 0; i < geometry.length_q(b); ++i) {
//       const Interval keys = geometry.keys(b, i);     // begin and end never decrease with i
//       const Cell at = geometry.query(b, i);          // Q[at.outer, h, at.row, :]; so O and LSE
//       const Cell key = geometry.key(b, keys.begin);  // K[key.outer, kv_head, key.row, :]; so V
//     }
//
// On a grid, positions count window by window, so that a window is an interval too; with ORDER they
// count along the order.
#pragma once
#include <cstdint>
#include <vector>

#include "core/operations/operation.hpp"

namespace attest::core {

/// Places begin .. end - 1.
struct Interval {
  int64_t begin = 0, end = 0;
  int64_t size() const { return end > begin ? end - begin : 0; }
  bool contains(int64_t place) const { return place >= begin && place < end; }
};

/// The interval for place `i` of a sequence of those lengths: band (attest.h: p - window_left <= j
/// <= p + window_right) and patch or grid window. No tensors needed, so that costs can be counted.
Interval visible_keys(const attest_softmax_params& params, int64_t i, int64_t length_q,
                      int64_t length_kv);
/// The p of attest.h: the key place on the diagonal in the row of place `i`.
int64_t diagonal_place(const attest_softmax_params& params, int64_t i, int64_t length_q,
                       int64_t length_kv);
/// Visible (query, key) pairs of one such sequence, masks not counted; O(length_q), O(1) where
/// every key is seen.
double visible_pairs(const attest_softmax_params& params, int64_t length_q, int64_t length_kv);

/// First and third index of a row of Q, O, LSE, or of K, V.
struct Cell {
  int64_t outer = 0;  // dim 0: batch, 0 where packed, page
  int64_t row = 0;    // dim 2
};

class Geometry {
 public:
  /// Reads CU_SEQLENS, SEQ_LENS, ORDER and PAGE_TABLE of `tensors`, which must outlive it. Lengths
  /// and rows outside the tensors throw Error: they would read other memory.
  Geometry(const Problem& problem, const Tensors& tensors);

  int64_t batch() const { return params_.batch; }
  int64_t length_q(int64_t b) const { return length_q_[size_t(b)]; }
  int64_t length_kv(int64_t b) const { return length_kv_[size_t(b)]; }
  Interval keys(int64_t b, int64_t i) const {
    return visible_keys(params_, i, length_q(b), length_kv(b));
  }
  /// Where the diagonal of the band, and ALiBi's distance 0, stands in the row of place i:
  /// attest.h's p.
  int64_t diagonal(int64_t b, int64_t i) const {
    return diagonal_place(params_, i, length_q(b), length_kv(b));
  }
  Cell query(int64_t b, int64_t i) const;
  Cell key(int64_t b, int64_t j) const;
  /// Rows of Q, O, LSE as row_offset counts them (leading 3) that no place stands on: o = 0, lse =
  /// -inf there.
  std::vector<int64_t> idle_rows() const;
  /// The row of O and LSE, leading 3, of place i and query head h.
  int64_t output_row(int64_t b, int64_t h, int64_t i) const;

  /// Whether anything but the interval decides or shifts a score: BIAS, MASK, REL_BIAS, shift_bias,
  /// ALIBI_SLOPES.
  bool pair_terms() const { return mask_ || bias_ || rel_bias_ || shifted_ || slopes_; }
  bool has_sinks() const { return bool(sinks_); }
  bool has_slopes() const { return bool(slopes_); }
  /// The logit of query head h that has no value; -inf: none.
  double sink(int64_t h) const;
  /// Whether many keys of a row may get the same addend: BIAS that is one number a row, or
  /// shift_bias.
  bool common_addends() const { return shifted_ || (bias_ && bias_.spec.stride[3] == 0); }
  /// Whether keys inside an interval may still be unseen: MASK, or a bias that may hold -inf.
  bool may_hide() const { return mask_ || bias_ || rel_bias_; }
  /// Adds those terms to scores[j - keys.begin] for the keys of the interval; -inf where the pair
  /// is hidden, whatever stood there.
  void add_pair_terms(int64_t b, int64_t h, int64_t i, Interval keys, double* scores) const;
  /// How BIAS and MASK count a place: on a grid by its token.
  int64_t token(int64_t place) const;
  /// On a shifted grid: which edges a place has gone round, 0 .. 3. Places of one window with other
  /// regions were no neighbours.
  int64_t region(int64_t place) const;
  /// What REL_BIAS adds to a pair of places of one window.
  double rel_bias(int64_t h, int64_t i, int64_t j) const;
  /// Whether query head h at place i sees place j. Slow: for tests and single pairs.
  bool visible(int64_t b, int64_t h, int64_t i, int64_t j) const;

 private:
  struct GridPoint {
    int32_t y, x;                // in the rolled grid
    int32_t window_y, window_x;  // inside the window
  };
  const GridPoint& grid_point(int64_t place) const { return grid_[size_t(place)]; }
  void lay_out_grid();
  double pair_term(int64_t b, int64_t h, int64_t i, int64_t j) const;
  void check_order() const;
  void check_pages() const;

  attest_softmax_params params_;
  Tensor q_, k_, bias_, mask_, rel_bias_, slopes_, sinks_, order_, pages_;
  bool packed_q_ = false, packed_kv_ = false, shifted_ = false;
  std::vector<int64_t> length_q_, length_kv_, first_q_, first_kv_;  // first: packed row of place 0
  std::vector<GridPoint> grid_;  // of each place; empty where there is no grid
};

}  // namespace attest::core
