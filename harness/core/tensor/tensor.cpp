#include "core/tensor/tensor.hpp"

#include <xxhash.h>

#include <cassert>

namespace attest::core {

TensorSpec permuted_tensor(DType dtype, int32_t access, std::span<const int64_t> dims,
                           std::span<const int> order) {
  assert(dims.size() <= 6 && dims.size() == order.size());
  TensorSpec spec{};
  spec.dtype = dtype;
  spec.access = access;
  spec.rank = int32_t(dims.size());
  int64_t stride = 1;
  for (size_t k = order.size(); k-- > 0;) {
    const auto i = size_t(order[k]);
    spec.dim[i] = dims[i];
    spec.stride[i] = dims[i] == 1 ? 0 : stride;
    stride *= dims[i];
  }
  return spec;
}

TensorSpec dense_tensor(DType dtype, int32_t access, std::span<const int64_t> dims) {
  const int order[] = {0, 1, 2, 3, 4, 5};
  return permuted_tensor(dtype, access, dims, std::span(order).first(dims.size()));
}

int64_t element_count(const TensorSpec& spec) { return row_count(spec, spec.rank); }

int64_t extent(const TensorSpec& spec) {
  if (!present(spec)) return 0;
  int64_t last = 0;
  for (int i = 0; i < spec.rank; ++i) last += (spec.dim[i] - 1) * spec.stride[i];
  return last + 1;
}

bool is_dense(const TensorSpec& spec) {
  int64_t stride = 1;
  for (int i = spec.rank; i-- > 0; stride *= spec.dim[i])
    if (spec.dim[i] > 1 && spec.stride[i] != stride) return false;
  return true;
}

int64_t row_count(const TensorSpec& spec, int leading) {
  if (!present(spec)) return 0;
  int64_t rows = 1;
  for (int i = 0; i < leading; ++i) rows *= spec.dim[i];
  return rows;
}

int64_t row_offset(const TensorSpec& spec, int leading, int64_t row) {
  int64_t offset = 0;
  for (int i = leading; i-- > 0; row /= spec.dim[i]) offset += row % spec.dim[i] * spec.stride[i];
  return offset;
}

std::vector<int64_t> row_index(const TensorSpec& spec, int leading, int64_t row) {
  std::vector<int64_t> index(static_cast<size_t>(leading));
  for (int i = leading; i-- > 0; row /= spec.dim[i]) index[size_t(i)] = row % spec.dim[i];
  return index;
}

double Tensor::at(std::initializer_list<int64_t> index) const {
  int64_t offset = 0;
  int i = 0;
  for (const int64_t x : index) {
    if (spec.dim[i] > 1) offset += x * spec.stride[i];
    ++i;
  }
  return load(data, spec.dtype, offset);
}

uint64_t hash_bytes(const void* data, size_t size, uint64_t seed) {
  return XXH3_64bits_withSeed(data, size, seed);
}

uint64_t hash_tensor(const Tensor& tensor) {
  const TensorSpec& spec = tensor.spec;
  uint64_t hash =
      hash_bytes(spec.dim, sizeof(spec.dim[0]) * size_t(spec.rank), uint64_t(spec.dtype));
  if (!present(spec)) return hash;
  const size_t bytes = dtype_bytes(spec.dtype);
  const auto* base = static_cast<const char*>(tensor.data);
  if (is_dense(spec)) return hash_bytes(base, size_t(element_count(spec)) * bytes, hash);
  // Rows are gathered into one stream, so that a strided tensor hashes as its dense copy does.
  XXH3_state_t* state = XXH3_createState();
  XXH3_64bits_reset_withSeed(state, hash);
  const int leading = spec.rank - 1;
  const int64_t width = spec.dim[leading], stride = spec.stride[leading] * int64_t(bytes);
  for (int64_t row = 0; row < row_count(spec, leading); ++row) {
    const char* at = base + row_offset(spec, leading, row) * int64_t(bytes);
    if (stride == int64_t(bytes) || width == 1) {
      XXH3_64bits_update(state, at, size_t(width) * bytes);
    } else {
      for (int64_t i = 0; i < width; ++i) XXH3_64bits_update(state, at + i * stride, bytes);
    }
  }
  hash = XXH3_64bits_digest(state);
  XXH3_freeState(state);
  return hash;
}

std::string hex(uint64_t hash) {
  std::string text(16, '0');
  for (size_t i = 16; i-- > 0; hash >>= 4) text[i] = "0123456789abcdef"[hash & 15];
  return text;
}

}  // namespace attest::core
