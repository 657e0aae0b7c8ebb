// onednn/hiding.hpp: what oneDNN's primitives leave to do where something is added to scores, or
// where a query does not see every key. A hidden key has a weight of 0, and 0 times NaN is NaN.
// Therefore the second product is one with a copy of V in which what is not finite is 0; the rows
// that see it get it afterwards.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>

#include "attest.hpp"

namespace onednn {

/// The features that need it.
inline constexpr uint64_t kHiding = ATTEST_WITH_CAUSAL | ATTEST_WITH_WINDOW | ATTEST_WITH_BIAS |
                                    ATTEST_WITH_MASK | ATTEST_WITH_SEQ_LENS | ATTEST_WITH_ALIBI;

/// The query rows of some heads and sequences that are computed at a time.
struct Block {
  int64_t sequence, head, row;     // the first ones
  int64_t sequences, heads, rows;  // how many of each
};

template <class T>
class Hiding {
 public:
  /// Memory of one run, where the largest block has that many rows of queries.
  static uint64_t bytes(const attest_problem& problem, int64_t rows) {
    const auto& p = attest::params<attest_softmax_params>(problem);
    return static_cast<uint64_t>(rows_of_keys(p) * (p.head_dim_v * sizeof(T) + 1) + rows);
  }

  Hiding(const attest_problem& problem, void* const* data, void* memory) : a_(problem, data) {
    values_ = static_cast<T*>(memory);
    wild_ = reinterpret_cast<uint8_t*>(values_ + rows_of_keys(a_.p) * a_.p.head_dim_v);
    blind_ = wild_ + rows_of_keys(a_.p);
    copy_values();
  }

  /// V, dense, with 0 in place of what is not finite, from a head of a sequence on.
  void* values(int64_t b, int64_t kv_head) const {
    return values_ + row_of_key(b, kv_head, 0) * a_.p.head_dim_v;
  }

  /// Turns the scores of a block, [sequences, heads, rows, seq_len_kv], into logits. Those of a row
  /// that sees no key become 0.
  void edit(const Block& block, float* scores) const {
    each_row(block, [&](int64_t n, int64_t b, int64_t h, int64_t i) {
      float* const row = scores + n * a_.p.seq_len_kv;
      blind_[n] = !edit_row(b, h, i, row);
      if (blind_[n]) std::fill_n(row, a_.p.seq_len_kv, 0.0f);
    });
  }

  /// Rights the rows of O that see no key, or something that is not finite.
  void right(const Block& block) const {
    each_row(block, [&](int64_t n, int64_t b, int64_t h, int64_t i) {
      if (blind_[n])
        for (int64_t d = 0; d < a_.p.head_dim_v; ++d) a_.o(b, h, i, d) = 0;
      else if (any_wild_)
        add_wild(b, h, i);
    });
  }

 private:
  static constexpr float kHidden = -std::numeric_limits<float>::infinity();

  static int64_t rows_of_keys(const attest_softmax_params& p) {
    return p.batch * p.num_kv_heads * p.seq_len_kv;
  }
  int64_t row_of_key(int64_t b, int64_t kv_head, int64_t j) const {
    return (b * a_.p.num_kv_heads + kv_head) * a_.p.seq_len_kv + j;
  }

  template <class Body>
  void each_row(const Block& block, const Body& body) const {
#pragma omp parallel for schedule(static)
    for (int64_t n = 0; n < block.sequences * block.heads * block.rows; ++n)
      body(n, block.sequence + n / block.rows / block.heads,
           block.head + n / block.rows % block.heads, block.row + n % block.rows);
  }

  void copy_values() {
    const int64_t rows = rows_of_keys(a_.p), tokens = a_.p.seq_len_kv, heads = a_.p.num_kv_heads;
    bool any = false;
#pragma omp parallel for schedule(static) reduction(|| : any)
    for (int64_t n = 0; n < rows; ++n) {
      bool wild = false;
      for (int64_t d = 0; d < a_.p.head_dim_v; ++d) {
        const T element = a_.v(n / tokens / heads, n / tokens % heads, n % tokens, d);
        const bool finite = std::isfinite(static_cast<float>(element));
        values_[n * a_.p.head_dim_v + d] = finite ? element : T{};
        wild |= !finite;
      }
      wild_[n] = wild;
      any = any || wild;
    }
    any_wild_ = any;
  }

  bool edit_row(int64_t b, int64_t h, int64_t i, float* scores) const {
    const attest::Keys keys = a_.keys(b, i);
    std::fill(scores, scores + keys.begin, kHidden);
    std::fill(scores + keys.end, scores + a_.p.seq_len_kv, kHidden);
    if (!a_.has_pair_terms()) return keys.begin < keys.end;
    if (a_.mask && !a_.bias && !a_.alibi_slopes) return mask_row(b, h, i, keys, scores);
    bool sees = false;
    for (int64_t j = keys.begin; j < keys.end; ++j) {
      const float term = a_.pair_term(b, h, i, j);
      scores[j] = term == kHidden ? kHidden : scores[j] + term;
      sees |= term != kHidden;
    }
    return sees;
  }
  bool mask_row(int64_t b, int64_t h, int64_t i, attest::Keys keys, float* scores) const {
    const uint8_t* const mask = &a_.mask(b, h, i, 0);
    const int64_t stride = a_.mask.stride(3);
    uint8_t sees = 0;
    for (int64_t j = keys.begin; j < keys.end; ++j) {
      const uint8_t seen = mask[j * stride];
      scores[j] = seen ? scores[j] : kHidden;
      sees |= seen;
    }
    return sees != 0;
  }

  void add_wild(int64_t b, int64_t h, int64_t i) const {
    const attest::Keys keys = a_.keys(b, i);
    const int64_t kv_head = a_.kv_head(h);
    const uint8_t* const wild = wild_ + row_of_key(b, kv_head, 0);
    for (int64_t j = keys.begin; j < keys.end; ++j) {
      if (!wild[j] || (a_.has_pair_terms() && a_.pair_term(b, h, i, j) == kHidden)) continue;
      for (int64_t d = 0; d < a_.p.head_dim_v; ++d) {
        const auto value = static_cast<float>(a_.v(b, kv_head, j, d));
        if (!std::isfinite(value)) a_.o(b, h, i, d) = static_cast<float>(a_.o(b, h, i, d)) + value;
      }
    }
  }

  const attest::Softmax<T> a_;
  T* values_;       // [batch, num_kv_heads, seq_len_kv, head_dim_v]
  uint8_t* wild_;   // [batch, num_kv_heads, seq_len_kv]: whether V has something not finite there
  uint8_t* blind_;  // [sequences, heads, rows]: whether a row of the block sees no key
  bool any_wild_{};
};

}  // namespace onednn
