// Products of float64 matrices, vectorised for the CPU that they run on. Goldens spend most of
// their time here.
//
//   std::vector<double> q(6 * 64), k(64 * 16), scores(6 * 16);   // all row after row
//   add_product({q.data(), 64}, {k.data(), 16}, {scores.data(), 16},
//               {.rows = 6, .inner = 64, .columns = 16});        // scores += q k
#pragma once
#include <cstdint>

namespace attest::core {

/// The number of columns must be a multiple of this; callers pad their matrices.
inline constexpr int64_t kProductColumns = 8;
constexpr int64_t padded_columns(int64_t columns) {
  return (columns + kProductColumns - 1) / kProductColumns * kProductColumns;
}
/// Products are fastest if the number of rows is a multiple of this.
inline constexpr int64_t kProductRows = 6;

/// A [rows, inner] matrix. Element (r, n) is data[r * row_stride + n * column_stride].
struct LeftFactor {
  const double* data;
  int64_t row_stride;
  int64_t column_stride = 1;
};

/// An [inner, columns] matrix. Element (n, c) is data[n * row_stride + c].
struct RightFactor {
  const double* data;
  int64_t row_stride;
};

/// A [rows, columns] matrix. Element (r, c) is data[r * row_stride + c].
struct ProductSum {
  double* data;
  int64_t row_stride;
};

struct ProductShape {
  int64_t rows, inner, columns;
};

/// sum += left right. The terms of an element are summed from 0, in the order of `inner`; then the
/// result is added to the element.
void add_product(const LeftFactor& left, const RightFactor& right, const ProductSum& sum,
                 const ProductShape& shape);

/// sum += left right. The terms are added to the element one by one, in the order of `inner`.
void add_terms(const LeftFactor& left, const RightFactor& right, const ProductSum& sum,
               const ProductShape& shape);

}  // namespace attest::core
