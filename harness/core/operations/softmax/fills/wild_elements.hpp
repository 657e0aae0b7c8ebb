// What the parts of the fill "wild" share: single elements of Q, K and V, and which keys may be
// infinite.
#pragma once
#include <cstdint>
#include <limits>
#include <set>

#include "core/operations/softmax/problem/geometry.hpp"
#include "core/tensor/constants.hpp"

namespace attest::core {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
/// The least size of a query that meets an infinite key: an operand of 8 bits may make 0 of a
/// number as small as 2^-11, and 0 times infinity is NaN.
constexpr double kLeast = 0x1p-4;
/// If every key of a row scores -inf, its softmax means nothing. Rows with more keys than this are
/// taken to see a finite score; those with fewer are searched for one.
constexpr int64_t kMostSearched = 12;

/// Element `channel` of one row of Q, K or V. What lies beyond the last channel is not written.
class WildElement {
 public:
  WildElement(const Tensor& tensor, Cell cell, int64_t head, int64_t channel)
      : tensor_(tensor), channel_(channel) {
    const auto& stride = tensor.spec.stride;
    at_ = cell.outer * stride[0] + head * stride[1] + cell.row * stride[2] + channel * stride[3];
  }
  double read() const { return load(tensor_.data, tensor_.spec.dtype, at_); }
  void write(double value) const {
    if (channel_ < tensor_.spec.dim[3]) store(tensor_.data, tensor_.spec.dtype, at_, value);
  }

 private:
  const Tensor& tensor_;
  int64_t channel_, at_;
};

/// Whether each row of those query heads that sees the key sees another one besides `infinite`.
/// Rows with more than kMostSearched keys are taken for such.
bool others_stay_finite(const Geometry& geometry, int64_t b, Interval heads, int64_t key,
                        const std::set<int64_t>& infinite);

/// The infinity that channel 0 of a query may be: the score of the first key that the row sees is
/// then +inf, and its softmax NaN. Rows with more keys than kMostSearched are taken to see some
/// such key. The channel of that key may not be 0.
double infinity_with_largest_score(const Problem& problem, const Tensors& tensors,
                                   const Geometry& geometry, int64_t b, int64_t head, int64_t row);

}  // namespace attest::core
