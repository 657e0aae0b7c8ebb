// From points to tokens: occupied voxels, and the space-filling curves that put them in a row as
// PTv3 does.
#pragma once
#include <array>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "core/inputs/formats/points.hpp"

namespace attest::core {

/// The occupied voxels of a cloud in the order in which the cloud first enters them: the sensor's
/// own order.
struct Voxels {
  double size_metres = 0;  ///< edge of these voxels, the stage included
  std::vector<std::array<int32_t, 3>>
      coordinates;                              ///< x y z, each from 0 to kLargestVoxelCoordinate
  std::vector<std::array<float, 3>> positions;  ///< mean of the voxel's points, metres
  std::vector<std::array<float, 3>>
      offsets;                   ///< that mean less the voxel's centre, in edges: within +-0.5
  std::vector<float> intensity;  ///< mean, 0 where the cloud has none
  std::vector<int32_t> point_counts;

  size_t size() const { return coordinates.size(); }
};

/// A curve code has 16 bits an axis, PTv3's limit.
inline constexpr int kCurveBits = 16;
inline constexpr int32_t kLargestVoxelCoordinate = (1 << kCurveBits) - 1;
inline constexpr int kMostStages = 16;

/// Voxel = floor(x / voxel_size_metres) per axis in float64, less the smallest such integer of the
/// axis, then shifted right once a stage (PTv3's pooling by 2). Error: voxel size not in [1e-6,
/// 1e6] m, stage not in [0, kMostStages), no point, or a cloud that spans more than 65,536 voxels
/// along an axis.
Voxels voxelise(const PointCloud& cloud, double voxel_size_metres, int stage = 0);

/// The serialisations of Point Transformer V3 (Wu et al., CVPR 2024); trans: x and y change places.
enum class Curve { kZ, kZTrans, kHilbert, kHilbertTrans };

/// "z", "z-trans", "hilbert", "hilbert-trans".
std::string_view curve_name(Curve curve);
std::optional<Curve> curve_from_name(std::string_view name);

/// Place of a voxel along the curve, 48 bits; coordinates in [0, 65535]. z: bits interleaved, x the
/// most significant of a triple. hilbert: Skilling, "Programming the Hilbert curve", AIP Conf.
/// Proc. 707 (2004) 381, the same turn of the curve as PTv3's.
uint64_t curve_code(Curve curve, std::array<int32_t, 3> coordinate);

/// The voxels' indices along the curve (a stable sort by code).
std::vector<int32_t> curve_order(const Voxels& voxels, Curve curve);

}  // namespace attest::core
