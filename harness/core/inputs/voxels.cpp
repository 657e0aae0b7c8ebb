#include "core/inputs/voxels.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "core/tensor/error.hpp"

namespace attest::core {
namespace {

constexpr std::string_view kCurveNames[] = {"z", "z-trans", "hilbert", "hilbert-trans"};

/// Smallest voxel index of an axis before it is subtracted; Error where the axis spans too many.
double smallest_index(const std::vector<float>& axis, double size, int stage, char axis_name) {
  double low = INFINITY, high = -INFINITY;
  for (const float value : axis) {
    const double index = std::floor(double(value) / size);
    low = std::min(low, index);
    high = std::max(high, index);
  }
  const double limit = double(int64_t{kLargestVoxelCoordinate + 1} << stage);
  if (!(high - low < limit))
    throw Error(
        fmt::format("voxel_size={}: the cloud spans {:.0f} voxels along {}, a curve code has room "
                    "for {:.0f}: voxel_size of at least {:.3g}",
                    size, high - low + 1, axis_name, limit, size * (high - low + 1) / limit));
  return low;
}

using Keyed = std::pair<uint64_t, int32_t>;  // a point's voxel in 48 bits, the point

std::vector<Keyed> key_points(const PointCloud& cloud, const std::array<double, 3>& low,
                              double size, int stage) {
  std::vector<Keyed> keyed(cloud.size());
  const std::vector<float>* axes[] = {&cloud.x, &cloud.y, &cloud.z};
  for (size_t i = 0; i < cloud.size(); ++i) {
    uint64_t key = 0;
    for (int a = 0; a < 3; ++a)
      key = key << kCurveBits |
            (uint64_t(std::floor(double((*axes[a])[i]) / size) - low[a]) >> stage);
    keyed[i] = {key, int32_t(i)};
  }
  std::sort(keyed.begin(), keyed.end());
  return keyed;
}

/// Appends the voxel whose points are `points`, in the order of the cloud.
void add_voxel(Voxels& voxels, const PointCloud& cloud, const std::array<double, 3>& low, int stage,
               const Keyed* points, const Keyed* end) {
  const std::vector<float>* axes[] = {&cloud.x, &cloud.y, &cloud.z};
  const double count = double(end - points), stage_size = double(int64_t{1} << stage);
  double sum[4] = {};
  for (const Keyed* point = points; point != end; ++point) {
    for (int a = 0; a < 3; ++a) sum[a] += double((*axes[a])[point->second]);
    if (!cloud.intensity.empty()) sum[3] += double(cloud.intensity[point->second]);
  }
  std::array<int32_t, 3> coordinate;
  std::array<float, 3> position, offset;
  for (int a = 0; a < 3; ++a) {
    coordinate[a] = int32_t(points->first >> ((2 - a) * kCurveBits)) & kLargestVoxelCoordinate;
    const double mean = sum[a] / count;
    position[a] = float(mean);
    offset[a] = float((mean / voxels.size_metres) - (low[a] / stage_size + coordinate[a] + 0.5));
  }
  voxels.coordinates.push_back(coordinate);
  voxels.positions.push_back(position);
  voxels.offsets.push_back(offset);
  voxels.intensity.push_back(float(sum[3] / count));
  voxels.point_counts.push_back(int32_t(end - points));
}

/// Spreads the low 16 bits of `v` three apart.
constexpr uint64_t spread(uint64_t v) {
  v = (v | v << 16) & 0x0000ff0000ffu;
  v = (v | v << 8) & 0x00f00f00f00fu;
  v = (v | v << 4) & 0x0c30c30c30c3u;
  return (v | v << 2) & 0x249249249249u;
}

constexpr uint64_t interleave(const uint32_t (&c)[3]) {
  return spread(c[0]) << 2 | spread(c[1]) << 1 | spread(c[2]);
}

uint64_t hilbert_code(uint32_t (&c)[3]) {
  for (uint32_t bit = 1u << (kCurveBits - 1); bit > 1; bit >>= 1) {
    const uint32_t lower = bit - 1;
    for (uint32_t& axis : c) {
      const uint32_t exchange = axis & bit ? 0 : (c[0] ^ axis) & lower;
      if (axis & bit) c[0] ^= lower;
      c[0] ^= exchange;
      axis ^= exchange;
    }
  }
  // The curve's Gray code; its binary number is the running parity from the top
  uint64_t code = interleave(c);
  for (int shift = 1; shift < 3 * kCurveBits; shift *= 2) code ^= code >> shift;
  return code;
}

}  // namespace

Voxels voxelise(const PointCloud& cloud, double voxel_size_metres, int stage) {
  if (!(voxel_size_metres >= 1e-6 && voxel_size_metres <= 1e6))
    throw Error(fmt::format("voxel_size={}: must be from 1e-6 to 1e6 metres", voxel_size_metres));
  if (stage < 0 || stage >= kMostStages)
    throw Error(fmt::format("stage={}: must be from 0 to {}", stage, kMostStages - 1));
  if (cloud.size() == 0)
    throw Error("a cloud of 0 points has no voxels, at least 1 point is needed");
  const std::array<double, 3> low = {smallest_index(cloud.x, voxel_size_metres, stage, 'x'),
                                     smallest_index(cloud.y, voxel_size_metres, stage, 'y'),
                                     smallest_index(cloud.z, voxel_size_metres, stage, 'z')};
  const std::vector<Keyed> keyed = key_points(cloud, low, voxel_size_metres, stage);
  std::vector<std::pair<int32_t, int32_t>>
      runs;  // first point of a voxel, where its points begin in `keyed`
  for (size_t i = 0; i < keyed.size(); ++i)
    if (i == 0 || keyed[i].first != keyed[i - 1].first)
      runs.emplace_back(keyed[i].second, int32_t(i));
  std::sort(runs.begin(), runs.end());
  Voxels voxels;
  voxels.size_metres = voxel_size_metres * double(int64_t{1} << stage);
  for (const auto& [first, begin] : runs) {
    size_t end = size_t(begin) + 1;
    while (end < keyed.size() && keyed[end].first == keyed[begin].first) ++end;
    add_voxel(voxels, cloud, low, stage, keyed.data() + begin, keyed.data() + end);
  }
  return voxels;
}

std::string_view curve_name(Curve curve) { return kCurveNames[size_t(curve)]; }

std::optional<Curve> curve_from_name(std::string_view name) {
  const auto* found = std::find(std::begin(kCurveNames), std::end(kCurveNames), name);
  if (found == std::end(kCurveNames)) return std::nullopt;
  return Curve(found - std::begin(kCurveNames));
}

uint64_t curve_code(Curve curve, std::array<int32_t, 3> coordinate) {
  uint32_t c[3] = {uint32_t(coordinate[0]), uint32_t(coordinate[1]), uint32_t(coordinate[2])};
  if (curve == Curve::kZTrans || curve == Curve::kHilbertTrans) std::swap(c[0], c[1]);
  return curve == Curve::kZ || curve == Curve::kZTrans ? interleave(c) : hilbert_code(c);
}

std::vector<int32_t> curve_order(const Voxels& voxels, Curve curve) {
  std::vector<std::pair<uint64_t, int32_t>> coded(voxels.size());
  for (size_t i = 0; i < coded.size(); ++i)
    coded[i] = {curve_code(curve, voxels.coordinates[i]), int32_t(i)};
  std::sort(coded.begin(), coded.end());  // equal codes by index: stable
  std::vector<int32_t> order(coded.size());
  std::transform(coded.begin(), coded.end(), order.begin(),
                 [](const auto& pair) { return pair.second; });
  return order;
}

}  // namespace attest::core
