// The feature map of linear attention, vectorised for the machine it runs on.
#pragma once
#include <cstdint>

namespace attest::core::linear {

/// Numbers are mapped a multiple of this many at a time.
inline constexpr int64_t kLanes = 8;
constexpr int64_t padded(int64_t count) { return (count + kLanes - 1) / kLanes * kLanes; }

/// phi = elu(x) + 1 and widest = max(phi, 1)^2, each [count]; `count` is a multiple of kLanes, and
/// x may be phi.
void feature_map(const double* x, int64_t count, double* phi, double* widest);

}  // namespace attest::core::linear
