// plain_attention.hpp: attention in float32, one query at a time, right and slow: what trespassers
// and cheats do besides.
#pragma once
#include <algorithm>
#include <cmath>
#include <vector>

#include "attest.hpp"

namespace mutants {

template <class T>
float logit(const attest::Softmax<T>& a, int64_t b, int64_t h, int64_t i, int64_t j) {
  const attest::Cell at = a.query(b, i), key = a.key(b, j);
  float dot = 0;
  for (int64_t d = 0; d < a.p.head_dim; ++d)
    dot += a.q(at.batch, h, at.row, d) * a.k(key.batch, a.kv_head(h), key.row, d);
  return a.logit(dot, b, h, i, j);
}

/// One row of O, and of LSE where there is one. `backwards`: from the last key to the first. `top`:
/// what the maximum begins with.
template <class T>
void attend_row(const attest::Softmax<T>& a, int64_t b, int64_t h, int64_t i,
                std::vector<float>& sum, bool backwards = false, float top = -INFINITY) {
  const attest::Cell at = a.query(b, i);
  sum.assign(static_cast<size_t>(a.p.head_dim_v), 0.0f);
  float total = 0;
  const attest::Keys keys = a.keys(b, i);
  for (int64_t n = 0; n < keys.end - keys.begin; ++n) {
    const int64_t j = backwards ? keys.end - 1 - n : keys.begin + n;
    const attest::Cell key = a.key(b, j);
    const float s = logit(a, b, h, i, j);
    if (s == -INFINITY) continue;
    const float peak = std::max(top, s), keep = std::exp(top - peak), weight = std::exp(s - peak);
    for (int64_t d = 0; d < a.p.head_dim_v; ++d)
      sum[static_cast<size_t>(d)] =
          keep * sum[static_cast<size_t>(d)] + weight * a.v(key.batch, a.kv_head(h), key.row, d);
    total = keep * total + weight;
    top = peak;
  }
  if (a.sinks && total > 0) {
    const float peak = std::max(top, a.sink(h)), keep = std::exp(top - peak);
    for (float& channel : sum) channel *= keep;
    total = keep * total + std::exp(a.sink(h) - peak);
    top = peak;
  }
  for (int64_t d = 0; d < a.p.head_dim_v; ++d)
    a.o(at.batch, h, at.row, d) = total == 0 ? 0 : sum[static_cast<size_t>(d)] / total;
  if (a.lse) a.lse(at.batch, h, at.row) = top + std::log(total);
}

template <class T>
void attend(const attest::Softmax<T>& a, bool backwards = false) {
  std::vector<float> sum;
  for (int64_t b = 0; b < a.p.batch; ++b)
    for (int64_t h = 0; h < a.p.num_heads; ++h)
      for (int64_t i = 0; i < a.rows(b); ++i) attend_row(a, b, h, i, sum, backwards);
}

}  // namespace mutants
