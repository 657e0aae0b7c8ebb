// What the fuzzers of this folder demand of tensors that were read.
#pragma once
#include "core/inputs/testing/fuzz.hpp"
#include "core/vectors/formats/file_tensor.hpp"

namespace attest::core {

/// Every tensor is as long as its dims say, and all of them are no longer than `most` times the
/// file.
inline void use_tensors(const std::vector<FileTensor>& tensors, size_t file_bytes,
                        size_t most = 2000) {
  size_t bytes = 0;
  double sum = 0;
  for (const FileTensor& tensor : tensors) {
    bytes += tensor.bytes.size();
    demand(tensor.count() >= 0, "dims overflow");
    if (tensor.dtype == ATTEST_NONE) continue;
    demand(tensor.bytes.size() == size_t(tensor.count()) * dtype_bytes(tensor.dtype),
           "dims and bytes differ");
    if (tensor.count() > 0) sum += tensor.at(0) + tensor.at(tensor.count() - 1);
  }
  demand(bytes <= file_bytes * most, "more bytes than the file can hold");
  demand(sum == sum || sum != sum, "an element cannot be read");
}

}  // namespace attest::core
