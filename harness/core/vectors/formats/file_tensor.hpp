// A tensor of a file: dense, in the order of its dims, little-endian. All readers of this folder
// return it.
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
  std::string name;           // its name in the file; empty if it has none
  DType dtype = ATTEST_F32;   // ATTEST_NONE: a type that attest does not know, see `type`
  std::string type;           // the file's word for the type: "F32", "<f4", "FLOAT"
  std::vector<int64_t> dims;  // empty: a scalar; a dim may be 0
  std::vector<std::byte> bytes;

  int64_t count() const;
  /// Element `index` in the order of the dims.
  double at(int64_t index) const { return load(bytes.data(), dtype, index); }
};

/// Bytes of a dense tensor of these dims; nothing if a dim is negative or the product exceeds 2^47.
std::optional<int64_t> dense_bytes(std::span<const int64_t> dims, int64_t element_bytes);

/// "[1,12,197]".
std::string print_dims(std::span<const int64_t> dims);

/// Returns the tensor. Throws Error ("FILE: tensor 'x' is U8, ...") if attest does not know its
/// type.
const FileTensor& usable(const FileTensor& tensor, std::string_view file_name);

}  // namespace attest::core
