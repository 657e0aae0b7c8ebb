// The built-in sweep, for runs without a sweep file: a spinning 128-beam LiDAR in a seeded street,
// computed by ray casting.
#pragma once
#include <cstdint>

#include "core/inputs/formats/points.hpp"

namespace attest::core {

inline constexpr int kSweepBeams = 128;
inline constexpr int kSweepAzimuths = 1800;

/// One turn of 128 beams from -25 to +15 degrees and 1,800 azimuths, at 1.9 m above the road:
/// ground and pavements, facades with windows and side streets, parked and driving cars, poles,
/// people, trees. Range noise, dropouts that grow with range, intensity in [0, 1]. At least 100,000
/// returns within 200 m, in the order of the azimuths. A seed gives the same bytes on every
/// machine: the computation uses + - * /, square roots and counter-based random numbers only.
PointCloud synthetic_sweep(uint64_t seed = 1);

}  // namespace attest::core
