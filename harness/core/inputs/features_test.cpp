// Features of tokens: what each column holds, and how columns are standardised.
#include "core/inputs/features.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

namespace attest::core {
namespace {

using ::testing::IsSupersetOf;

constexpr double kTiny = 1e-5;

TEST(Standardise, GivesColumnsMean0AndVariance1) {
  std::vector<float> features = {1, 10, 7, 3, 30, 7, 8, 20, 7, 4, 20, 7};  // [4, 3]
  standardise(features, 3);
  const std::vector<double> sums = column_sums(features, 3);
  for (int c = 0; c < 3; ++c) EXPECT_NEAR(sums[size_t(c)], 0, kTiny) << c;
  double squares[2] = {};
  for (int row = 0; row < 4; ++row)
    for (int c = 0; c < 2; ++c) squares[c] += std::pow(features[size_t(row * 3 + c)], 2);
  EXPECT_NEAR(squares[0], 4, kTiny);
  EXPECT_NEAR(squares[1], 4, kTiny);
  EXPECT_NEAR(features[1], -std::sqrt(2), kTiny) << "10 is one spread below 20";
  for (int row = 0; row < 4; ++row) EXPECT_EQ(features[size_t(row * 3 + 2)], 0) << "constant";
  std::vector<float> none;
  standardise(none, 3);
  EXPECT_TRUE(none.empty());
}

TEST(ColumnSums, AreOfEachColumnOverSeveralBlocks) {
  constexpr int64_t kRows = 9001;  // three blocks, the last one not full
  std::vector<float> values(size_t(kRows * 2));
  for (int64_t row = 0; row < kRows; ++row) {
    values[size_t(row * 2)] = float(row);
    values[size_t(row * 2 + 1)] = 2;
  }
  EXPECT_EQ(column_sums(values, 2),
            (std::vector<double>{double(kRows) * (kRows - 1) / 2, 2.0 * kRows}));
}

// Four voxels that differ in one thing alone, beside their position.
Voxels four_voxels() {
  Voxels voxels;
  voxels.coordinates.resize(4);
  voxels.positions = {{3, 4, 0}, {3, 4, 0}, {3, 4, 0}, {3, 4, 0}};
  voxels.offsets.resize(4, {0.1f, 0.2f, 0.3f});
  voxels.intensity.assign(4, 0.5f);
  voxels.point_counts.assign(4, 9);
  return voxels;
}

// The columns in which the rows differ.
std::vector<int64_t> varying(const std::vector<float>& features, int64_t dim) {
  std::vector<int64_t> columns;
  for (int64_t c = 0; c < dim; ++c)
    for (size_t at = size_t(c); at < features.size(); at += size_t(dim))
      if (features[at] != features[size_t(c)] && (columns.empty() || columns.back() != c))
        columns.push_back(c);
  return columns;
}

TEST(LidarFeatures, EachHasItsColumn) {
  const std::vector<int32_t> rows = {0, 1, 2, 3};
  const auto columns = [&](const Voxels& voxels) {
    return varying(lidar_features(voxels, rows), kLidarFeatures);
  };
  EXPECT_TRUE(columns(four_voxels()).empty());
  Voxels voxels = four_voxels();
  voxels.intensity[2] = 1;
  EXPECT_EQ(columns(voxels), (std::vector<int64_t>{54}));
  voxels = four_voxels();
  voxels.point_counts[2] = 16;
  EXPECT_EQ(columns(voxels), (std::vector<int64_t>{55}));
  voxels = four_voxels();
  voxels.offsets[2][1] = 0;
  EXPECT_EQ(columns(voxels), (std::vector<int64_t>{57}));
  voxels = four_voxels();
  voxels.positions[2] = {4, 3, 0};                        // the range stays
  const auto is_wave = [](int64_t c) { return c < 36; };  // of x and y
  const std::vector<int64_t> moved = columns(voxels);
  EXPECT_THAT(moved, IsSupersetOf({61, 62}));
  EXPECT_TRUE(std::ranges::any_of(moved, is_wave));
  for (const int64_t c : moved) EXPECT_TRUE(is_wave(c) || c == 61 || c == 62) << c;
}

// Waves of x begin at 0.2 m, and double; sine, then cosine.
TEST(LidarFeatures, WavesHaveTheirLengths) {
  Voxels voxels = four_voxels();
  for (int i = 0; i < 4; ++i) voxels.positions[size_t(i)] = {0.1f * float(i), 0, 0};
  const std::vector<int32_t> rows = {0, 1, 2, 3};
  const std::vector<float> features = lidar_features(voxels, rows);
  const auto at = [&](int64_t row, int64_t c) {
    return features[size_t(row * kLidarFeatures + c)];
  };
  // Half a turn of 0.2 m, a quarter of 0.4 m: cosines 1 -1 1 -1 and 1 0 -1 0.
  EXPECT_NEAR(at(0, 1), 1, 1e-3);
  EXPECT_NEAR(at(1, 1), -1, 1e-3);
  EXPECT_NEAR(at(3, 1), -1, 1e-3);
  EXPECT_NEAR(at(0, 3), std::sqrt(2), 1e-3);
  EXPECT_NEAR(at(1, 3), 0, 1e-3);
  EXPECT_NEAR(at(1, 2), std::sqrt(2), 1e-3) << "the sine of a quarter";
  EXPECT_NEAR(at(3, 2), -std::sqrt(2), 1e-3);
}

TEST(LidarFeatures, RowsAreThoseAskedForInTheirOrder) {
  Voxels voxels = four_voxels();
  voxels.intensity = {1, 2, 3, 5};
  const std::vector<int32_t> rows = {3, 0};
  const std::vector<float> features = lidar_features(voxels, rows);
  ASSERT_EQ(features.size(), size_t(2 * kLidarFeatures));
  EXPECT_NEAR(features[54], 1, kTiny);
  EXPECT_NEAR(features[kLidarFeatures + 54], -1, kTiny);
}

Image grey(int width, int height) {
  return {width, height, std::vector<uint8_t>(size_t(width) * size_t(height) * 3, 100)};
}

// The columns that one pixel of a patch changes: [channel, y, x].
TEST(ImageFeatures, PatchesAreRowByRowAndPixelsByChannel) {
  constexpr int kPatch = 2, kDim = 3 * kPatch * kPatch;
  const std::vector<float> plain = image_features(grey(6, 4), kPatch, false);
  ASSERT_EQ(plain.size(), size_t(6 * kDim)) << "three columns of patches, two rows";
  Image image = grey(6, 4);
  // In the second patch of the second row: x = 1, y = 0 in the patch, blue.
  image.rgb[(size_t(2) * 6 + 3) * 3 + 2] = 200;
  const std::vector<float> features = image_features(image, kPatch, false);
  for (int row = 0; row < 6; ++row)
    for (int c = 0; c < kDim; ++c) {
      const size_t i = size_t(row * kDim + c);
      EXPECT_EQ(features[i] != plain[i], c == 2 * kPatch * kPatch + 1) << row << ", " << c;
    }
  const auto difference = [&](int row) {
    const size_t i = size_t(row * kDim + 2 * kPatch * kPatch + 1);
    return features[i] - plain[i];
  };
  for (int row = 0; row < 6; ++row)
    if (row != 4) {
      EXPECT_LT(difference(row), difference(4)) << row;
    }
}

TEST(ImageFeatures, PlacesHaveCodes) {
  const std::vector<float> plain = image_features(grey(8, 8), 4, false);
  const auto begin = plain.begin();
  EXPECT_FALSE(std::equal(begin, begin + 48, begin + 48)) << "beside one another";
  EXPECT_FALSE(std::equal(begin, begin + 48, begin + 96)) << "below one another";
  for (const double sum : column_sums(plain, 48)) EXPECT_NEAR(sum, 0, kTiny);
}

TEST(ImageFeatures, AClassTokenComesFirstAndIsTheSameOnEveryImage) {
  const std::vector<float> without = image_features(grey(8, 8), 4, false),
                           with = image_features(grey(8, 8), 4, true);
  ASSERT_EQ(with.size(), without.size() + 48);
  EXPECT_TRUE(std::equal(without.begin(), without.end(), with.begin() + 48));
  const std::vector<float> other = image_features(synthetic_image(3, 8, 12), 4, true);
  EXPECT_TRUE(std::equal(with.begin(), with.begin() + 48, other.begin()));
  EXPECT_FALSE(std::equal(with.begin(), with.begin() + 48, with.begin() + 48));
}

}  // namespace
}  // namespace attest::core
