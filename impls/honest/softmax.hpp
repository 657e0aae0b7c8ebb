// Softmax attention by a method: every feature of the operation, any storage, two queries at a time.
#pragma once
#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "attest.hpp"
#include "honest/method.hpp"

namespace honest {

constexpr uint64_t kSoftmaxFeatures =
    ATTEST_WITH_GQA | ATTEST_WITH_HEAD_DIM_V | ATTEST_WITH_CAUSAL | ATTEST_WITH_WINDOW | ATTEST_WITH_DIAGONAL |
    ATTEST_WITH_SOFTCAP | ATTEST_WITH_BIAS | ATTEST_WITH_MASK | ATTEST_WITH_LSE | ATTEST_WITH_VARLEN | ATTEST_WITH_SEQ_LENS |
    ATTEST_WITH_PAGES | ATTEST_WITH_ORDER | ATTEST_WITH_PATCHES | ATTEST_WITH_GRID | ATTEST_WITH_REL_BIAS | ATTEST_WITH_STRIDES |
    ATTEST_WITH_MIXED_DTYPE | ATTEST_WITH_UNALIGNED | ATTEST_WITH_ALIBI | ATTEST_WITH_SINKS;
constexpr uint64_t kDtypes = ATTEST_BIT(ATTEST_F32) | ATTEST_BIT(ATTEST_F16) | ATTEST_BIT(ATTEST_BF16) | ATTEST_BIT(ATTEST_F64);

class SoftmaxKernel {
 public:
  SoftmaxKernel(const attest_problem& problem, void* const* data, void* workspace, const Method& method)
      : a_(problem, data), m_(method), x_(a_.p, workspace), tile_(tile(a_.p, method)) {}

  static void query(const attest_problem& problem, const Method& method, attest_support& support) {
    const auto& p = attest::params<attest_softmax_params>(problem);
    declare(method.declares, support);
    // A tile is summed apart, then added to the tiles before it; parts are merged one after the other.
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
      q = arena.take(round_up(p.seq_len_q, kRows) * p.head_dim), k = arena.take(keys * p.head_dim),
      v = arena.take(keys * channels);
      s = arena.take(kRows * keys), addend = arena.take(keys);
      tile_sum = arena.take(kRows * channels), sum = arena.take(kRows * channels), merged = arena.take(kRows * channels);
      bytes = arena.bytes();
    }
    int64_t keys, channels;
    float *q, *k, *v;                // [rows, head_dim], [blocks, head_dim, kBlock], [keys, channels]
    float *s, *addend;               // [kRows, keys], [keys]
    float *tile_sum, *sum, *merged;  // [kRows, channels]
    size_t bytes;
  };
  /// An element of V that is Inf or NaN: 0 in the product, added where its key is seen.
  struct Wild {
    int64_t key, channel;
    float value;
  };
  struct Row {
    int64_t begin = 0, end = 0;  // keys that it sees, as they are visited
    float top = kHidden, total = 0;
    float lse = kHidden;  // of the parts merged so far
    bool any = false;     // sees a key
    std::vector<Wild> wild;
  };

  static int64_t tile(const attest_softmax_params& p, const Method& method) {
    if (method.tile == 0) return std::max<int64_t>(p.seq_len_kv, 1);
    if (method.tile != kAnyTile) return method.tile;
    constexpr int64_t kTiles[] = {16, 32, 48, 64, 128, 256};
    return kTiles[static_cast<size_t>(p.seq_len_kv + p.head_dim + p.seq_len_q) % 6];
  }
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
        rows[r].begin = m_.reversed ? length_ - keys.end : keys.begin, rows[r].end = rows[r].begin + keys.end - keys.begin;
        first = std::min(first, rows[r].begin), last = std::max(last, rows[r].end);
      }
      std::fill_n(x_.merged, kRows * x_.channels, 0.0f);
      if (first < last) attend_rows(b, h, i, rows, first, last);
      for (int64_t r = 0; r < kRows && i + r < a_.rows(b); ++r) write(b, h, i + r, rows[r], x_.merged + r * x_.channels);
    }
  }

  void gather_queries(int64_t b, int64_t h) {
    const int64_t rows = a_.rows(b), dim = a_.p.head_dim;
    for (int64_t i = 0; i < round_up(rows, kRows); ++i) {
      const attest::Cell at = a_.query(b, std::min(i, rows - 1));
      for (int64_t d = 0; d < dim; ++d)
        x_.q[i * dim + d] = a_.q(at.batch, h, at.row, d) * (m_.folds_scale ? a_.p.softmax_scale : 1);
    }
    round_row(x_.q, round_up(rows, kRows) * dim, m_.computes.qk);
  }

  void gather_keys(int64_t b, int64_t kv_head) {
    const int64_t dim = a_.p.head_dim;
    wild_.clear();
    for (int64_t n = 0; n < round_up(length_, kBlock); ++n) {
      const bool there = n < length_;
      const attest::Cell at = there ? a_.key(b, place(n)) : attest::Cell{0, 0};
      float* key = x_.k + n / kBlock * kBlock * dim + n % kBlock;
      for (int64_t d = 0; d < dim; ++d) key[d * kBlock] = there ? static_cast<float>(a_.k(at.batch, kv_head, at.row, d)) : 0;
      for (int64_t d = 0; d < x_.channels; ++d) {
        float value = there && d < a_.p.head_dim_v ? static_cast<float>(a_.v(at.batch, kv_head, at.row, d)) : 0;
        if (!std::isfinite(value)) wild_.push_back({n, d, value}), value = 0;
        x_.v[n * x_.channels + d] = value;
      }
    }
    round_row(x_.k, round_up(length_, kBlock) * dim, m_.computes.qk);
    round_row(x_.v, round_up(length_, kBlock) * x_.channels, m_.computes.pv);
  }

  void attend_rows(int64_t b, int64_t h, int64_t i, Row (&rows)[kRows], int64_t first, int64_t last) {
    first = first / kBlock * kBlock;
    const int64_t dim = a_.p.head_dim;
    for (int64_t r = 0; r < kRows; ++r) std::fill(x_.s + r * x_.keys + first, x_.s + r * x_.keys + round_up(last, kBlock), 0.0f);
    for (int64_t n = first; n < last; n += kChannels)
      multiply(x_.q + i * dim, dim, x_.k + n / kBlock * kBlock * dim + n % kBlock, kBlock, dim, x_.s + n, x_.keys);
    for (int64_t r = 0; r < kRows; ++r) logits(b, h, i + r, rows[r], first, last, x_.s + r * x_.keys);
    const int64_t tiles = (length_ + tile_ - 1) / tile_, parts = std::min(m_.splits, tiles);
    for (int64_t part = 0; part < parts; ++part) {
      const int64_t begin = tiles * part / parts * tile_, end = std::min(tiles * (part + 1) / parts * tile_, last);
      std::fill_n(x_.sum, kRows * x_.channels, 0.0f);
      // A sink is the first part's first key, without a value.
      const float sink = part == 0 ? a_.sink(h) : kHidden;
      for (Row& row : rows) row.top = sink, row.total = sink == kHidden ? 0 : 1;
      for (int64_t n = std::max(begin, first / tile_ * tile_); n < end; n += tile_)
        add_tile(rows, std::max(n, first), std::min(n + tile_, end));
      for (int64_t r = 0; r < kRows; ++r) merge(rows[r], x_.sum + r * x_.channels, x_.merged + r * x_.channels);
    }
  }

  void logits(int64_t b, int64_t h, int64_t i, Row& row, int64_t first, int64_t last, float* s) {
    std::fill(s + first, s + std::clamp(row.begin, first, last), kHidden);
    std::fill(s + std::clamp(row.end, first, last), s + last, kHidden);
    const int64_t count = row.end - row.begin;
    if (count == 0) return;
    float* seen = s + row.begin;
    const float cap = a_.p.softcap;
    to_logits(seen, count, m_.folds_scale ? 1 : a_.p.softmax_scale, nullptr, m_.computes.score);
    if (cap > 0) {
      for (int64_t n = 0; n < count; ++n) seen[n] = cap * std::tanh(seen[n] / cap);
      round_row(seen, count, m_.computes.score);
    }
    if (a_.mask || a_.bias || a_.rel_bias || a_.alibi_slopes || a_.p.shift_bias != 0) {
      for (int64_t n = 0; n < count; ++n) x_.addend[n] = a_.pair_term(b, h, i, place(row.begin + n));
      to_logits(seen, count, 1, x_.addend, m_.computes.score);
    }
    for (const Wild& element : wild_)
      if (element.key >= row.begin && element.key < row.end && s[element.key] != kHidden) row.wild.push_back(element);
  }

  void add_tile(Row (&rows)[kRows], int64_t begin, int64_t end) {
    const Arithmetic& c = m_.computes;
    const int64_t count = end - begin, channels = x_.channels;
    for (int64_t r = 0; r < kRows; ++r) {
      Row& row = rows[r];
      float* s = x_.s + r * x_.keys + begin;
      const float most = largest(s, count), old = row.top, top = most != most ? most : std::max(old, most);
      row.any |= most != kHidden;
      float* sums = x_.sum + r * channels;
      if (top == kHidden) {
        std::fill_n(s, count, 0.0f);
        continue;
      }
      if (top > old && old != kHidden) {
        const float keep = std::exp(old - top);
        row.total *= keep;
        for (int64_t d = 0; d < channels; ++d) sums[d] *= keep;
        round_row(sums, channels, c.accumulator), round_row(&row.total, 1, c.accumulator);
      }
      row.top = top;
      exponentials(s, count, top, c.exp_error);
      const bool first = (c.flags & ATTEST_P_NORMALISED_FIRST) != 0;
      const float divisor = first ? sum(s, count, c.accumulator, row.total) : 1;
      const float total = probabilities(s, count, divisor, c, row.total);
      // Rounded probabilities that were normalised first need no second division; their sum is 1 but for roundings.
      row.total = first ? divisor : total;
      if (c.accumulator != ATTEST_F32) add_rounded(s, x_.v + begin * channels, count, channels, c.accumulator, sums);
    }
    if (c.accumulator == ATTEST_F32) add_product(begin, count);
  }

  void add_product(int64_t begin, int64_t count) {
    const int64_t channels = x_.channels;
    std::fill_n(x_.tile_sum, kRows * channels, 0.0f);
    for (int64_t d = 0; d < channels; d += kChannels)
      multiply(x_.s + begin, x_.keys, x_.v + begin * channels + d, channels, count, x_.tile_sum + d, channels);
    for (int64_t d = 0; d < kRows * channels; ++d) x_.sum[d] += x_.tile_sum[d];
  }

  /// One part's sum joins what was merged before, each weighted by exp(its lse - the common one).
  void merge(Row& row, const float* sums, float* merged) const {
    if (row.total == 0) return;
    const float lse = row.top + std::log(row.total), top = std::max(lse, row.lse);
    const float both = row.lse == kHidden ? lse : top + std::log(std::exp(lse - top) + std::exp(row.lse - top));
    const float before = row.lse == kHidden ? 0 : std::exp(row.lse - both), now = row.lse == kHidden ? 1 : std::exp(lse - both);
    const float divisor = (m_.computes.flags & ATTEST_P_NORMALISED_FIRST) != 0 ? 1 : row.total;
    for (int64_t d = 0; d < x_.channels; ++d) merged[d] = before * merged[d] + now * (sums[d] / divisor);
    row.lse = both;
  }

  void write(int64_t b, int64_t h, int64_t i, const Row& row, float* o) {
    for (const Wild& element : row.wild) o[element.channel] += element.value;
    const attest::Cell at = a_.query(b, i);
    for (int64_t d = 0; d < a_.p.head_dim_v; ++d) a_.o(at.batch, h, at.row, d) = o[d];
    if (a_.lse) a_.lse(at.batch, h, at.row) = row.any ? row.lse : kHidden;
  }

  const attest::Softmax<attest::Any> a_;
  const Method& m_;
  const Buffers x_;
  const int64_t tile_;
  int64_t length_ = 0;
  std::vector<Wild> wild_;
};

}  // namespace honest
