// Walks over the memory that a strided or sparse tensor addresses, one contiguous run at a time.
// Memory between the elements is not touched.
#pragma once
#include <array>
#include <cstring>

#include "core/tensor/tensor.hpp"

namespace attest::core {

/// Whether the tensor addresses every element of its extent, whatever the order of its dims.
inline bool fills_extent(const TensorSpec& spec) { return element_count(spec) == extent(spec); }

/// Whether the gaps between its elements take far more memory than the elements.
inline bool is_sparse(const TensorSpec& spec) { return extent(spec) > 8 * element_count(spec); }

/// Calls visit(first, count), in elements, for every contiguous run of addressed elements, in the
/// order of memory. Strides must nest: each is at least the extent of all inner dims. The harness
/// checks this for every problem.
template <class Visit>
void for_each_run(const TensorSpec& spec, const Visit& visit) {
  if (!present(spec)) return;
  struct Axis {
    int64_t stride, dim, at;
  };
  std::array<Axis, 6> axes{};
  size_t rank = 0;
  for (int i = 0; i < spec.rank; ++i) {  // innermost first
    if (spec.dim[i] == 1) continue;
    size_t at = rank++;
    for (; at > 0 && axes[at - 1].stride > spec.stride[i]; --at) axes[at] = axes[at - 1];
    axes[at] = {spec.stride[i], spec.dim[i], 0};
  }
  int64_t count = 1;
  size_t inner = 0;
  for (; inner < rank && axes[inner].stride == count; ++inner) count *= axes[inner].dim;
  for (int64_t first = 0;;) {
    visit(first, count);
    size_t i = inner;
    for (; i < rank && axes[i].at == axes[i].dim - 1; ++i) {
      first -= axes[i].at * axes[i].stride;
      axes[i].at = 0;
    }
    if (i == rank) return;
    ++axes[i].at;
    first += axes[i].stride;
  }
}

/// Copies the elements of a tensor. Source and target have the layout of `spec`.
inline void copy_elements(const TensorSpec& spec, void* to, const void* from) {
  const auto width = int64_t(dtype_bytes(spec.dtype));
  for_each_run(spec, [&](int64_t first, int64_t count) {
    std::memcpy(static_cast<char*>(to) + first * width,
                static_cast<const char*>(from) + first * width, size_t(count * width));
  });
}

/// Whether two tensors with the layout of `spec` have the same elements, bit by bit.
inline bool same_elements(const TensorSpec& spec, const void* one, const void* other) {
  const auto width = int64_t(dtype_bytes(spec.dtype));
  bool same = true;
  for_each_run(spec, [&](int64_t first, int64_t count) {
    same = same &&
           std::memcmp(static_cast<const char*>(one) + first * width,
                       static_cast<const char*>(other) + first * width, size_t(count * width)) == 0;
  });
  return same;
}

}  // namespace attest::core
