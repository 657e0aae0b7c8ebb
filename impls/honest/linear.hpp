// Linear attention by a method: the state, sum of phi(k)^T v, tile by tile or part by part,
// forwards or backwards.
#pragma once
#include <algorithm>
#include <cmath>

#include "attest.hpp"
#include "honest/method.hpp"

namespace honest {

constexpr uint64_t kLinearFeatures = ATTEST_WITH_GQA | ATTEST_WITH_HEAD_DIM_V | ATTEST_WITH_MASK |
                                     ATTEST_WITH_QUERY_MASK | ATTEST_WITH_STRIDES |
                                     ATTEST_WITH_MIXED_DTYPE | ATTEST_WITH_UNALIGNED;

class LinearKernel {
 public:
  LinearKernel(const attest_problem& problem, void* const* data, void* workspace,
               const Method& method)
      : a_(problem, data), m_(method), x_(a_.p, workspace) {}

  static void query(const attest_problem& problem, const Method& method, attest_support& support) {
    const auto& p = attest::params<attest_linear_params>(problem);
    declare_linear(method.declares, support);
    const int64_t keys = p.seq_len_kv, width = tile(method, keys);
    support.sum_chain = width < keys ? width + (keys + width - 1) / width : 0;
    support.workspace_bytes = Buffers(p, nullptr).bytes;
  }

  void run() {
    for (int64_t b = 0; b < a_.p.batch; ++b)
      for (int64_t kv_head = 0; kv_head < a_.p.num_kv_heads; ++kv_head) {
        gather(b, kv_head);
        if (!m_.weighs_pairs) sum_state();
        for (int64_t h = 0; h < a_.p.num_heads; ++h)
          if (a_.kv_head(h) == kv_head) attend(b, h);
      }
  }

 private:
  struct Buffers {
    Buffers(const attest_linear_params& p, void* memory)
        : dim(round_up(p.head_dim, kRows)),
          channels(round_up(p.head_dim_v, kChannels)),
          keys(p.seq_len_kv) {
      Arena arena(memory);
      phi = arena.take(dim * keys);
      v = arena.take(keys * channels);
      z = arena.take(dim);
      state = arena.take(dim * channels);
      part = arena.take(kRows * channels);
      q = arena.take(kRows * dim);
      o = arena.take(kRows * channels);
      bytes = arena.bytes();
    }
    int64_t dim, channels, keys;
    float *phi, *v;           // [dim, keys], [keys, channels]
    float *state, *z, *part;  // [dim, channels], [dim], [kRows, channels]
    float *q, *o;             // [kRows, dim], [kRows, channels]
    size_t bytes;
  };

  static int64_t tile(const Method& method, int64_t keys) {
    if (method.splits > 1) return std::max<int64_t>(1, (keys + method.splits - 1) / method.splits);
    if (method.tile == 0) return std::max<int64_t>(keys, 1);
    return method.tile < 0 ? 64 : method.tile;
  }

  void gather(int64_t b, int64_t kv_head) {
    std::fill_n(x_.phi, x_.dim * x_.keys, 0.0f);
    std::fill_n(x_.v, x_.keys * x_.channels, 0.0f);
    for (int64_t n = 0; n < x_.keys; ++n) {
      const int64_t j = m_.reversed ? x_.keys - 1 - n : n;
      if (!a_.key_counts(b, j)) continue;
      for (int64_t d = 0; d < a_.p.head_dim; ++d)
        x_.phi[d * x_.keys + n] = phi(a_.k(b, kv_head, j, d));
      for (int64_t d = 0; d < a_.p.head_dim_v; ++d)
        x_.v[n * x_.channels + d] = a_.v(b, kv_head, j, d);
    }
    if (m_.rounds_k) round_row(x_.phi, x_.dim * x_.keys, m_.computes.qk);
    round_row(x_.v, x_.keys * x_.channels, m_.computes.pv);
  }

  float phi(float channel) const {
    if (channel > 0) return channel + 1;
    exponentials(&channel, 1, 0, m_.computes);
    return channel;
  }

  /// What the second product reads.
  void keep_state(float* state, int64_t count) const {
    round_row(state, count, m_.computes.pv);
    if ((m_.computes.ways & ATTEST_FLUSHES_SUBNORMALS) == 0) return;
    const float least = smallest_normal(m_.computes.pv);
    for (int64_t n = 0; n < count; ++n) state[n] = std::fabs(state[n]) < least ? 0 : state[n];
  }

  void sum_state() {
    const int64_t width = tile(m_, x_.keys);
    std::fill_n(x_.state, x_.dim * x_.channels, 0.0f);
    std::fill_n(x_.z, x_.dim, 0.0f);
    for (int64_t begin = 0; begin < x_.keys; begin += width) {
      const int64_t count = std::min(width, x_.keys - begin);
      for (int64_t d = 0; d < x_.dim; d += kRows) {
        std::fill_n(x_.part, kRows * x_.channels, 0.0f);
        sum_tile(d, begin, count);
        float* state = x_.state + d * x_.channels;
        for (int64_t n = 0; n < kRows * x_.channels; ++n) state[n] += x_.part[n];
        round_row(state, kRows * x_.channels, m_.computes.accumulator);
        for (int64_t r = 0; r < kRows; ++r) {
          x_.z[d + r] += sum(x_.phi + (d + r) * x_.keys + begin, count, m_.computes.accumulator, 0);
          round_row(x_.z + d + r, 1, m_.computes.accumulator);
        }
      }
    }
    keep_state(x_.state, x_.dim * x_.channels);
    keep_state(x_.z, x_.dim);
  }

  // kRows channels of phi times the values of a tile of keys.
  void sum_tile(int64_t d, int64_t begin, int64_t count) {
    const float *phi = x_.phi + d * x_.keys + begin, *v = x_.v + begin * x_.channels;
    if (m_.computes.accumulator != ATTEST_F32) {
      for (int64_t r = 0; r < kRows; ++r)
        add_rounded(phi + r * x_.keys, v, count, x_.channels, m_.computes.accumulator,
                    x_.part + r * x_.channels);
      return;
    }
    for (int64_t e = 0; e < x_.channels; e += kChannels)
      multiply(phi, x_.keys, v + e, x_.channels, count, x_.part + e, x_.channels);
  }

  void attend(int64_t b, int64_t h) {
    for (int64_t i = 0; i < a_.p.seq_len_q; i += kRows) {
      std::fill_n(x_.q, kRows * x_.dim, 0.0f);
      const int64_t rows = std::min(kRows, a_.p.seq_len_q - i);
      for (int64_t r = 0; r < rows; ++r)
        for (int64_t d = 0; a_.query_counts(b, i + r) && d < a_.p.head_dim; ++d)
          x_.q[r * x_.dim + d] = phi(a_.q(b, h, i + r, d));
      if (m_.rounds_q) round_row(x_.q, kRows * x_.dim, m_.computes.qk);
      std::fill_n(x_.o, kRows * x_.channels, 0.0f);
      for (int64_t e = 0; !m_.weighs_pairs && e < x_.channels; e += kChannels)
        multiply(x_.q, x_.dim, x_.state + e, x_.channels, x_.dim, x_.o + e, x_.channels);
      for (int64_t r = 0; r < rows; ++r) {
        float normaliser = 0;
        if (m_.weighs_pairs) normaliser = weigh_pairs(x_.q + r * x_.dim, x_.o + r * x_.channels);
        for (int64_t d = 0; !m_.weighs_pairs && d < x_.dim; ++d)
          normaliser += x_.q[r * x_.dim + d] * x_.z[d];
        for (int64_t d = 0; d < a_.p.head_dim_v; ++d)
          a_.o(b, h, i + r, d) = x_.o[r * x_.channels + d] / (normaliser + a_.p.eps);
      }
    }
  }

  /// One row without a state, in float32: adds up the values by their weights. Returns the sum of
  /// the weights.
  float weigh_pairs(const float* q, float* o) const {
    float total = 0;
    for (int64_t n = 0; n < x_.keys; ++n) {
      float weight = 0;
      for (int64_t d = 0; d < x_.dim; ++d) weight += q[d] * x_.phi[d * x_.keys + n];
      for (int64_t e = 0; e < x_.channels; ++e) o[e] += weight * x_.v[n * x_.channels + e];
      total += weight;
    }
    return total;
  }

  const attest::Linear<attest::Any> a_;
  const Method& m_;
  const Buffers x_;
};

}  // namespace honest
