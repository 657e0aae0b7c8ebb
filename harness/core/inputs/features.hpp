// The features of tokens, from which Q, K and V are projected.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "core/inputs/formats/image.hpp"
#include "core/inputs/voxels.hpp"

namespace attest::core {

/// The features of a voxel: sine and cosine of x, y and z at nine wavelengths from 0.2 m to 51.2 m,
/// mean intensity, root of the point count, height, offset within the voxel, range, x and y.
inline constexpr int64_t kLidarFeatures = 64;
/// Features of the voxels `rows`: [rows, kLidarFeatures], standardised.
std::vector<float> lidar_features(const Voxels& voxels, std::span<const int32_t> rows);

/// Features of the patches, row by row: the 3 * patch * patch pixels [channel, y, x], plus a seeded
/// code of the patch's place, like the position embedding of a vision transformer; standardised.
/// `class_token`: one seeded row comes first. `patch` divides width and height.
std::vector<float> image_features(const Image& image, int patch, bool class_token);

/// Shifts and scales every column of [rows, dim] to mean 0 and variance 1. Constant columns become
/// 0.
void standardise(std::span<float> features, int64_t dim);

/// The sum of every column of [rows, dim]. The order of summation does not depend on the number of
/// threads.
std::vector<double> column_sums(std::span<const float> values, int64_t dim);

}  // namespace attest::core
