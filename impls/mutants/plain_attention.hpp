// plain_attention.hpp: attention in float32, one query at a time, right and slow: what trespassers
// and cheats do besides.
#pragma once
#include <algorithm>
#include <cmath>
#include <vector>

#include "attest.hpp"
#include "mutants/operations/load.hpp"

namespace mutants {

constexpr int64_t kPart = 64;  // elements of a row that are widened to float32 at once

/// The product of two rows of `count` elements.
template <class A, class B>
float dot(const A* a, int64_t a_stride, const B* b, int64_t b_stride, int64_t count) {
  float x[kPart], y[kPart], sum = 0;
  for (int64_t begin = 0; begin < count; begin += kPart) {
    const int64_t part = std::min(kPart, count - begin);
    sum += product(widened(a + begin * a_stride, a_stride, part, x),
                   widened(b + begin * b_stride, b_stride, part, y), part);
  }
  return sum;
}

/// to[d] = keep * to[d] + weight * row[d] for `count` elements of a row.
template <class T>
void add_weighted(float keep, float weight, const T* row, int64_t stride, int64_t count,
                  float* to) {
  float x[kPart];
  for (int64_t begin = 0; begin < count; begin += kPart) {
    const int64_t part = std::min(kPart, count - begin);
    blend(keep, weight, widened(row + begin * stride, stride, part, x), part, to + begin);
  }
}

template <class T>
float logit(const attest::Softmax<T>& a, int64_t b, int64_t h, int64_t i, int64_t j) {
  const attest::Cell at = a.query(b, i), key = a.key(b, j);
  const float score = dot(&a.q(at.batch, h, at.row, 0), a.q.stride(3),
                          &a.k(key.batch, a.kv_head(h), key.row, 0), a.k.stride(3), a.p.head_dim);
  return a.logit(score, b, h, i, j);
}

/// Writes one row of O, and of LSE where there is one. Attention: attest::Softmax, or a class
/// derived from it with a logit() of its own. `backwards`: from the last key to the first. `top`:
/// what the maximum begins with.
template <class Attention>
void attend_row(const Attention& a, int64_t b, int64_t h, int64_t i, std::vector<float>& sum,
                bool backwards = false, float top = -INFINITY) {
  const attest::Cell at = a.query(b, i);
  sum.assign(static_cast<size_t>(a.p.head_dim_v), 0.0f);
  std::vector<float> query(static_cast<size_t>(a.p.head_dim));
  load_row(&a.q(at.batch, h, at.row, 0), a.q.stride(3), a.p.head_dim, query.data());
  float total = 0;
  const attest::Keys keys = a.keys(b, i);
  const int64_t kv_head = a.kv_head(h);
  for (int64_t n = 0; n < keys.end - keys.begin; ++n) {
    const int64_t j = backwards ? keys.end - 1 - n : keys.begin + n;
    const attest::Cell key = a.key(b, j);
    const float score =
        dot(query.data(), 1, &a.k(key.batch, kv_head, key.row, 0), a.k.stride(3), a.p.head_dim);
    const float s = a.logit(score, b, h, i, j);
    if (s == -INFINITY) continue;
    const float peak = std::max(top, s), weight = std::exp(s - peak);
    const float keep = s > top ? std::exp(top - peak) : 1;
    add_weighted(keep, weight, &a.v(key.batch, kv_head, key.row, 0), a.v.stride(3), a.p.head_dim_v,
                 sum.data());
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

template <class Attention>
void attend(const Attention& a, bool backwards = false) {
  std::vector<float> sum;
  for (int64_t b = 0; b < a.p.batch; ++b)
    for (int64_t h = 0; h < a.p.num_heads; ++h)
      for (int64_t i = 0; i < a.rows(b); ++i) attend_row(a, b, h, i, sum, backwards);
}

}  // namespace mutants
