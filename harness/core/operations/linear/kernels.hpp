// Float64 loops of the linear golden, vectorised for the machine they run on.
#pragma once
#include <cstdint>

namespace attest::core::linear {

/// Matrices below are padded to a multiple of this many columns, with zeros.
inline constexpr int64_t kLanes = 8;
constexpr int64_t padded(int64_t columns) { return (columns + kLanes - 1) / kLanes * kLanes; }

/// c[m, n] += a b, a's element (i, k) at a[i * a_row + k * a_column]; b [k, n] and c [m, n] row
/// after row, n a multiple of kLanes.
void multiply_add(const double* a, int64_t a_row, int64_t a_column, const double* b, double* c,
                  int64_t m, int64_t n, int64_t k);

/// phi = elu(x) + 1 and widest = max(phi, 1)^2 of `count` numbers, a multiple of kLanes; x may be
/// phi.
void feature_map(const double* x, int64_t count, double* phi, double* widest);

}  // namespace attest::core::linear
