// The feature map of linear attention, vectorised for the machine it runs on.
#pragma once
#include <cmath>
#include <cstdint>

namespace attest::core::linear {

/// phi of one number: elu(x) + 1.
inline double feature(double x) { return x > 0 ? x + 1 : std::exp(x); }

/// feature_map takes a multiple of this many numbers.
inline constexpr int64_t kLanes = 8;
constexpr int64_t padded(int64_t count) { return (count + kLanes - 1) / kLanes * kLanes; }

/// Computes phi = elu(x) + 1 and widest = max(phi, 1)^2, each [count]. `count` is a multiple of
/// kLanes. x and phi may be the same array.
void feature_map(const double* x, int64_t count, double* phi, double* widest);

}  // namespace attest::core::linear
