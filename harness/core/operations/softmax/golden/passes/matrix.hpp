// A matrix of float64 numbers, for a block of keys or the rows of a task.
#pragma once
#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "core/operations/numerics/product.hpp"

namespace attest::core::passes {

/// Rows of `stride` numbers each, one after the other; initially 0.
class Matrix {
 public:
  Matrix(int64_t rows, int64_t stride) : stride_(stride), numbers_(size_t(rows * stride)) {}

  int64_t stride() const { return stride_; }
  double* row(int64_t r) { return numbers_.data() + r * stride_; }
  const double* row(int64_t r) const { return numbers_.data() + r * stride_; }
  std::span<double> numbers() { return numbers_; }
  std::span<const double> numbers() const { return numbers_; }
  /// Sets the first `rows` rows to 0.
  void clear(int64_t rows) { std::fill_n(numbers_.data(), rows * stride_, 0.0); }
  void clear() { std::fill(numbers_.begin(), numbers_.end(), 0.0); }

  /// The matrix from an element on, as a factor or sum of add_product.
  LeftFactor left(int64_t r, int64_t column = 0) const { return {row(r) + column, stride_}; }
  RightFactor right(int64_t r) const { return {row(r), stride_}; }
  ProductSum sum(int64_t r) { return {row(r), stride_}; }

 private:
  int64_t stride_;
  std::vector<double> numbers_;
};

}  // namespace attest::core::passes
