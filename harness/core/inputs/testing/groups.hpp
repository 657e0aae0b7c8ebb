// How point transformers cut a sweep into equal pieces of work: PTv3 patches, pillars, windows,
// DSVT sets, SST buckets, FlatFormer groups. Counts only.
#pragma once
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <set>
#include <utility>
#include <vector>

#include "core/inputs/formats/points.hpp"

namespace attest::core {

constexpr int64_t ceil_divide(int64_t count, int64_t size) { return (count + size - 1) / size; }

/// Grid cells in x and y, ascending.
using Cells = std::set<std::pair<int32_t, int32_t>>;

/// What DSVT, SST and FlatFormer see of a Waymo sweep: 468 x 468 pillars of 0.32 m, z in [-5, 4).
struct PillarGrid {
  double size_metres = 0.32, half_extent_metres = 74.88, z_low_metres = -5, z_high_metres = 4;
};

/// The pillars that hold a point.
inline Cells occupied_pillars(const PointCloud& cloud, const PillarGrid& grid = {}) {
  Cells pillars;
  const auto inside = [&](double value) {
    return value >= -grid.half_extent_metres && value < grid.half_extent_metres;
  };
  const auto cell = [&](double value) {
    return int32_t(std::floor((value + grid.half_extent_metres) / grid.size_metres));
  };
  for (size_t i = 0; i < cloud.size(); ++i)
    if (const double z = cloud.z[i]; inside(cloud.x[i]) && inside(cloud.y[i]) &&
                                     z >= grid.z_low_metres && z < grid.z_high_metres)
      pillars.emplace(cell(cloud.x[i]), cell(cloud.y[i]));
  return pillars;
}

/// Pillars in each window of `width` x `width` pillars that has any, by window.
inline std::vector<int64_t> window_counts(const Cells& pillars, int32_t width = 12) {
  std::vector<std::pair<int32_t, int32_t>> windows;
  for (const auto& [x, y] : pillars) windows.emplace_back(x / width, y / width);
  std::sort(windows.begin(), windows.end());
  std::vector<int64_t> counts;
  for (size_t i = 0; i < windows.size(); ++i) {
    if (i == 0 || windows[i] != windows[i - 1]) counts.push_back(0);
    ++counts.back();
  }
  return counts;
}

/// DSVT: each window is cut into as few sets of `size` as hold its pillars (Wang et al., CVPR
/// 2023).
inline int64_t dsvt_sets(const std::vector<int64_t>& windows, int64_t size = 36) {
  int64_t sets = 0;
  for (const int64_t count : windows) sets += ceil_divide(count, size);
  return sets;
}

/// SST: windows by the smallest of 30, 60, 100, 144 tokens that holds theirs (Fan et al., CVPR
/// 2022).
inline std::array<int64_t, 4> sst_buckets(const std::vector<int64_t>& windows) {
  constexpr int64_t kSizes[] = {30, 60, 100, 144};
  std::array<int64_t, 4> buckets{};
  for (const int64_t count : windows)
    ++buckets[std::min<size_t>(
        std::lower_bound(std::begin(kSizes), std::end(kSizes), count) - kSizes, 3)];
  return buckets;
}

/// FlatFormer: pillars sorted by window are cut into groups of `size`, whatever the windows (Liu et
/// al., CVPR 2023).
constexpr int64_t flatformer_groups(int64_t pillars, int64_t size = 144) {
  return ceil_divide(pillars, size);
}

/// PTv3: tokens along a curve are cut into patches of `size`.
constexpr int64_t ptv3_patches(int64_t tokens, int64_t size = 1024) {
  return ceil_divide(tokens, size);
}

}  // namespace attest::core
