// What a token is made of before it is projected.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "core/inputs/formats/image.hpp"
#include "core/inputs/voxels.hpp"

namespace attest::core {

/// Sine and cosine of x y z at nine wavelengths from 0.2 m to 51.2 m, mean intensity, root of the
/// point count, height, offset within the voxel, range, and x and y themselves.
inline constexpr int64_t kLidarFeatures = 64;
/// Features of the voxels `rows`, [rows, kLidarFeatures], standardised.
std::vector<float> lidar_features(const Voxels& voxels, std::span<const int32_t> rows);

/// Patches by rows, each its 3 * patch * patch pixels [channel, y, x] plus a seeded code of its
/// place, as vision transformers add a position embedding; standardised. With `class_token` a
/// seeded row comes first. `patch` divides both sides.
std::vector<float> image_features(const Image& image, int patch, bool class_token);

/// Shifts and scales every column of [rows, dim] to mean 0 and variance 1; constant ones become 0.
void standardise(std::span<float> features, int64_t dim);

/// Sum of every column of [rows, dim] in a fixed order, whatever the threads.
std::vector<double> column_sums(std::span<const float> values, int64_t dim);

}  // namespace attest::core
