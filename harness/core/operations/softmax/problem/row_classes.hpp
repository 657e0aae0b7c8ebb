// Finds which rows of a tensor [.., .., rows, keys] have the same bytes. The closed form needs this
// for masks and biases of pairs.
#pragma once
#include <cstdint>
#include <vector>

#include "core/tensor/tensor.hpp"

namespace attest::core {

class RowClasses {
 public:
  /// For an absent tensor: all rows are in one class.
  RowClasses() = default;
  /// Reads the whole tensor, of rank 4, twice: once to hash each row, once to compare rows with
  /// equal hashes.
  explicit RowClasses(const Tensor& tensor);
  /// The class of row i of outer index b and head h. Indices of dims of 1 are ignored.
  int64_t of(int64_t b, int64_t h, int64_t i) const;

 private:
  TensorSpec spec_{};
  std::vector<int32_t> class_;  // of each row, numbered as in row_offset (leading 3)
};

}  // namespace attest::core
