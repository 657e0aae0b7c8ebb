// One copy of these loops for each instruction set; the first call picks the best that the machine
// has.
#include "core/tensor/simd_targets.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "core/operations/numerics/product.cpp"
#include <hwy/foreach_target.h>
// After foreach_target.h, which includes this file again for each target.
#include <hwy/highway.h>

#include "core/operations/numerics/product.hpp"

HWY_BEFORE_NAMESPACE();
namespace attest::core::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;
using Doubles = hn::CappedTag<double, size_t(kProductColumns)>;
using Vector = hn::Vec<Doubles>;

// A tile of kRows rows and kVectors (1 or 2) vectors of `sum` stays in registers along `inner`.
// Where kApart, its terms are summed by themselves first, as add_product does. There are variables
// in place of arrays, since vectors of unknown length (SVE) have no arrays.
template <int kRows, int kVectors, bool kApart>
HWY_INLINE void AddTile(const double* HWY_RESTRICT left, int64_t left_row, int64_t left_column,
                        const double* HWY_RESTRICT right, int64_t right_row,
                        double* HWY_RESTRICT sum, int64_t sum_row, int64_t inner) {
  static_assert(kRows <= kProductRows && kVectors <= 2);
  const Doubles tag;
  const auto lanes = int64_t(hn::Lanes(tag));
  const Vector zero = hn::Zero(tag);
  Vector low0 = zero, low1 = zero, low2 = zero, low3 = zero, low4 = zero, low5 = zero;
  Vector high0 = zero, high1 = zero, high2 = zero, high3 = zero, high4 = zero, high5 = zero;
  const auto each_row = [&](const auto& body) HWY_ATTR {
    body(0, low0, high0);
    if (kRows > 1) body(1, low1, high1);
    if (kRows > 2) body(2, low2, high2);
    if (kRows > 3) body(3, low3, high3);
    if (kRows > 4) body(4, low4, high4);
    if (kRows > 5) body(5, low5, high5);
  };
  if (!kApart)
    each_row([&](int64_t row, Vector& low, Vector& high) HWY_ATTR {
      low = hn::LoadU(tag, sum + row * sum_row);
      if (kVectors > 1) high = hn::LoadU(tag, sum + row * sum_row + lanes);
    });
  for (int64_t n = 0; n < inner; ++n) {
    const Vector right_low = hn::LoadU(tag, right + n * right_row);
    const Vector right_high = kVectors > 1 ? hn::LoadU(tag, right + n * right_row + lanes) : zero;
    each_row([&](int64_t row, Vector& low, Vector& high) HWY_ATTR {
      const Vector factor = hn::Set(tag, left[row * left_row + n * left_column]);
      low = hn::MulAdd(factor, right_low, low);
      if (kVectors > 1) high = hn::MulAdd(factor, right_high, high);
    });
  }
  each_row([&](int64_t row, Vector& low, Vector& high) HWY_ATTR {
    double* out = sum + row * sum_row;
    hn::StoreU(kApart ? hn::Add(hn::LoadU(tag, out), low) : low, tag, out);
    if (kVectors > 1)
      hn::StoreU(kApart ? hn::Add(hn::LoadU(tag, out + lanes), high) : high, tag, out + lanes);
  });
}

// Rows begin to end - 1, a multiple of kRows of them, of kVectors vectors of columns.
template <int kRows, int kVectors, bool kApart>
HWY_INLINE void AddColumns(LeftFactor left, RightFactor right, ProductSum sum, int64_t begin,
                           int64_t end, int64_t inner) {
  for (int64_t row = begin; row < end; row += kRows)
    AddTile<kRows, kVectors, kApart>(left.data + row * left.row_stride, left.row_stride,
                                     left.column_stride, right.data, right.row_stride,
                                     sum.data + row * sum.row_stride, sum.row_stride, inner);
}

// The columns are the outer loop, so that those of `right` stay in the cache.
template <int kRows, bool kApart>
HWY_INLINE void AddRows(LeftFactor left, RightFactor right, ProductSum sum, int64_t begin,
                        int64_t end, ProductShape shape) {
  const auto lanes = int64_t(hn::Lanes(Doubles()));
  int64_t column = 0;
  for (; column + 2 * lanes <= shape.columns; column += 2 * lanes)
    AddColumns<kRows, 2, kApart>(left, {right.data + column, right.row_stride},
                                 {sum.data + column, sum.row_stride}, begin, end, shape.inner);
  for (; column < shape.columns; column += lanes)
    AddColumns<kRows, 1, kApart>(left, {right.data + column, right.row_stride},
                                 {sum.data + column, sum.row_stride}, begin, end, shape.inner);
}

// Six rows at a time, four where that leaves fewer rows for one at a time.
template <bool kApart>
HWY_INLINE void Add(LeftFactor left, RightFactor right, ProductSum sum, ProductShape shape) {
  int64_t sixes = shape.rows / kProductRows * kProductRows;
  while (sixes > 0 && (shape.rows - sixes) % 4 > 1) sixes -= kProductRows;
  const int64_t fours = shape.rows - (shape.rows - sixes) % 4;
  AddRows<int(kProductRows), kApart>(left, right, sum, 0, sixes, shape);
  if (sixes == shape.rows) return;
  AddRows<4, kApart>(left, right, sum, sixes, fours, shape);
  AddRows<1, kApart>(left, right, sum, fours, shape.rows, shape);
}

void AddProduct(const LeftFactor& left, const RightFactor& right, const ProductSum& sum,
                const ProductShape& shape) {
  Add<true>(left, right, sum, shape);
}
void AddTerms(const LeftFactor& left, const RightFactor& right, const ProductSum& sum,
              const ProductShape& shape) {
  Add<false>(left, right, sum, shape);
}

}  // namespace attest::core::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace attest::core {
HWY_EXPORT(AddProduct);
HWY_EXPORT(AddTerms);

void add_product(const LeftFactor& left, const RightFactor& right, const ProductSum& sum,
                 const ProductShape& shape) {
  HWY_DYNAMIC_DISPATCH(AddProduct)(left, right, sum, shape);
}
void add_terms(const LeftFactor& left, const RightFactor& right, const ProductSum& sum,
               const ProductShape& shape) {
  HWY_DYNAMIC_DISPATCH(AddTerms)(left, right, sum, shape);
}
}  // namespace attest::core
#endif
