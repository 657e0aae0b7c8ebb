#include "core/vectors/formats/file_tensor.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/problem/hint.hpp"
#include "core/tensor/error.hpp"

namespace attest::core {

int64_t FileTensor::count() const {
  int64_t count = 1;
  for (const int64_t dim : dims) count *= dim;
  return count;
}

std::optional<int64_t> dense_bytes(std::span<const int64_t> dims, int64_t element_bytes) {
  constexpr int64_t kMost = int64_t{1} << 47;
  int64_t bytes = element_bytes;
  bool empty = false;
  for (const int64_t dim : dims) {
    if (dim < 0 || dim > kMost) return std::nullopt;
    if (dim == 0)
      empty = true;
    else if (bytes > kMost / dim)
      return std::nullopt;
    else
      bytes *= dim;
  }
  return empty ? 0 : bytes;
}

std::string print_dims(std::span<const int64_t> dims) {
  return fmt::format("[{}]", fmt::join(dims, ","));
}

const FileTensor& usable(const FileTensor& tensor, std::string_view file_name) {
  if (tensor.dtype == ATTEST_NONE)
    throw Error(fmt::format(
        "{}: tensor {} is {}; f32, f16, bf16, f64, i32, i64, bool and the 8-bit floats can be used",
        file_name, in_quotes(tensor.name), tensor.type));
  return tensor;
}

}  // namespace attest::core
