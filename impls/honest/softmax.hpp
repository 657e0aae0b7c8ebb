// Softmax attention by a method: every feature of the operation, any storage, two queries at a
// time.
#pragma once
#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "attest.hpp"
#include "honest/load.hpp"
#include "honest/method.hpp"
#include "top_k.hpp"

namespace honest {

constexpr uint64_t kSoftmaxFeatures =
    ATTEST_WITH_GQA | ATTEST_WITH_HEAD_DIM_V | ATTEST_WITH_CAUSAL | ATTEST_WITH_WINDOW |
    ATTEST_WITH_DIAGONAL | ATTEST_WITH_SOFTCAP | ATTEST_WITH_BIAS | ATTEST_WITH_MASK |
    ATTEST_WITH_LSE | ATTEST_WITH_VARLEN | ATTEST_WITH_SEQ_LENS | ATTEST_WITH_PAGES |
    ATTEST_WITH_ORDER | ATTEST_WITH_PATCHES | ATTEST_WITH_GRID | ATTEST_WITH_REL_BIAS |
    ATTEST_WITH_STRIDES | ATTEST_WITH_MIXED_DTYPE | ATTEST_WITH_UNALIGNED | ATTEST_WITH_ALIBI |
    ATTEST_WITH_SINKS | ATTEST_WITH_BLOCK_MASK | ATTEST_WITH_GLOBAL | ATTEST_WITH_TOP_K |
    ATTEST_WITH_DESCALE;
constexpr uint64_t kDtypes = ATTEST_BIT(ATTEST_F32) | ATTEST_BIT(ATTEST_F16) |
                             ATTEST_BIT(ATTEST_BF16) | ATTEST_BIT(ATTEST_F64) |
                             ATTEST_BIT(ATTEST_F8E4M3) | ATTEST_BIT(ATTEST_F8E5M2);

class SoftmaxKernel {
 public:
  SoftmaxKernel(const attest_problem& problem, void* const* data, void* workspace,
                const Method& method)
      : problem_(problem),
        data_(data),
        a_(problem, data),
        m_(method),
        x_(a_.p, workspace),
        tile_(tile(a_.p, method)),
        multiplies_stored_(is_f8(method.computes.qk) &&
                           method.computes.qk == problem.tensor[ATTEST_Q].dtype) {}

  static void query(const attest_problem& problem, const Method& method, attest_support& support) {
    const auto& p = attest::params<attest_softmax_params>(problem);
    declare_softmax(method.declares, support);
    if (exact_weights(method)) support.arithmetic |= ATTEST_P_NORMALISED_FIRST;
    // A tile is summed apart, then added to the tiles before it; parts are merged one after the
    // other.
    const int64_t keys = p.seq_len_kv, width = tile(p, method);
    // A coarser accumulator is rounded key by key, in one chain.
    const bool chained = width >= keys || method.computes.accumulator != ATTEST_F32;
    support.sum_chain = chained ? 0 : width + (keys + width - 1) / width;
    support.workspace_bytes = Buffers(p, nullptr).bytes;
  }

  void run() {
    for (int64_t b = 0; b < a_.p.batch; ++b)
      for (int64_t h = 0; h < a_.p.num_heads; ++h) attend(b, h);
  }

 private:
  static constexpr float kHidden = -std::numeric_limits<float>::infinity();

  struct Buffers {
    Buffers(const attest_softmax_params& p, void* memory)
        : keys(round_up(p.seq_len_kv, kBlock)), channels(round_up(p.head_dim_v, kChannels)) {
      Arena arena(memory);
      q = arena.take(round_up(p.seq_len_q, kRows) * p.head_dim);
      k = arena.take(keys * p.head_dim);
      v = arena.take(keys * channels);
      s = arena.take(kRows * keys);
      addend = arena.take(keys);
      scratch = arena.take(keys);
      tile_sum = arena.take(kRows * channels);
      sum = arena.take(kRows * channels);
      merged = arena.take(kRows * channels);
      bytes = arena.bytes();
    }
    int64_t keys, channels;
    float *q, *k, *v;             // [rows, head_dim], [blocks, head_dim, kBlock], [keys, channels]
    float *s, *addend, *scratch;  // [kRows, keys], [keys], [keys]
    float *tile_sum, *sum, *merged;  // [kRows, channels]
    size_t bytes;
  };
  /// An element of V that is Inf or NaN: 0 in the product, added where its key is seen.
  struct Wild {
    int64_t key, channel;
    float value;
  };
  struct Row {
    int64_t begin = 0, end = 0;                    // keys that it sees, as they are visited
    float top = kHidden, total = 0;                // of the part at hand
    float lse = kHidden;                           // of the parts merged so far
    float merged_top = kHidden, merged_total = 0;  // the same, where they are not merged by it
    bool any = false;  // sees a key, even if its logit overflows to -inf in a coarse dtype
    std::vector<Wild> wild;
  };

  /// Whether probabilities are exp(s - lse), of a second pass over the keys.
  static bool exact_weights(const Method& method) {
    return (method.computes.ways & ATTEST_WEIGHS_BY_LSE) != 0 && method.splits == 1;
  }
  static int64_t tile(const attest_softmax_params& p, const Method& method) {
    if (method.tile == 0) return std::max<int64_t>(p.seq_len_kv, 1);
    if (method.tile == kQuarter) return (p.seq_len_kv + 3) / 4;
    if (method.tile != kAnyTile) return method.tile;
    constexpr int64_t kTiles[] = {16, 32, 48, 64, 128, 256};
    return kTiles[static_cast<size_t>(p.seq_len_kv + p.head_dim + p.seq_len_q) % 6];
  }
  static bool is_f8(int32_t dtype) { return dtype == ATTEST_F8E4M3 || dtype == ATTEST_F8E5M2; }
  bool folds_scale() const { return m_.folds_scale && !multiplies_stored_; }
  int64_t place(int64_t visited) const { return m_.reversed ? length_ - 1 - visited : visited; }

  void attend(int64_t b, int64_t h) {
    length_ = a_.length_kv(b);
    gather_queries(b, h);
    gather_keys(b, a_.kv_head(h));
    for (int64_t i = 0; i < a_.rows(b); i += kRows) {
      Row rows[kRows];
      int64_t first = length_, last = 0;
      for (int64_t r = 0; r < kRows && i + r < a_.rows(b); ++r) {
        const attest::Keys keys = a_.keys(b, i + r);
        if (keys.begin == keys.end) continue;
        rows[r].begin = m_.reversed ? length_ - keys.end : keys.begin;
        rows[r].end = rows[r].begin + keys.end - keys.begin;
        first = std::min(first, rows[r].begin);
        last = std::max(last, rows[r].end);
      }
      std::fill_n(x_.merged, kRows * x_.channels, 0.0f);
      if (first < last) attend_rows(b, h, i, rows, first, last);
      for (int64_t r = 0; r < kRows && i + r < a_.rows(b); ++r)
        write(b, h, i + r, rows[r], x_.merged + r * x_.channels);
    }
  }

  void gather_queries(int64_t b, int64_t h) {
    const int64_t rows = a_.rows(b), dim = a_.p.head_dim;
    for (int64_t i = 0; i < round_up(rows, kRows); ++i) {
      const int64_t place = std::min(i, rows - 1);
      const attest::Cell at = a_.query(b, place);
      const float factor = multiplies_stored_ ? 1 : a_.q_factor(b, h, place);
      for (int64_t d = 0; d < dim; ++d)
        x_.q[i * dim + d] =
            factor * a_.q(at.batch, h, at.row, d) * (folds_scale() ? a_.p.softmax_scale : 1);
    }
    round_operand(x_.q, round_up(rows, kRows) * dim);
  }

  /// All vectors of one head of Q or K, rounded to the operand. Those of 8 bits do not hold every
  /// number: they have a scale for each head, here a power of two.
  void round_operand(float* x, int64_t count) const {
    const int32_t dtype = m_.computes.qk;
    if (multiplies_stored_) return;
    if (!is_f8(dtype)) return round_row(x, count, dtype);
    const float most = dtype == ATTEST_F8E4M3 ? 448.0f : 57344.0f;
    float largest = 0, scale = 1;
    for (int64_t n = 0; n < count; ++n)
      if (std::isfinite(x[n])) largest = std::max(largest, std::fabs(x[n]));
    while (largest * scale > most) scale /= 2;
    if (scale != 1) std::for_each(x, x + count, [scale](float& one) { one *= scale; });
    round_row(x, count, dtype);
    if (scale != 1) std::for_each(x, x + count, [scale](float& one) { one /= scale; });
  }

  /// Reads one row of K or V.
  void load(int32_t role, const attest::View<attest::Any>& tensor, attest::Cell at, int64_t kv_head,
            int64_t count, float* to) const {
    load_row(problem_.tensor[role].dtype, data_[role], tensor.offset(at.batch, kv_head, at.row, 0),
             tensor.stride(3), count, to);
  }

  /// Gathers K and V of one head. They stay as they are if the query head before this one had the
  /// same.
  void gather_keys(int64_t b, int64_t kv_head) {
    if (b == gathered_b_ && kv_head == gathered_kv_head_) return;
    gathered_b_ = b;
    gathered_kv_head_ = kv_head;
    const int64_t dim = a_.p.head_dim, dim_v = a_.p.head_dim_v;
    row_.resize(static_cast<size_t>(dim));
    wild_.clear();
    for (int64_t n = 0; n < round_up(length_, kBlock); ++n) {
      float* key = x_.k + n / kBlock * kBlock * dim + n % kBlock;
      float* value = x_.v + n * x_.channels;
      if (n >= length_) {
        for (int64_t d = 0; d < dim; ++d) key[d * kBlock] = 0;
        std::fill_n(value, x_.channels, 0.0f);
        continue;
      }
      const attest::Cell at = a_.key(b, place(n));
      const float of_key = multiplies_stored_ ? 1 : a_.k_factor(b, kv_head, place(n)),
                  of_value = a_.v_factor(b, kv_head, place(n));
      load(ATTEST_K, a_.k, at, kv_head, dim, row_.data());
      for (int64_t d = 0; d < dim; ++d) key[d * kBlock] = of_key * row_[static_cast<size_t>(d)];
      load(ATTEST_V, a_.v, at, kv_head, dim_v, value);
      for (int64_t d = 0; d < dim_v; ++d) {
        value[d] *= of_value;
        if (!std::isfinite(value[d])) {
          wild_.push_back({n, d, value[d]});
          value[d] = 0;
        }
      }
      std::fill(value + dim_v, value + x_.channels, 0.0f);
    }
    round_operand(x_.k, round_up(length_, kBlock) * dim);
    round_row(x_.v, round_up(length_, kBlock) * x_.channels, m_.computes.pv);
  }

  void attend_rows(int64_t b, int64_t h, int64_t i, Row (&rows)[kRows], int64_t first,
                   int64_t last) {
    first = first / kBlock * kBlock;
    const int64_t dim = a_.p.head_dim;
    for (int64_t r = 0; r < kRows; ++r)
      std::fill(x_.s + r * x_.keys + first, x_.s + r * x_.keys + round_up(last, kBlock), 0.0f);
    for (int64_t n = first; n < last; n += kChannels)
      multiply(x_.q + i * dim, dim, x_.k + n / kBlock * kBlock * dim + n % kBlock, kBlock, dim,
               x_.s + n, x_.keys);
    for (int64_t r = 0; r < kRows; ++r)
      logits(b, h, i + r, rows[r], first, last, x_.s + r * x_.keys);
    const int64_t tiles = (length_ + tile_ - 1) / tile_, parts = std::min(m_.splits, tiles);
    for (int64_t part = 0; part < parts; ++part) {
      const int64_t begin = tiles * part / parts * tile_,
                    end = std::min(tiles * (part + 1) / parts * tile_, last);
      std::fill_n(x_.sum, kRows * x_.channels, 0.0f);
      // A sink is the first part's first key, without a value.
      const float sink = part == 0 ? a_.sink(h) : kHidden;
      for (Row& row : rows) {
        row.top = sink;
        row.total = sink == kHidden ? 0 : 1;
      }
      const auto tiles_of_part = [&](const auto& body) {
        for (int64_t n = std::max(begin, first / tile_ * tile_); n < end; n += tile_)
          if (const int64_t from = std::max(n, first), to = std::min(n + tile_, end); from < to)
            body(from, to);
      };
      if (knows_sums_first())
        tiles_of_part([&](int64_t from, int64_t to) {
          for (int64_t r = 0; r < kRows; ++r)
            count_tile(rows[r], x_.s + r * x_.keys + from, to - from);
        });
      tiles_of_part([&](int64_t from, int64_t to) { add_tile(rows, from, to); });
      for (int64_t r = 0; r < kRows; ++r)
        merge(rows[r], x_.sum + r * x_.channels, x_.merged + r * x_.channels);
    }
  }

  void logits(int64_t b, int64_t h, int64_t i, Row& row, int64_t first, int64_t last, float* s) {
    std::fill(s + first, s + std::clamp(row.begin, first, last), kHidden);
    std::fill(s + std::clamp(row.end, first, last), s + last, kHidden);
    const int64_t count = row.end - row.begin;
    if (count == 0) return;
    row.any = !a_.has_pair_terms();
    float* seen = s + row.begin;
    if (multiplies_stored_)
      for (int64_t n = 0; n < count; ++n)
        seen[n] *= a_.q_factor(b, h, i) * a_.k_factor(b, a_.kv_head(h), place(row.begin + n));
    const float cap = a_.p.softcap;
    to_logits(seen, count, folds_scale() ? 1 : a_.p.softmax_scale, nullptr, m_.computes.score);
    if (cap > 0) {
      softcap(seen, count, cap);
      round_row(seen, count, m_.computes.score);
    }
    if (a_.has_pair_terms()) {
      for (int64_t n = 0; n < count; ++n)
        x_.addend[n] = a_.pair_term(b, h, i, place(row.begin + n));
      row.any = std::any_of(x_.addend, x_.addend + count, [](float x) { return x != kHidden; });
      to_logits(seen, count, 1, x_.addend, m_.computes.score);
    }
    if (a_.p.top_k > 0) top_k::keep(a_.p, seen, count, visible_, m_.reversed);
    for (const Wild& element : wild_)
      if (element.key >= row.begin && element.key < row.end && s[element.key] != kHidden)
        row.wild.push_back(element);
  }

  bool has(uint32_t way) const { return (m_.computes.ways & way) != 0; }
  bool weighs_by_lse() const { return exact_weights(m_); }
  /// Whether the normaliser of a part is known before its probabilities are: these are divided by
  /// it, or are exp(s - lse).
  bool knows_sums_first() const { return has(ATTEST_P_NORMALISED_FIRST) || weighs_by_lse(); }

  /// The declared exp of one number.
  float exponential(float x) const {
    exponentials(&x, 1, 0, m_.computes);
    return x;
  }

  /// The maximum of the row rises to that of the tile's logits; returns by what all that was summed
  /// before it shrinks.
  float raise_top(Row& row, const float* s, int64_t count) const {
    const float most = largest(s, count), old = row.top;
    row.top = most != most ? most : std::max(old, most);  // a NaN is not lost
    if (row.top == old || old == kHidden) return 1;
    const float keep = exponential(old - row.top);
    row.total *= keep;
    round_sums(&row.total, 1);
    return keep;
  }

  void round_sums(float* sums, int64_t count) const {
    round_row(sums, count, m_.computes.accumulator);
    const float least = least_sum(m_.computes);
    for (int64_t n = 0; least > 0 && n < count; ++n)
      sums[n] = std::fabs(sums[n]) < least ? 0 : sums[n];
  }

  /// A tile's part of the normaliser alone.
  void count_tile(Row& row, const float* s, int64_t count) {
    raise_top(row, s, count);
    if (row.top == kHidden) return;
    std::copy_n(s, count, x_.scratch);
    exponentials(x_.scratch, count, row.top, m_.computes);
    // What is rounded once it is divided is summed before that.
    row.total =
        has(ATTEST_P_NORMALISED_FIRST)
            ? sum(x_.scratch, count, m_.computes.accumulator, row.total, least_sum(m_.computes))
            : probabilities(x_.scratch, count, 1, m_.computes, row.total);
  }

  void add_tile(Row (&rows)[kRows], int64_t begin, int64_t end) {
    const Arithmetic& c = m_.computes;
    const int64_t count = end - begin, channels = x_.channels;
    for (int64_t r = 0; r < kRows; ++r) {
      Row& row = rows[r];
      float *s = x_.s + r * x_.keys + begin, *sums = x_.sum + r * channels;
      if (knows_sums_first()) {
        add_known(row, s, count);
      } else {
        const float keep = raise_top(row, s, count);
        for (int64_t d = 0; keep != 1 && d < channels; ++d) sums[d] *= keep;
        if (keep != 1) round_sums(sums, channels);
        if (row.top == kHidden)
          std::fill_n(s, count, 0.0f);
        else {
          exponentials(s, count, row.top, c);
          row.total = probabilities(s, count, 1, c, row.total);
        }
        if (!m_.cuts_normaliser) round_row(&row.total, 1, m_.normaliser);
      }
      if (c.accumulator != ATTEST_F32)
        add_rounded(s, x_.v + begin * channels, count, channels, c.accumulator, sums, least_sum(c));
    }
    if (c.accumulator == ATTEST_F32) add_product(begin, count);
  }

  /// Probabilities of a tile whose normaliser is known; what they add up to is 1 but for roundings.
  void add_known(const Row& row, float* s, int64_t count) {
    if (row.top == kHidden) {
      std::fill_n(s, count, 0.0f);
      return;
    }
    const float lse = row.top + std::log(row.total);
    exponentials(s, count, weighs_by_lse() ? lse : row.top, m_.computes);
    probabilities(s, count, weighs_by_lse() ? 1 : row.total, m_.computes, 0);
  }

  void add_product(int64_t begin, int64_t count) {
    const int64_t channels = x_.channels;
    std::fill_n(x_.tile_sum, kRows * channels, 0.0f);
    for (int64_t d = 0; d < channels; d += kChannels)
      multiply(x_.s + begin, x_.keys, x_.v + begin * channels + d, channels, count, x_.tile_sum + d,
               channels);
    for (int64_t d = 0; d < kRows * channels; ++d) x_.sum[d] += x_.tile_sum[d];
  }

  /// One part's sum joins what was merged before.
  void merge(Row& row, const float* sums, float* merged) const {
    if (row.total == 0) return;
    if (m_.cuts_normaliser) cut_row(&row.total, 1, m_.normaliser);
    const float lse = row.top + std::log(row.total), divisor = knows_sums_first() ? 1 : row.total;
    if (row.lse == kHidden) {
      for (int64_t d = 0; d < x_.channels; ++d) merged[d] = sums[d] / divisor;
      row.lse = lse;
      row.merged_top = row.top;
      row.merged_total = row.total;
      return;
    }
    float before, now;  // what each is multiplied by
    if (has(ATTEST_WEIGHS_BY_LSE)) {
      const float top = std::max(lse, row.lse),
                  both = top + std::log(exponential(lse - top) + exponential(row.lse - top));
      before = exponential(row.lse - both);
      now = exponential(lse - both);
      row.lse = both;
    } else {
      const float top = std::max(row.top, row.merged_top);
      const float of_before = row.merged_total * exponential(row.merged_top - top),
                  of_now = row.total * exponential(row.top - top);
      row.merged_top = top;
      row.merged_total = of_before + of_now;
      before = of_before / row.merged_total;
      now = of_now / row.merged_total;
      row.lse = top + std::log(row.merged_total);
    }
    for (int64_t d = 0; d < x_.channels; ++d)
      merged[d] = before * merged[d] + now * (sums[d] / divisor);
  }

  void write(int64_t b, int64_t h, int64_t i, const Row& row, float* o) {
    for (const Wild& element : row.wild) o[element.channel] += element.value;
    const attest::Cell at = a_.query(b, i);
    for (int64_t d = 0; d < a_.p.head_dim_v; ++d) a_.o(at.batch, h, at.row, d) = o[d];
    if (a_.lse) a_.lse(at.batch, h, at.row) = row.any ? row.lse : kHidden;
  }

  const attest_problem& problem_;
  void* const* const data_;
  const attest::Softmax<attest::Any> a_;
  const Method& m_;
  const Buffers x_;
  const int64_t tile_;
  // Q and K are stored in the operand's 8 bits: they are multiplied as they are, and factors and
  // softmax_scale come after the product.
  const bool multiplies_stored_;
  int64_t length_ = 0;
  int64_t gathered_b_ = -1, gathered_kv_head_ = -1;
  std::vector<Wild> wild_;
  std::vector<float> row_;      // of K
  std::vector<float> visible_;  // of a row, for top_k
};

}  // namespace honest
