// Deformable attention: planes are read exactly between pixels, and a lone pixel is a tent of its
// own size that ends in zeros.
#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>

#include "core/run/testing/vector_folder.hpp"
#include "core/vectors/read_vectors.hpp"

namespace attest::core {
namespace {

using ::testing::HasSubstr;

class DeformableVectors : public Vectors {
 protected:
  /// One channel, levels of 2 x 3 and 4 x 4 pixels.
  Record with(const std::vector<float>& value, const std::vector<float>& locations,
              const std::vector<float>& weights, const std::vector<float>& y,
              const std::string& more = "") {
    const int64_t queries = int64_t(y.size()), points = int64_t(weights.size()) / (2 * queries);
    write_file(folder_ / "d/v.pb", tensor_file({1, 22, 1, 1}, 1, packed_values(value)));
    write_file(folder_ / "d/l.pb",
               tensor_file({1, queries, 1, 2, points, 2}, 1, packed_values(locations)));
    write_file(folder_ / "d/w.pb",
               tensor_file({1, queries, 1, 2, points}, 1, packed_values(weights)));
    write_file(folder_ / "d/y.pb", tensor_file({1, queries, 1}, 1, packed_values(y)));
    write_file(folder_ / "d/case.json",
               R"({"op":"ms_deform_attn","params":{"shapes_hw":[[2,3],[4,4]],"heads":1,"points":)" +
                   std::to_string(points) + more +
                   R"(},"inputs":[{"name":"value","file":"v.pb"},)" +
                   R"({"name":"sampling_locations","file":"l.pb"},)" +
                   R"({"name":"attention_weights","file":"w.pb"}],)" +
                   R"("outputs":[{"name":"Y","file":"y.pb"}]})");
    return judge();
  }
};

TEST_F(DeformableVectors, APlaneIsReadExactly) {
  // Pixel (r, c) of level 0 holds 10 r + c: at (x, y) that is 10 (2 y - 1/2) + 3 x - 1/2. Level 1
  // holds 100 and has no weight but once.
  std::vector<float> value(22, 100);
  for (int r = 0; r < 2; ++r)
    for (int c = 0; c < 3; ++c) value[size_t(r * 3 + c)] = float(10 * r + c);
  const std::vector<float> locations{0.5f, 0.5f, 0.4f, 0.6f, 0.3f, 0.4f, 0.5f, 0.5f},
      weights{1, 0, 0.5f, 0.25f};
  const auto plane = [](double x, double y) { return 10 * (2 * y - 0.5) + 3 * x - 0.5; };
  const std::vector<float> right{float(plane(0.5, 0.5)), float(0.5 * plane(0.3, 0.4) + 25)};
  EXPECT_EQ(with(value, locations, weights, right).outcome.verdict(), Verdict::kPass)
      << with(value, locations, weights, right).outcome.reason;
  // x and y exchanged; corners on pixel centres.
  EXPECT_EQ(
      with(value, locations, weights, {float(plane(0.5, 0.5)), float(0.5 * plane(0.4, 0.3) + 25)})
          .outcome.code,
      ReasonCode::kErrorReference);
  EXPECT_EQ(with(value, locations, weights, {6, float(0.5 * (4 + 0.6) + 25)}).outcome.code,
            ReasonCode::kErrorReference);
  const auto aligned = [](double x, double y) { return 10 * y + 2 * x; };  // between the centres
  EXPECT_EQ(with(value, locations, weights,
                 {float(aligned(0.5, 0.5)), float(0.5 * aligned(0.3, 0.4) + 25)},
                 R"(,"align_corners":true)")
                .outcome.verdict(),
            Verdict::kPass);
  EXPECT_EQ(with(value, locations, weights, right, R"(,"padding":"border")").outcome.reason,
            "ms_deform_attn: padding 'border'");
  EXPECT_THAT(with(value, locations, weights, right, R"(,"levels":2)").outcome.reason,
              HasSubstr("parameter 'levels'"));
}

TEST_F(DeformableVectors, OutsideThereAreZeros) {
  std::vector<float> value(22, 0);
  value[6] = 8;  // level 1, pixel (0, 0): its centre is at 1/8
  const std::vector<float> weights{0, 1, 0, 1, 0, 1, 0, 1};
  std::vector<float> locations, right;
  for (const double x : {0.125, 0.0, -0.125, 0.2}) {
    locations.insert(locations.end(), {0.5f, 0.5f, float(x), 0.125f});
    right.push_back(float(8 * std::max(0.0, 1 - std::fabs(double(float(x)) - 0.125) * 4)));
  }
  EXPECT_EQ(with(value, locations, weights, right).outcome.verdict(), Verdict::kPass)
      << with(value, locations, weights, right).outcome.reason;
  right[1] = 8;  // the edge repeated
  EXPECT_EQ(with(value, locations, weights, right).outcome.code, ReasonCode::kErrorReference);
}

// Sequences, heads, queries and channels all differ: a tensor that is read in another order has
// other numbers.
TEST_F(CaseVectors, DeformableTensorsHaveTokensBeforeHeads) {
  constexpr int64_t kBatch = 2, kQueries = 3, kHeads = 2, kChannels = 3, kPixels = 6, kPoints = 2;
  const Array value({kBatch, kPixels, kHeads, kChannels}, 1);
  Array locations({kBatch, kQueries, kHeads, 1, kPoints, 2}, 2),
      weights({kBatch, kQueries, kHeads, 1, kPoints}, 3),
      y({kBatch, kQueries, kHeads * kChannels}, 4);
  // Both points of a row lie on the centres of pixels of a level of 2 x 3.
  for (int64_t row = 0; row < kBatch * kQueries * kHeads; ++row)
    for (int64_t point = 0; point < kPoints; ++point) {
      const int64_t pixel = (row + 4 * point) % kPixels, at = row * kPoints + point;
      locations.values[size_t(2 * at)] = (float(pixel % 3) + 0.5f) / 3;
      locations.values[size_t(2 * at + 1)] = (float(pixel / 3) + 0.5f) / 2;
    }
  for (int64_t row = 0; row < kBatch * kQueries * kHeads; ++row)
    for (int64_t c = 0; c < kChannels; ++c) {
      double sum = 0;
      for (int64_t point = 0; point < kPoints; ++point) {
        const int64_t b = row / (kQueries * kHeads), pixel = (row + 4 * point) % kPixels,
                      from = ((b * kPixels + pixel) * kHeads + row % kHeads) * kChannels + c;
        sum += double(weights.values[size_t(row * kPoints + point)]) *
               double(value.values[size_t(from)]);
      }
      y.values[size_t(row * kChannels + c)] = float(sum);
    }
  const auto judged = [&](const std::string& params) {
    return with("ms_deform_attn", params,
                {{"value", value.file()},
                 {"sampling_locations", locations.file()},
                 {"attention_weights", weights.file()}},
                y);
  };
  const Record record = judged(R"("shapes_hw":[[2,3]])");
  EXPECT_EQ(record.outcome.verdict(), Verdict::kPass) << record.outcome.reason;
  EXPECT_EQ(read_vector(find_vectors(folder_).at(0)).problem->operation->name(), "deformable");
  EXPECT_EQ(judged(R"("shapes_hw":[[3,2]])").outcome.code, ReasonCode::kErrorReference);
  EXPECT_THAT(judged(R"("shapes_hw":[[2,3]],"heads":3)").outcome.reason,
              HasSubstr("heads, points: not those of the tensors, 2 and 2"));
  EXPECT_EQ(judged(R"("shapes_hw":[[1,1],[1,1],[1,1],[1,1],[1,1],[1,1],[1,1],[1,1],[1,1]])")
                .outcome.reason,
            "ms_deform_attn: 9 levels");
}

}  // namespace
}  // namespace attest::core
