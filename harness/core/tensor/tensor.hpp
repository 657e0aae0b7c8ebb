// Tensors as attest.h describes them: a specification, and a specification with data.
#pragma once
#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "core/tensor/dtype.hpp"

namespace attest::core {

using TensorSpec = attest_tensor;

/// A dense specification in the order of `dims`. Dims of 1 have stride 0. rank <= 6.
TensorSpec dense_tensor(DType dtype, int32_t access, std::span<const int64_t> dims);
/// A dense specification whose dims are stored in the order `order`, outermost first: {0, 2, 1, 3}
/// stores [b, h, i, d] as [b, i, h, d].
TensorSpec permuted_tensor(DType dtype, int32_t access, std::span<const int64_t> dims,
                           std::span<const int> order);

inline bool present(const TensorSpec& spec) { return spec.dtype != ATTEST_NONE; }
inline std::span<const int64_t> dims(const TensorSpec& spec) {
  return {spec.dim, size_t(spec.rank)};
}
/// Elements addressed: the product of the dims.
int64_t element_count(const TensorSpec& spec);
/// Elements from the first to the last addressed one, both included: the size of a buffer.
int64_t extent(const TensorSpec& spec);
inline int64_t extent_bytes(const TensorSpec& spec) {
  return extent(spec) * int64_t(dtype_bytes(spec.dtype));
}
/// Whether the tensor fills its extent in the order of its dims.
bool is_dense(const TensorSpec& spec);

/// The offset of row `row`, in elements. Rows count through the first `leading` dims, the last
/// fastest.
int64_t row_offset(const TensorSpec& spec, int leading, int64_t row);
/// The indices of row `row` in the first `leading` dims.
std::vector<int64_t> row_index(const TensorSpec& spec, int leading, int64_t row);
/// The product of the first `leading` dims.
int64_t row_count(const TensorSpec& spec, int leading);

/// A specification and the address of the first element. It does not own the memory.
struct Tensor {
  TensorSpec spec{};
  void* data = nullptr;

  explicit operator bool() const { return present(spec); }
  double at(std::initializer_list<int64_t> index) const;
};

/// All tensors of a problem, indexed by role; absent tensors convert to false.
using Tensors = std::array<Tensor, ATTEST_ROLES>;

/// 64-bit hash (XXH3) of dtype, dims, and the elements in the order of the dims. Strides do not
/// matter.
uint64_t hash_tensor(const Tensor& tensor);
/// 64-bit hash of bytes.
uint64_t hash_bytes(const void* data, size_t size, uint64_t seed = 0);
inline uint64_t hash_text(std::string_view text, uint64_t seed = 0) {
  return hash_bytes(text.data(), text.size(), seed);
}
/// 16 lower-case hexadecimal digits.
std::string hex(uint64_t hash);

}  // namespace attest::core
