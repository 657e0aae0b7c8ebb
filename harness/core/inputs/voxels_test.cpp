#include "core/inputs/voxels.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "core/inputs/testing/file_bytes.hpp"
#include "core/inputs/testing/groups.hpp"
#include "core/tensor/random.hpp"

namespace attest::core {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

PointCloud cloud_of(std::initializer_list<std::array<float, 4>> points) {
  PointCloud cloud;
  for (const auto& p : points) {
    cloud.x.push_back(p[0]);
    cloud.y.push_back(p[1]);
    cloud.z.push_back(p[2]);
    cloud.intensity.push_back(p[3]);
  }
  return cloud;
}

TEST(Voxelise, MergesPointsAndKeepsTheOrderOfEntry) {
  const Voxels voxels =
      voxelise(cloud_of({{2.25f, 0, 0, 1}, {-0.5f, 0.5f, -3, 4}, {2.75f, 0.5f, 0, 2}}), 1.0);
  EXPECT_THAT(voxels.coordinates, ElementsAre(std::array{3, 0, 3}, std::array{0, 0, 0}));
  EXPECT_THAT(voxels.point_counts, ElementsAre(2, 1));
  EXPECT_THAT(voxels.intensity, ElementsAre(1.5f, 4.0f));
  EXPECT_THAT(voxels.positions[0], ElementsAre(2.5f, 0.25f, 0.0f));
  EXPECT_THAT(voxels.offsets[0], ElementsAre(0.0f, -0.25f, -0.5f));
}

TEST(Voxelise, StagesShiftAfterTheSmallestIndexIsTaken) {
  // Indices -1, 0, 1 less -1 are 0, 1, 2: pairs (0, 1) and (2), where pairs from index 0 on would
  // be (-1) and (0, 1).
  const PointCloud cloud = cloud_of({{-0.5f, 0, 0, 0}, {0.5f, 0, 0, 0}, {1.5f, 0, 0, 0}});
  const Voxels voxels = voxelise(cloud, 1.0, 1);
  EXPECT_THAT(voxels.coordinates, ElementsAre(std::array{0, 0, 0}, std::array{1, 0, 0}));
  EXPECT_EQ(voxels.size_metres, 2);
  EXPECT_THAT(voxels.offsets[0],
              ElementsAre(0.0f, -0.5f, -0.5f));  // the pair spans -1..1, its points' mean is 0
}

TEST(Voxelise, RefusesWhatACodeCannotHold) {
  const PointCloud wide = cloud_of({{0, 0, 0, 0}, {65536, 0, 0, 0}});
  const auto error = [&](double size, int stage) {
    return error_of([&] { voxelise(wide, size, stage); });
  };
  EXPECT_THAT(error(1, 0), HasSubstr("65537 voxels along x"));
  EXPECT_EQ(error(1, 1), "");
  EXPECT_EQ(error(1.01, 0), "");
  EXPECT_THAT(error(0, 0), HasSubstr("voxel_size=0"));
  EXPECT_THAT(error(NAN, 0), HasSubstr("voxel_size=nan"));
  EXPECT_THAT(error(1, 16), HasSubstr("stage=16"));
  EXPECT_THAT(error_of([] { voxelise({}, 1); }), HasSubstr("0 points"));
}

TEST(Curves, ZInterleavesXFirst) {
  EXPECT_EQ(curve_code(Curve::kZ, {1, 0, 0}), 4u);
  EXPECT_EQ(curve_code(Curve::kZ, {0, 1, 0}), 2u);
  EXPECT_EQ(curve_code(Curve::kZ, {0, 0, 3}), 9u);
  EXPECT_EQ(curve_code(Curve::kZTrans, {1, 0, 0}), 2u);
  EXPECT_EQ(curve_code(Curve::kZ, {65535, 65535, 65535}), (uint64_t{1} << 48) - 1);
  EXPECT_EQ(curve_code(Curve::kZ, {32768, 0, 0}), uint64_t{1} << 47);
}

/// The voxels of the cube of 16 at a corner, in the order of the curve.
std::vector<std::array<int32_t, 3>> walk(Curve curve, std::array<int32_t, 3> corner) {
  std::vector<std::pair<uint64_t, std::array<int32_t, 3>>> coded;
  for (int i = 0; i < 16 * 16 * 16; ++i) {
    const std::array c = {corner[0] + i / 256, corner[1] + i / 16 % 16, corner[2] + i % 16};
    coded.emplace_back(curve_code(curve, c), c);
  }
  std::sort(coded.begin(), coded.end());
  std::vector<std::array<int32_t, 3>> path;
  for (size_t i = 0; i < coded.size(); ++i) {
    EXPECT_EQ(coded[i].first - coded[0].first, i) << "the cube's codes are consecutive";
    path.push_back(coded[i].second);
  }
  return path;
}

TEST(Curves, HilbertStepsToANeighbourAlways) {
  for (const Curve curve : {Curve::kHilbert, Curve::kHilbertTrans})
    for (const std::array<int32_t, 3> corner :
         {std::array{0, 0, 0}, std::array{65520, 32768, 16}}) {
      const auto path = walk(curve, corner);
      for (size_t i = 1; i < path.size(); ++i) {
        int distance = 0;
        for (int a = 0; a < 3; ++a) distance += std::abs(path[i][a] - path[i - 1][a]);
        ASSERT_EQ(distance, 1) << curve_name(curve) << " step " << i;
      }
    }
}

/// The transform as PTv3's serialisation writes it: bits of a Gray code inverted and exchanged one
/// by one, then made binary.
uint64_t hilbert_bit_by_bit(std::array<int32_t, 3> c) {
  bool gray[3][16];
  for (int a = 0; a < 3; ++a)
    for (int b = 0; b < 16; ++b) gray[a][b] = c[a] >> (15 - b) & 1;
  for (int bit = 0; bit < 16; ++bit)
    for (int dim = 0; dim < 3; ++dim) {
      const bool mask = gray[dim][bit];
      for (int b = bit + 1; b < 16; ++b) gray[0][b] ^= mask;
      for (int b = bit + 1; b < 16; ++b) {
        const bool flip = !mask && (gray[0][b] ^ gray[dim][b]);
        gray[dim][b] ^= flip;
        gray[0][b] ^= flip;
      }
    }
  uint64_t code = 0;
  bool parity = false;
  for (int b = 0; b < 16; ++b)
    for (int a = 0; a < 3; ++a) code = code << 1 | uint64_t(parity ^= gray[a][b]);
  return code;
}

TEST(Curves, HilbertTurnsAsPtv3Does) {
  for (uint64_t i = 0; i < 2000; ++i) {
    const uint64_t bits = random_bits(7, i);
    const std::array c = {int32_t(bits & 65535), int32_t(bits >> 16 & 65535),
                          int32_t(bits >> 32 & 65535)};
    ASSERT_EQ(curve_code(Curve::kHilbert, c), hilbert_bit_by_bit(c));
    ASSERT_EQ(curve_code(Curve::kHilbertTrans, c), hilbert_bit_by_bit({c[1], c[0], c[2]}));
  }
}

TEST(Curves, OrderIsAPermutationByCode) {
  PointCloud cloud;
  for (uint64_t i = 0; i < 3000; ++i)
    for (auto* axis : {&cloud.x, &cloud.y, &cloud.z})
      axis->push_back(10 * random_uniform(3, 3 * i + uint64_t(axis - &cloud.x)));
  const Voxels voxels = voxelise(cloud, 0.5);
  for (const Curve curve : {Curve::kZ, Curve::kZTrans, Curve::kHilbert, Curve::kHilbertTrans}) {
    const std::vector<int32_t> order = curve_order(voxels, curve);
    EXPECT_EQ(std::set<int32_t>(order.begin(), order.end()).size(), voxels.size());
    for (size_t i = 1; i < order.size(); ++i)
      ASSERT_LT(curve_code(curve, voxels.coordinates[order[i - 1]]),
                curve_code(curve, voxels.coordinates[order[i]]));
  }
}

TEST(Curves, NamesAreInverse) {
  for (const Curve curve : {Curve::kZ, Curve::kZTrans, Curve::kHilbert, Curve::kHilbertTrans})
    EXPECT_EQ(curve_from_name(curve_name(curve)), curve);
  EXPECT_EQ(curve_from_name("peano"), std::nullopt);
}

TEST(Groups, BordersOfBucketsAndSets) {
  const std::vector<int64_t> windows = {30, 31, 60, 61, 100, 101, 144, 36, 37};
  EXPECT_THAT(sst_buckets(windows), ElementsAre(1, 4, 2, 2));
  EXPECT_EQ(dsvt_sets({36, 37, 1}), 1 + 2 + 1);
  EXPECT_EQ(flatformer_groups(145), 2);
  EXPECT_EQ(ptv3_patches(1024), 1);
}

TEST(Groups, PillarsKeepTheGridsHalfOpenBounds) {
  const PointCloud cloud = cloud_of({{-16, 0.5f, -5, 0},
                                     {16, 0.5f, 0, 0},
                                     {15.5f, 0.5f, 3.9f, 0},
                                     {15.9f, 0.1f, 0, 0},
                                     {8, 8, 4, 0},
                                     {8, 8, -5.1f, 0}});
  const Cells pillars = occupied_pillars(cloud, {.size_metres = 1, .half_extent_metres = 16});
  EXPECT_THAT(pillars, ElementsAre(std::pair(0, 16), std::pair(31, 16)));
  EXPECT_THAT(window_counts(pillars), ElementsAre(1, 1));
}

}  // namespace
}  // namespace attest::core
