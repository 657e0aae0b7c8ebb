// A tensor as a file holds it: dense, in the order of its dims, little-endian. What every reader of
// this folder gives.
#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/tensor/dtype.hpp"

namespace attest::core {

struct FileTensor {
  std::string name;           // as the file has it; empty where it has none
  DType dtype = ATTEST_F32;   // ATTEST_NONE: a type that attest has no word for, see `type`
  std::string type;           // the file's own word for it: "F32", "<f4", "FLOAT"
  std::vector<int64_t> dims;  // none: a scalar; a dim may be 0
  std::vector<std::byte> bytes;

  int64_t count() const;
  /// Element `index` in the order of the dims.
  double at(int64_t index) const { return load(bytes.data(), dtype, index); }
};

/// Bytes of a dense tensor of these dims, or nothing where a dim is negative or the product is more
/// than 2^47.
std::optional<int64_t> dense_bytes(std::span<const int64_t> dims, int64_t element_bytes);

/// "[1,12,197]".
std::string print_dims(std::span<const int64_t> dims);

/// Throws Error ("FILE: tensor 'x' is U8, ...") where the tensor is of a type that attest has no
/// word for.
const FileTensor& usable(const FileTensor& tensor, std::string_view file_name);

}  // namespace attest::core
