// For tests: attention by brute force in long double, written from SEMANTICS and attest.h pair by
// pair, sharing nothing with the geometry and the golden.
#pragma once
#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <memory>
#include <numeric>
#include <optional>
#include <utility>
#include <vector>

#include "core/operations/softmax/testing/make_case.hpp"

namespace attest::core::testing {

/// One (query head, row of Q) with the keys that it sees, by rows of the tensors.
struct BruteRow {
  std::vector<std::pair<int64_t, int64_t>> cells;  // dim 0 and dim 2 of K
  std::vector<int64_t> keys;                       // their places in the sequence
  std::vector<long double> scores, value_factors;
  int64_t b = 0, i = 0;  // sequence and place; meaningless where no place stands on the row
  std::optional<long double> sink;  // logit of what has no value
};

/// Brute force over all (query, key) pairs of one case.
class Brute {
 public:
  explicit Brute(const Case& c) : c_(c), p_(c.params()) {
    for (const int32_t role : {ATTEST_Q, ATTEST_K, ATTEST_V}) read_vectors(role);
  }

  /// By output row (leading 3); every row of O is there.
  std::map<int64_t, BruteRow> rows() const {
    std::map<int64_t, BruteRow> found = seen_rows();
    for (auto& [row, out] : found) {
      const int64_t h = row / c_.problem.tensor[ATTEST_Q].dim[2] % p_.num_heads;
      for (const int64_t j : out.keys) {
        out.scores.push_back(score(out.b, h, out.i, j));
        out.value_factors.push_back(
            factor(ATTEST_V_DESCALE, out.b, h / (p_.num_heads / p_.num_kv_heads), j));
      }
      if (p_.top_k > 0) keep_top_k(out);
    }
    return found;
  }

  /// The same without scores and factors, and with the keys that top_k would leave out.
  std::map<int64_t, BruteRow> seen_rows() const {
    std::map<int64_t, BruteRow> found;
    const int64_t rows = c_.problem.tensor[ATTEST_Q].dim[2],
                  outers = c_.problem.tensor[ATTEST_Q].dim[0];
    for (int64_t row = 0; row < outers * p_.num_heads * rows; ++row) found[row];
    for (int64_t b = 0; b < p_.batch; ++b)
      for (int64_t h = 0; h < p_.num_heads; ++h)
        for (int64_t i = 0; i < length(b, false); ++i) {
          const auto [outer, row] = cell(b, i, false);
          BruteRow& out = found[(outer * p_.num_heads + h) * rows + row];
          out.b = b;
          out.i = i;
          if (has(ATTEST_SINKS)) out.sink = static_cast<long double>(at(ATTEST_SINKS, {h}));
          for (int64_t j = 0; j < length(b, true); ++j)
            if (sees(b, h, i, j)) {
              out.cells.push_back(cell(b, j, true));
              out.keys.push_back(j);
            }
        }
    return found;
  }

  long double lse(const BruteRow& row) const {
    if (row.scores.empty()) return -std::numeric_limits<long double>::infinity();
    const long double largest = *std::max_element(row.scores.begin(), row.scores.end()),
                      m = row.sink ? std::max(largest, *row.sink) : largest;
    long double sum = row.sink ? std::exp(*row.sink - m) : 0;
    for (const long double s : row.scores) sum += std::exp(s - m);
    return m + std::log(sum);
  }

  std::vector<long double> o(const BruteRow& row, int64_t h) const {
    std::vector<long double> sums(size_t(p_.head_dim_v), 0);
    const long double z = lse(row);
    for (size_t k = 0; k < row.scores.size(); ++k) {
      const long double p = std::exp(row.scores[k] - z) * row.value_factors[k];
      const long double* v = vector(ATTEST_V, row.cells[k], h / (p_.num_heads / p_.num_kv_heads));
      for (int64_t d = 0; d < p_.head_dim_v; ++d) sums[size_t(d)] += p * v[d];
    }
    return sums;
  }

  double pairs() const { return pairs(std::numeric_limits<int64_t>::max()); }
  /// The same, with at most `most` pairs of a query.
  double pairs(int64_t most) const {
    double sum = 0;
    for (int64_t b = 0; b < p_.batch; ++b)
      for (int64_t i = 0; i < length(b, false); ++i) {
        int64_t of_query = 0;
        for (int64_t j = 0; j < length(b, true); ++j) of_query += allowed(b, i, j);
        sum += double(std::min(of_query, most));
      }
    return sum * double(p_.num_heads);
  }

 private:
  // Keys stand in the order of their places, which a stable sort keeps among equal scores.
  void keep_top_k(BruteRow& row) const {
    std::vector<size_t> order(row.scores.size());
    std::iota(order.begin(), order.end(), size_t(0));
    std::stable_sort(order.begin(), order.end(),
                     [&](size_t a, size_t b) { return row.scores[a] > row.scores[b]; });
    size_t kept = std::min(order.size(), size_t(p_.top_k));
    while (p_.top_k_ties == ATTEST_TOP_K_ALL_TIES && kept < order.size() &&
           row.scores[order[kept]] == row.scores[order[kept - 1]])
      ++kept;
    BruteRow cut = row;
    cut.cells.clear();
    cut.keys.clear();
    cut.scores.clear();
    cut.value_factors.clear();
    for (size_t n = 0; n < kept; ++n) {
      cut.cells.push_back(row.cells[order[n]]);
      cut.keys.push_back(row.keys[order[n]]);
      cut.scores.push_back(row.scores[order[n]]);
      cut.value_factors.push_back(row.value_factors[order[n]]);
    }
    row = std::move(cut);
  }

  double at(int32_t role, std::initializer_list<int64_t> index) const {
    return c_.tensors[size_t(role)].at(index);
  }
  bool has(int32_t role) const { return bool(c_.tensors[size_t(role)]); }
  // What a stored number of a position is multiplied by.
  long double factor(int32_t role, int64_t b, int64_t head, int64_t i) const {
    if (!has(role)) return 1;
    const int64_t block = role == ATTEST_Q_DESCALE ? p_.descale_block_q : p_.descale_block_kv;
    return static_cast<long double>(at(role, {b, head, block > 0 ? i / block : 0}));
  }

  int64_t length(int64_t b, bool kv) const {
    const int32_t cu = kv ? ATTEST_CU_SEQLENS_KV : ATTEST_CU_SEQLENS_Q,
                  lens = kv ? ATTEST_SEQ_LENS_KV : ATTEST_SEQ_LENS_Q;
    if (has(cu)) return int64_t(at(cu, {b + 1}) - at(cu, {b}));
    if (has(lens)) return int64_t(at(lens, {b}));
    return kv ? p_.seq_len_kv : p_.seq_len_q;
  }
  // Dim 0 and dim 2 of what stands at a place (a token on a grid).
  std::pair<int64_t, int64_t> cell(int64_t b, int64_t place, bool kv) const {
    if (kv && has(ATTEST_PAGE_TABLE))
      return {int64_t(at(ATTEST_PAGE_TABLE, {b, place / p_.page_size})), place % p_.page_size};
    const int32_t cu = kv ? ATTEST_CU_SEQLENS_KV : ATTEST_CU_SEQLENS_Q;
    const int64_t outer = has(cu) ? 0 : b, row = has(cu) ? int64_t(at(cu, {b})) + place : place;
    return {outer, has(ATTEST_ORDER) ? int64_t(at(ATTEST_ORDER, {outer, row})) : row};
  }

  // Swin's construction: roll, slice into regions, cut into windows.
  struct GridPlace {
    int64_t window, y, x, region;
  };
  GridPlace grid_place(int64_t token) const {
    const int64_t y = (token / p_.grid_width - p_.shift_y + p_.grid_height) % p_.grid_height,
                  x = (token % p_.grid_width - p_.shift_x + p_.grid_width) % p_.grid_width;
    auto slice = [](int64_t at, int64_t size, int64_t window, int64_t shift) {
      return at < size - window ? 0 : at < size - shift ? 1 : 2;
    };
    return {(y / p_.window_height) * 1000 + x / p_.window_width, y % p_.window_height,
            x % p_.window_width,
            slice(y, p_.grid_height, p_.window_height, p_.shift_y) * 3 +
                slice(x, p_.grid_width, p_.window_width, p_.shift_x)};
  }

  bool allowed(int64_t b, int64_t i, int64_t j) const {
    if (p_.grid_height > 0) return grid_place(i).window == grid_place(j).window;
    const int64_t p =
        i + p_.diagonal_offset + (p_.diagonal ? length(b, true) - length(b, false) : 0);
    if (std::min(i, j) < p_.global_tokens) return true;
    if (p_.window_left >= 0 && j < p - p_.window_left) return false;
    if (p_.window_right >= 0 && j > p + p_.window_right) return false;
    if (p_.patch_size == 0) return true;
    const int64_t size = p_.patch_size, n = length(b, true),
                  full = n / size * size;  // places from `full` on are the short last patch
    return i < full ? i / size == j / size : j >= n - std::min(size, n);
  }

  double bias(int64_t b, int64_t h, int64_t i, int64_t j) const {
    return has(ATTEST_BIAS) ? at(ATTEST_BIAS, {b, h, i, j}) : 0;
  }

  bool sees(int64_t b, int64_t h, int64_t i, int64_t j) const {
    if (!allowed(b, i, j) || (has(ATTEST_MASK) && at(ATTEST_MASK, {b, h, i, j}) == 0)) return false;
    if (has(ATTEST_BLOCK_MASK) &&
        at(ATTEST_BLOCK_MASK, {b, h, i / p_.block_q, j / p_.block_kv}) == 0)
      return false;
    return bias(b, h, i, j) != -std::numeric_limits<double>::infinity();
  }

  /// Of a key that the query sees.
  long double score(int64_t b, int64_t h, int64_t i, int64_t j) const {
    const long double *q = vector(ATTEST_Q, cell(b, i, false), h),
                      *k = vector(ATTEST_K, cell(b, j, true), h / (p_.num_heads / p_.num_kv_heads));
    long double s = 0;
    for (int64_t d = 0; d < p_.head_dim; ++d) s += q[d] * k[d];
    s *= factor(ATTEST_Q_DESCALE, b, h, i) *
         factor(ATTEST_K_DESCALE, b, h / (p_.num_heads / p_.num_kv_heads), j);
    s *= static_cast<long double>(p_.softmax_scale);
    if (p_.softcap > 0)
      s = static_cast<long double>(p_.softcap) *
          std::tanh(s / static_cast<long double>(p_.softcap));
    s += static_cast<long double>(bias(b, h, i, j));
    if (has(ATTEST_ALIBI_SLOPES)) {
      const int64_t corner = p_.diagonal ? length(b, true) - length(b, false) : 0;
      s -= static_cast<long double>(at(ATTEST_ALIBI_SLOPES, {b, h})) *
           std::fabs(static_cast<long double>(i + p_.diagonal_offset + corner - j));
    }
    if (p_.grid_height == 0) return s;
    const GridPlace query = grid_place(i), key = grid_place(j);
    if (has(ATTEST_REL_BIAS))
      s += static_cast<long double>(at(ATTEST_REL_BIAS, {h, query.y - key.y + p_.window_height - 1,
                                                         query.x - key.x + p_.window_width - 1}));
    if (query.region != key.region) s += static_cast<long double>(p_.shift_bias);
    return s;
  }

  // Reads each element once: a pair needs many of them.
  void read_vectors(int32_t role) {
    const auto& dim = c_.problem.tensor[size_t(role)].dim;
    for (int64_t outer = 0; outer < dim[0]; ++outer)
      for (int64_t head = 0; head < dim[1]; ++head)
        for (int64_t row = 0; row < dim[2]; ++row)
          for (int64_t d = 0; d < dim[3]; ++d)
            vectors_[role].push_back(static_cast<long double>(at(role, {outer, head, row, d})));
  }
  const long double* vector(int32_t role, std::pair<int64_t, int64_t> cell, int64_t head) const {
    const auto& dim = c_.problem.tensor[size_t(role)].dim;
    return vectors_.at(role).data() +
           ((cell.first * dim[1] + head) * dim[2] + cell.second) * dim[3];
  }

  const Case& c_;
  const attest_softmax_params& p_;
  std::map<int32_t, std::vector<long double>> vectors_;  // Q, K and V, dense
};

}  // namespace attest::core::testing
