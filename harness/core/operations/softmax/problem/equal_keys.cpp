#include "core/operations/softmax/problem/equal_keys.hpp"

namespace attest::core {

EqualKeys find_equal_keys(const Tensor& k, const Geometry& geometry, int64_t b, int64_t kv_head) {
  const TensorSpec& spec = k.spec;
  return find_equal_rows(geometry.length_kv(b), spec.dim[3], [&](int64_t j, double* row) {
    const Cell cell = geometry.key(b, j);
    load_row(k.data, spec.dtype,
             cell.outer * spec.stride[0] + kv_head * spec.stride[1] + cell.row * spec.stride[2],
             spec.dim[3], spec.stride[3], row);
    return true;
  });
}

}  // namespace attest::core
