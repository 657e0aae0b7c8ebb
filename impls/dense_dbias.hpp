// dense_dbias.hpp: DBIAS in float32 and in dense order, in which kernels sum it before they write
// it.
#pragma once
#include <cstdint>

#include "attest.h"

namespace dense_dbias {

/// Returns how many elements it has; 0: the problem has no DBIAS.
inline int64_t elements(const attest_tensor& dbias) {
  int64_t count = dbias.rank > 0 ? 1 : 0;
  for (int32_t axis = 0; axis < dbias.rank; ++axis) count *= dbias.dim[axis];
  return count;
}

/// Returns where the element lies to which the pair of query i and key j of head h adds. Dims that
/// pairs share have size 1.
inline int64_t place(const attest_tensor& dbias, int64_t b, int64_t h, int64_t i, int64_t j) {
  const int64_t at[] = {b, h, i, j};
  int64_t place = 0;
  for (int axis = 0; axis < 4; ++axis)
    place = place * dbias.dim[axis] + (dbias.dim[axis] > 1 ? at[axis] : 0);
  return place;
}

/// Calls visit(n, b, h, i, j) for every element, n being its number in dense order.
template <class Visit>
void each(const attest_tensor& dbias, const Visit& visit) {
  const int64_t* const dim = dbias.dim;
  for (int64_t n = 0; n < elements(dbias); ++n)
    visit(n, n / (dim[1] * dim[2] * dim[3]), n / (dim[2] * dim[3]) % dim[1], n / dim[3] % dim[2],
          n % dim[3]);
}

}  // namespace dense_dbias
