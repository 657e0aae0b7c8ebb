// The real sweeps and images give exactly the counts that were found for them by other means.
#include <gtest/gtest.h>

#include <numeric>

#include "core/inputs/formats/image.hpp"
#include "core/inputs/formats/points.hpp"
#include "core/inputs/testing/groups.hpp"
#include "core/inputs/tokens.hpp"
#include "core/inputs/voxels.hpp"
#include "testing/shared_data.hpp"

namespace attest::core {
namespace {

struct Sweep {
  const char* file;
  size_t points;
  std::array<size_t, 5> voxels;  // by stage, 5 cm first
  std::array<int64_t, 5> patches;
  size_t pillars, windows;
  double mean_pillars;
  int64_t most_pillars, dsvt;
  std::array<int64_t, 4> sst;
  int64_t flatformer;
};

const Sweep kSweeps[] = {
    {"nebula_hesai_64.pcd",
     93591,
     {11651, 4505, 1737, 708, 261},
     {12, 5, 2, 1, 1},
     482,
     19,
     25.4,
     77,
     26,
     {11, 7, 1, 0},
     4},
    {"nebula_velodyne_vls128.pcd",
     208680,
     {192077, 153889, 100779, 54250, 24182},
     {188, 151, 99, 53, 24},
     24812,
     700,
     35.4,
     140,
     1104,
     {404, 143, 107, 46},
     173},
    {"ouster_os0_32_f0.bin",
     21631,
     {14131, 9451, 5735, 2956, 1359},
     {14, 10, 6, 3, 2},
     1520,
     88,
     17.3,
     112,
     104,
     {76, 6, 3, 3},
     11},
    {"ouster_os1_128_f0.bin",
     107647,
     {103091, 77482, 44762, 20583, 8096},
     {101, 76, 44, 21, 8},
     9755,
     317,
     30.8,
     144,
     478,
     {215, 47, 25, 30},
     68},
    {"ouster_os1_128_map3frames.ply",
     155000,
     {149519, 121277, 68169, 27831, 9961},
     {147, 119, 67, 28, 10},
     13467,
     341,
     39.5,
     144,
     585,
     {214, 41, 30, 56},
     94},
};

class RealSweep : public ::testing::TestWithParam<Sweep> {
 protected:
  void SetUp() override {
    path_ = shared_data(ATTEST_SOURCE_DIR) / "lidar" / GetParam().file;
    ATTEST_SKIP_WITHOUT(path_);
  }
  std::filesystem::path path_;
};

TEST_P(RealSweep, HasTheKnownTokenCounts) {
  const Sweep& expected = GetParam();
  const PointCloud cloud = read_points(path_);
  EXPECT_EQ(cloud.size(), expected.points);
  EXPECT_EQ(cloud.dropped, 0);
  for (int stage = 0; stage < 5; ++stage) {
    const Voxels voxels = voxelise(cloud, 0.05, stage);
    EXPECT_EQ(voxels.size(), expected.voxels[stage]) << "stage " << stage;
    EXPECT_EQ(ptv3_patches(int64_t(voxels.size())), expected.patches[stage]) << "stage " << stage;
    EXPECT_EQ(std::accumulate(voxels.point_counts.begin(), voxels.point_counts.end(), size_t{0}),
              expected.points);
  }
}

TEST_P(RealSweep, HasTheKnownGroupCounts) {
  const Sweep& expected = GetParam();
  const Cells pillars = occupied_pillars(read_points(path_));
  const std::vector<int64_t> windows = window_counts(pillars);
  EXPECT_EQ(pillars.size(), expected.pillars);
  EXPECT_EQ(windows.size(), expected.windows);
  EXPECT_NEAR(double(pillars.size()) / double(windows.size()), expected.mean_pillars, 0.05);
  EXPECT_EQ(*std::max_element(windows.begin(), windows.end()), expected.most_pillars);
  EXPECT_EQ(dsvt_sets(windows), expected.dsvt);
  EXPECT_EQ(sst_buckets(windows), expected.sst);
  EXPECT_EQ(flatformer_groups(int64_t(pillars.size())), expected.flatformer);
}

INSTANTIATE_TEST_SUITE_P(All, RealSweep, ::testing::ValuesIn(kSweeps), [](const auto& instance) {
  const std::string file = instance.param.file;
  return file.substr(0, file.find('.'));
});

TEST_P(RealSweep, BecomesTokens) {
  TokenSource source = parse_token_source("lidar:curve=hilbert,first=10000");
  source.file = path_;
  const Tokens tokens = load_tokens(source);
  EXPECT_EQ(tokens.count, 10000);
  EXPECT_NE(tokens.file_hash, 0u);
  EXPECT_EQ(tokens.source.find('/'), std::string::npos) << tokens.source;
  for (const float value : tokens.features) ASSERT_TRUE(std::isfinite(value));
}

class RealImage : public ::testing::TestWithParam<std::tuple<const char*, int, int>> {};

TEST_P(RealImage, BecomesTokens) {
  const auto& [file, width, height] = GetParam();
  TokenSource source = parse_token_source("image:class_token=1");
  source.file = shared_data(ATTEST_SOURCE_DIR) / "images" / file;
  ATTEST_SKIP_WITHOUT(source.file);
  const Image image = read_image(source.file);
  EXPECT_EQ(image.width, width);
  EXPECT_EQ(image.height, height);
  EXPECT_EQ(load_tokens(source).count, 197);
}

INSTANTIATE_TEST_SUITE_P(All, RealImage,
                         ::testing::Values(std::tuple("comma2k19_preview.png", 1164, 874),
                                           std::tuple("opensfm_lund_01.jpg", 1024, 768),
                                           std::tuple("opensfm_lund_02.jpg", 1024, 768)));

}  // namespace
}  // namespace attest::core
