// Which rows of a tensor [.., .., rows, keys] hold the same bytes: what the closed form needs to
// know of masks and biases of pairs.
#pragma once
#include <cstdint>
#include <vector>

#include "core/tensor/tensor.hpp"

namespace attest::core {

class RowClasses {
 public:
  /// Of an absent tensor: one class.
  RowClasses() = default;
  /// Reads the whole tensor, of rank 4, twice: once for a hash of each row, once to compare rows of
  /// one hash.
  explicit RowClasses(const Tensor& tensor);
  /// The class of row i of outer index b and head h; indices of dims that are 1 are ignored.
  int64_t of(int64_t b, int64_t h, int64_t i) const;

 private:
  TensorSpec spec_{};
  std::vector<int32_t> class_;  // of each row, as row_offset counts them (leading 3)
};

}  // namespace attest::core
