#include "core/inputs/tokens.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <omp.h>

#include <cmath>
#include <set>

#include "core/inputs/testing/file_bytes.hpp"
#include "core/tensor/tensor.hpp"

namespace attest::core {
namespace {

using ::testing::HasSubstr;

TEST(TokenSource, ParseAndPrintAreInverse) {
  for (const char* text :
       {"lidar:voxel_size=0.05,curve=z,stage=0,first=0",
        "lidar:voxel_size=0.1,curve=hilbert-trans,stage=3,first=32768,file=a,b=c.pcd",
        "lidar:voxel_size=1e-06,curve=z-trans,stage=15,first=2147483647",
        "image:width=224,height=112,patch=14,class_token=1",
        "image:width=16,height=16,patch=16,class_token=0,file=street 1.jpg"})
    EXPECT_EQ(print(parse_token_source(text)), text);
}

TEST(TokenSource, DefaultsAndFolders) {
  const TokenSource source = parse_token_source("lidar");
  EXPECT_EQ(print(source), "lidar:voxel_size=0.05,curve=z,stage=0,first=0");
  const TokenSource image =
      parse_token_source("image:class_token=1,patch=32,file=/some/where/x.png");
  EXPECT_EQ(image.file, "/some/where/x.png");
  EXPECT_EQ(print(image), "image:width=224,height=224,patch=32,class_token=1,file=x.png");
}

TEST(TokenSource, SaysWhichKeyIsWrong) {
  const auto error = [](const char* text) { return error_of([&] { parse_token_source(text); }); };
  EXPECT_THAT(error(""), HasSubstr("unknown kind ''"));
  EXPECT_THAT(error("radar:x=1"), HasSubstr("must be lidar:... or image:..."));
  EXPECT_THAT(error("lidar:voxel=1"),
              HasSubstr("unknown key 'voxel': lidar takes voxel_size, curve"));
  EXPECT_THAT(error("lidar:width=1"), HasSubstr("unknown key 'width'"));
  EXPECT_THAT(error("image:stage=1"), HasSubstr("image takes width"));
  EXPECT_THAT(error("lidar:voxel_size=0"),
              HasSubstr("voxel_size: '0' must be a number from 1e-06"));
  EXPECT_THAT(error("lidar:voxel_size=nan"), HasSubstr("voxel_size: 'nan'"));
  EXPECT_THAT(error("lidar:stage=16"), HasSubstr("from 0 to 15"));
  EXPECT_THAT(error("lidar:first=-1"), HasSubstr("first: '-1'"));
  EXPECT_THAT(error("lidar:first=1x"), HasSubstr("first: '1x'"));
  EXPECT_EQ(parse_token_source("lidar:first=32k").first, 32768);
  EXPECT_THAT(error("lidar:curve=peano"), HasSubstr("z, z-trans, hilbert or hilbert-trans"));
  EXPECT_THAT(error("lidar:stage=1,stage=1"), HasSubstr("stage: given twice"));
  EXPECT_THAT(error("lidar:stage"), HasSubstr("must be key=value"));
  EXPECT_THAT(error("lidar:file="), HasSubstr("names no file"));
  EXPECT_THAT(error("image:width=225"),
              HasSubstr("patch: 16 does not divide width 225; 224 would do"));
  EXPECT_THAT(error("image:width=16384,height=16384"), HasSubstr("pixels"));
}

/// One sweep's tokens for all tests.
const Tokens& street() {
  static const Tokens tokens = load_tokens(parse_token_source("lidar:first=20000"));
  return tokens;
}

std::span<const int32_t> places(const Tokens& tokens, size_t count) {
  return std::span(tokens.order).first(count);
}

TEST(LoadTokens, FirstAlongTheCurveInStorageOrder) {
  const Tokens all = load_tokens(parse_token_source("lidar"));
  EXPECT_EQ(street().count, 20000);
  EXPECT_EQ(street().feature_dim, 64);
  EXPECT_EQ(std::set<int32_t>(street().order.begin(), street().order.end()).size(), 20000u);
  EXPECT_GT(all.count, 100000);
  EXPECT_EQ(street().file_hash, all.file_hash);
  // Storage order survives: among the kept ones the order of all is the same order.
  std::vector<int32_t> kept(all.order.begin(), all.order.begin() + 20000), sorted = kept;
  std::sort(sorted.begin(), sorted.end());
  for (size_t i = 0; i < kept.size(); ++i) ASSERT_EQ(sorted[street().order[i]], kept[i]);
  EXPECT_THAT(street().source, HasSubstr("synthetic sweep: 220333 points"));
  EXPECT_THAT(street().source, HasSubstr("voxels of 0.05 m, the first 20000 along z"));
}

TEST(LoadTokens, FeaturesAreStandardised) {
  for (const Tokens& tokens : {street(), load_tokens(parse_token_source("image:class_token=0"))})
    for (int64_t c = 0; c < tokens.feature_dim; ++c) {
      double sum = 0, square = 0;
      for (int64_t i = 0; i < tokens.count; ++i) {
        const double value = tokens.features[i * tokens.feature_dim + c];
        sum += value;
        square += value * value;
      }
      ASSERT_NEAR(sum / double(tokens.count), 0, 1e-5);
      ASSERT_NEAR(square / double(tokens.count), 1, 1e-4) << "channel " << c;
    }
}

TEST(LoadTokens, ImagePatchesAndClassToken) {
  const Tokens tokens = load_tokens(parse_token_source("image:width=224,height=112,class_token=1"));
  EXPECT_EQ(tokens.count, 14 * 7 + 1);
  EXPECT_EQ(tokens.feature_dim, 768);
  EXPECT_THAT(tokens.source, HasSubstr("98 patches of 16 x 16 and a class token"));
  EXPECT_EQ(tokens.order.back(), 98);
}

TEST(ProjectTokens, IsRowTimesMatrix) {
  // The matrix itself comes out of features that are the rows of the identity.
  Tokens unit;
  unit.count = unit.feature_dim = 5;
  unit.features.assign(25, 0);
  for (int i = 0; i < 5; ++i) unit.features[i * 6] = 1;
  Tokens mixed = unit;
  for (int i = 0; i < 25; ++i) mixed.features[i] = float(i % 7) - 3;
  const std::vector<int32_t> rows = {0, 1, 2, 3, 4}, picked = {4, 0, 2};
  constexpr int64_t kHeads = 3, kDim = 7;
  std::vector<float> matrix(5 * kHeads * kDim), out(3 * kHeads * kDim);
  project_tokens(unit, rows, 11, kHeads, kDim, false, matrix);
  project_tokens(mixed, picked, 11, kHeads, kDim, false, out);
  for (int64_t h = 0; h < kHeads; ++h)
    for (int64_t i = 0; i < 3; ++i)
      for (int64_t d = 0; d < kDim; ++d) {
        double expected = 0;
        for (int64_t f = 0; f < 5; ++f)
          expected +=
              double(mixed.features[picked[i] * 5 + f]) * double(matrix[(h * 5 + f) * kDim + d]);
        ASSERT_NEAR(out[(h * 3 + i) * kDim + d], expected, 1e-5);
      }
}

TEST(ProjectTokens, SameBytesWithAnyNumberOfThreads) {
  const auto hash_with = [](int threads) {
    const int before = omp_get_max_threads();
    omp_set_num_threads(threads);
    std::vector<float> out(5003 * 2 * 24);
    project_tokens(street(), places(street(), 5003), 1, 2, 24, true, out, 9);
    omp_set_num_threads(before);
    return hash_bytes(out.data(), out.size() * sizeof(float));
  };
  const uint64_t one = hash_with(1);
  EXPECT_EQ(hash_with(2), one);
  EXPECT_EQ(hash_with(3), one);
  EXPECT_EQ(hex(one), "54787738ad7bd87d");  // and on every machine
}

TEST(ProjectTokens, UnitVarianceAndCentring) {
  constexpr int64_t kRows = 8000, kHeads = 2, kDim = 64;
  std::vector<float> plain(kRows * kHeads * kDim), centred(plain.size());
  project_tokens(street(), places(street(), kRows), 5, kHeads, kDim, false, plain);
  project_tokens(street(), places(street(), kRows), 5, kHeads, kDim, true, centred);
  double square = 0;
  for (int64_t h = 0; h < kHeads; ++h)
    for (int64_t d = 0; d < kDim; ++d) {
      double mean = 0, centred_mean = 0;
      for (int64_t i = 0; i < kRows; ++i) {
        const size_t at = size_t((h * kRows + i) * kDim + d);
        mean += double(plain[at]) / kRows;
        centred_mean += double(centred[at]) / kRows;
        square += double(plain[at]) * double(plain[at]);
      }
      ASSERT_NEAR(centred_mean, 0, 1e-6);
      ASSERT_NEAR(double(plain[size_t(h * kRows * kDim + d)]) - mean,
                  centred[size_t(h * kRows * kDim + d)], 1e-5);
    }
  EXPECT_NEAR(square / double(plain.size()), 1, 0.25);
}

/// Of q . k / sqrt(dim): the mean over queries of its deviation over keys, and its mean between a
/// token and itself.
struct Scores {
  double deviation, self;
};

Scores scores_of(const Tokens& tokens, std::optional<uint64_t> shared) {
  constexpr int64_t kDim = 64;
  const int64_t rows = std::min<int64_t>(1000, tokens.count);
  std::vector<int32_t> picked;
  for (int64_t i = 0; i < rows; ++i) picked.push_back(tokens.order[i * tokens.count / rows]);
  std::vector<float> q(rows * kDim), k(q.size());
  project_tokens(tokens, picked, 1, 1, kDim, false, q, shared);
  project_tokens(tokens, picked, 2, 1, kDim, false, k, shared);
  Scores scores{};
  for (int64_t i = 0; i < rows; ++i) {
    double sum = 0, square = 0;
    for (int64_t j = 0; j < rows; ++j) {
      double score = 0;
      for (int64_t d = 0; d < kDim; ++d)
        score += double(q[i * kDim + d]) * double(k[j * kDim + d]) / 8;
      sum += score;
      square += score * score;
      if (i == j) scores.self += score / double(rows);
    }
    const double mean = sum / double(rows);
    scores.deviation += std::sqrt(square / double(rows) - mean * mean) / double(rows);
  }
  return scores;
}

TEST(ProjectTokens, SoftmaxIsNeitherFlatNorOneHot) {
  const Tokens image = load_tokens(parse_token_source("image:class_token=1"));
  for (const Tokens* tokens : {&street(), &image}) {
    const Scores plain = scores_of(*tokens, std::nullopt), shared = scores_of(*tokens, 77);
    for (const Scores& scores : {plain, shared}) {
      EXPECT_GT(scores.deviation, 0.8) << tokens->source;
      EXPECT_LT(scores.deviation, 2.5) << tokens->source;
    }
    EXPECT_GT(shared.self, plain.self + 3)
        << "a shared part makes like tokens attend to each other: " << tokens->source;
  }
}

TEST(ProjectTokens, RefusesRowsThatAreNotThere) {
  std::vector<float> out(2 * 8);
  const auto error = [&](std::vector<int32_t> rows, int64_t heads, int64_t dim) {
    return error_of([&] { project_tokens(street(), rows, 1, heads, dim, false, out); });
  };
  EXPECT_THAT(error({0, 20000}, 1, 8), HasSubstr("row 20000 asked for, it has 20000 tokens"));
  EXPECT_THAT(error({0, -1}, 1, 8), HasSubstr("row -1"));
  EXPECT_THAT(error({}, 1, 8), HasSubstr("each is at least 1"));
  EXPECT_THAT(error({0, 1}, 0, 8), HasSubstr("each is at least 1"));
  EXPECT_THAT(error({0, 1}, 1, 9), HasSubstr("room for 16 values"));
}

}  // namespace
}  // namespace attest::core
