// The base of a row's exponents where it follows the maximum of its scores only when that is
// 2^kHeadroom above it, so that sums are seldom rescaled (attend_bf16.cpp, attend_terms.cpp).
// Compiled once a Highway target: include it after foreach_target.h.
#if defined(ATTEST_IMPLS_BASE_INL_HPP) == defined(HWY_TARGET_TOGGLE)
#ifdef ATTEST_IMPLS_BASE_INL_HPP
#undef ATTEST_IMPLS_BASE_INL_HPP
#else
#define ATTEST_IMPLS_BASE_INL_HPP
#endif

#include <hwy/highway.h>

#include "simd/softmax/attend-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace impls {
namespace HWY_NAMESPACE {

constexpr float kHeadroom = 8;

/// The scale of the scores of a slice, and when they get it.
struct ScoreScale {
  explicit ScoreScale(const Slice& s)
      : always(always_edited(s)),
        unit(static_cast<float>(std::fabs(s.softmax_scale) *
                                (s.softcap > 0 ? 1.0 / s.softcap : kLog2E))) {}
  const bool always;  // whether the scores of every tile are edited
  // What a score is multiplied by. Q has its sign: the largest product is the largest score.
  const float unit;

  /// What scores are multiplied by while they are edited, and after. Edited ones are scaled if
  /// those of every tile are: then a row's bits do not depend on which blocks an edge crosses.
  float while_edited() const { return always ? unit : 1.0f; }
  float after() const { return always ? 1.0f : unit; }
};

/// Edits scores; their scaled maximum.
template <class D, int vectors, bool edited>
void find_top(const Slice& s, const Block& b, const Scores& t, const ScoreScale& scale,
              hn::Vec<D> (&top)[vectors]) {
  using V = hn::Vec<D>;
  const D d;
  constexpr int64_t wide = vectors * kLanes;
  const int64_t count = t.keys.end - t.keys.begin;
  V other[vectors];  // of every second key
  for (int v = 0; v < vectors; ++v) top[v] = other[v] = hn::Set(d, -kInfinity);
  if constexpr (edited) {
    edit_scores<vectors, false>(s, b, t, scale.while_edited(), top);
  } else {
    int64_t j = 0;
    for (; j + 2 <= count; j += 2)
      for (int v = 0; v < vectors; ++v) {
        const float* const at = t.scores + j * wide + v * kLanes;
        top[v] = hn::Max(top[v], hn::Load(d, at));
        other[v] = hn::Max(other[v], hn::Load(d, at + wide));
      }
    for (int v = 0; v < vectors && j < count; ++v)
      top[v] = hn::Max(top[v], hn::Load(d, t.scores + j * wide + v * kLanes));
  }
  for (int v = 0; v < vectors; ++v)
    top[v] = hn::Mul(hn::Max(top[v], other[v]), hn::Set(d, scale.after()));
}

/// The base of a vector of rows. Any finite base gives a row without keys weights of 0 instead of
/// NaN.
template <class D>
hn::Vec<D> finite_base(D d, const Block& b, int v) {
  const auto stored = hn::Load(d, b.top + v * kLanes);
  return hn::IfThenZeroElse(hn::Eq(stored, hn::Set(d, -kInfinity)), stored);
}

template <class V>
hn::Mask<hn::DFromV<V>> above_base(const Block& b, int v, V top) {
  const hn::DFromV<V> d;
  return hn::Gt(top, hn::Add(hn::Load(d, b.top + v * kLanes), hn::Set(d, kHeadroom)));
}

/// Whether some weights would exceed 2^kHeadroom, or are the first of their row.
template <class V, int vectors>
bool exceeds_base(const Block& b, const V (&top)[vectors]) {
  const hn::DFromV<V> d;
  bool any = false;
  for (int v = 0; v < vectors; ++v) any |= !hn::AllFalse(d, above_base(b, v, top[v]));
  return any;
}

/// x[0 .. rows)[lanes of vector v] *= factor
template <class V>
void scale_rows(V factor, int64_t rows, int64_t wide, int v, float* x) {
  const hn::DFromV<V> d;
  for (int64_t r = 0; r < rows; ++r) {
    float* const at = x + r * wide + v * kLanes;
    hn::Store(hn::Mul(hn::Load(d, at), factor), d, at);
  }
}

/// Raises the base of such rows to `top`, and rescales their sums. Calls rescale(v, factor) for
/// sums that are not in the block.
template <class V, int vectors, class Rescale>
void raise_base(const Block& b, int64_t head_dim_v, const V (&top)[vectors],
                const Rescale& rescale) {
  const hn::DFromV<V> d;
  constexpr int64_t wide = vectors * kLanes;
  for (int v = 0; v < vectors; ++v) {
    const V base = hn::Load(d, b.top + v * kLanes), none = hn::Set(d, -kInfinity);
    const V raised = hn::IfThenElse(above_base(b, v, top[v]), top[v], base);
    const V keep = exp2_lanes(hn::Sub(base, hn::IfThenZeroElse(hn::Eq(raised, none), raised)));
    hn::Store(raised, d, b.top + v * kLanes);
    scale_rows(keep, 1, wide, v, b.sum);
    scale_rows(keep, head_dim_v, wide, v, b.o);
    rescale(v, keep);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace impls
HWY_AFTER_NAMESPACE();
#endif
