#include "core/inputs/features.hpp"

#include <algorithm>
#include <cmath>

#include "core/inputs/trig.hpp"
#include "core/tensor/random.hpp"

namespace attest::core {
namespace {

constexpr int kWavelengths = 9;
constexpr double kShortestWavelength = 0.2;  // metres
static_assert(kLidarFeatures == 3 * 2 * kWavelengths + 10);

constexpr uint64_t kPlaceSeed = 0x706c616365, kClassSeed = 0x636c617373;

/// Sum of `map(value, column)` for every column: blocks of rows in parallel, the blocks' sums in
/// order.
template <class Map>
std::vector<double> blocked_sums(std::span<const float> values, int64_t dim, Map map) {
  constexpr int64_t kBlock = 4096;
  const int64_t rows = int64_t(values.size()) / dim, blocks = (rows + kBlock - 1) / kBlock;
  std::vector<double> partial(size_t(blocks * dim), 0.0), sums(size_t(dim), 0.0);
#pragma omp parallel for schedule(static)
  for (int64_t block = 0; block < blocks; ++block)
    for (int64_t row = block * kBlock; row < std::min(rows, (block + 1) * kBlock); ++row)
      for (int64_t c = 0; c < dim; ++c)
        partial[block * dim + c] += map(double(values[row * dim + c]), c);
  for (int64_t i = 0; i < blocks * dim; ++i) sums[i % dim] += partial[i];
  return sums;
}

void write_voxel(const Voxels& voxels, int32_t voxel, float* out) {
  const auto& position = voxels.positions[voxel];
  double range2 = 0;
  for (int axis = 0; axis < 3; ++axis) {
    double wavelength = kShortestWavelength;
    range2 += double(position[axis]) * double(position[axis]);
    for (int w = 0; w < kWavelengths; ++w, wavelength *= 2) {
      const SinCos wave = sin_cos_turns(double(position[axis]) / wavelength);
      *out++ = float(wave.sin);
      *out++ = float(wave.cos);
    }
  }
  *out++ = voxels.intensity[voxel];
  *out++ = float(std::sqrt(double(voxels.point_counts[voxel])));
  for (int axis = 0; axis < 3; ++axis) *out++ = voxels.offsets[voxel][axis];
  const double range = std::sqrt(range2);
  *out++ = float(range);
  *out++ = float(std::sqrt(range));
  for (int axis = 0; axis < 3; ++axis) *out++ = position[axis];
}

/// Channel c of the code of the patch at (column, row): a wave over the image, its direction and
/// length drawn once a channel.
float place_code(int64_t c, int column, int row) {
  const auto draw = [&](int k) { return double(random_uniform(kPlaceSeed, uint64_t(c) * 4 + k)); };
  const double along_x = draw(0) * draw(0) * 0.25,
               along_y = (draw(1) * 2 - 1) * draw(1) * 0.25;  // turns a patch
  return float(sin_cos_turns(column * along_x + row * along_y + draw(2)).sin * 1.4142135623730951);
}

void write_patch(const Image& image, int patch, int column, int row, float* out) {
  for (int channel = 0; channel < 3; ++channel)
    for (int y = row * patch; y < (row + 1) * patch; ++y)
      for (int x = column * patch; x < (column + 1) * patch; ++x)
        *out++ = float(image.rgb[(size_t(y) * image.width + x) * 3 + channel]);
}

}  // namespace

std::vector<double> column_sums(std::span<const float> values, int64_t dim) {
  return blocked_sums(values, dim, [](double value, int64_t) { return value; });
}

void standardise(std::span<float> features, int64_t dim) {
  const int64_t rows = int64_t(features.size()) / dim;
  if (rows == 0) return;
  std::vector<double> mean = column_sums(features, dim), scale(mean.size(), 0.0);
  for (double& m : mean) m /= double(rows);
  const std::vector<double> square = blocked_sums(
      features, dim, [&](double v, int64_t c) { return (v - mean[c]) * (v - mean[c]); });
  for (int64_t c = 0; c < dim; ++c) {
    const double variance = square[c] / double(rows);
    if (variance > 1e-12 * (1 + mean[c] * mean[c])) scale[c] = 1 / std::sqrt(variance);
  }
#pragma omp parallel for schedule(static)
  for (int64_t row = 0; row < rows; ++row)
    for (int64_t c = 0; c < dim; ++c)
      features[row * dim + c] = float((double(features[row * dim + c]) - mean[c]) * scale[c]);
}

std::vector<float> lidar_features(const Voxels& voxels, std::span<const int32_t> rows) {
  std::vector<float> features(rows.size() * kLidarFeatures);
#pragma omp parallel for schedule(static)
  for (int64_t i = 0; i < int64_t(rows.size()); ++i)
    write_voxel(voxels, rows[i], features.data() + i * kLidarFeatures);
  standardise(features, kLidarFeatures);
  return features;
}

std::vector<float> image_features(const Image& image, int patch, bool class_token) {
  const int columns = image.width / patch, rows = image.height / patch, extra = class_token ? 1 : 0;
  const int64_t dim = int64_t{3} * patch * patch;
  std::vector<float> features(size_t(dim) * (size_t(columns) * rows + extra));
  const std::span<float> patches = std::span(features).subspan(size_t(dim) * extra);
  for (int i = 0; i < columns * rows; ++i)
    write_patch(image, patch, i % columns, i / columns, patches.data() + i * dim);
  standardise(patches, dim);
  for (int i = 0; i < columns * rows; ++i)
    for (int64_t c = 0; c < dim; ++c)
      patches[i * dim + c] += place_code(c, i % columns, i / columns);
  standardise(patches, dim);
  for (int64_t c = 0; c < dim * extra; ++c) features[c] = random_normal(kClassSeed, uint64_t(c));
  return features;
}

}  // namespace attest::core
