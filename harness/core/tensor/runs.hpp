// The memory that a tensor addresses, run by run: what a walk over a strided or sparse tensor touches, and nothing else.
#pragma once
#include <array>

#include "core/tensor/tensor.hpp"

namespace attest::core {

/// Whether the tensor addresses every element of its extent, in whatever order of its dims.
inline bool fills_extent(const TensorSpec& spec) { return element_count(spec) == extent(spec); }

/// Calls visit(first, count), in elements, for every contiguous run that the tensor addresses, in the order of memory. Strides
/// nest (each holds all that lies inside of it), as the harness checks of every problem.
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
    for (; i < rank && axes[i].at == axes[i].dim - 1; ++i) first -= axes[i].at * axes[i].stride, axes[i].at = 0;
    if (i == rank) return;
    ++axes[i].at, first += axes[i].stride;
  }
}

}  // namespace attest::core
