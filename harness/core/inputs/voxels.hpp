// From points to tokens: occupied voxels, and the space-filling curves that order them as PTv3
// does.
#pragma once
#include <array>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "core/inputs/formats/points.hpp"

namespace attest::core {

/// The occupied voxels of a cloud, in the order in which its points first enter them.
struct Voxels {
  double size_metres = 0;  ///< edge of these voxels, the stage included
  std::vector<std::array<int32_t, 3>>
      coordinates;                              ///< x y z, each from 0 to kLargestVoxelCoordinate
  std::vector<std::array<float, 3>> positions;  ///< mean of the voxel's points, metres
  std::vector<std::array<float, 3>>
      offsets;                   ///< the mean minus the voxel's centre, in edges: within +-0.5
  std::vector<float> intensity;  ///< mean; 0 if the cloud has none
  std::vector<int32_t> point_counts;

  size_t size() const { return coordinates.size(); }
};

/// A curve code has 16 bits for each axis, as in PTv3.
inline constexpr int kCurveBits = 16;
inline constexpr int32_t kLargestVoxelCoordinate = (1 << kCurveBits) - 1;
inline constexpr int kMostStages = 16;

/// For each axis, the coordinate of a voxel is floor(x / voxel_size_metres) in float64, minus the
/// smallest such integer, shifted right once for each stage (PTv3's pooling by 2). Throws Error:
/// voxel size not in [1e-6, 1e6] m, stage not in [0, kMostStages), no point, or a cloud that spans
/// more than 65,536 voxels along an axis.
Voxels voxelise(const PointCloud& cloud, double voxel_size_metres, int stage = 0);

/// The orders of Point Transformer V3 (Wu et al., CVPR 2024). Trans: x and y change places.
enum class Curve { kZ, kZTrans, kHilbert, kHilbertTrans };

/// "z", "z-trans", "hilbert", "hilbert-trans".
std::string_view curve_name(Curve curve);
std::optional<Curve> curve_from_name(std::string_view name);

/// The place of a voxel along the curve, 48 bits; coordinates in [0, 65535]. z interleaves the
/// bits; x has the most significant bit of a triple. hilbert: Skilling, "Programming the Hilbert
/// curve", AIP Conf. Proc. 707 (2004) 381, oriented as in PTv3.
uint64_t curve_code(Curve curve, std::array<int32_t, 3> coordinate);

/// The voxels' indices along the curve (a stable sort by code).
std::vector<int32_t> curve_order(const Voxels& voxels, Curve curve);

}  // namespace attest::core
