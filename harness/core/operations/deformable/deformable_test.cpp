// Deformable attention: the golden against a sum over all pixels, its sample and its bounds, and
// what an invalid problem is told.
#include "core/operations/deformable/deformable.hpp"

#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <mutex>
#include <vector>

#include "core/operations/deformable/sampling.hpp"
#include "core/operations/deformable/testing/deformable_cases.hpp"
#include "core/operations/variant.hpp"
#include "core/tensor/error.hpp"

namespace attest::core::deformable {
namespace {

using testing::DeformableCase;
using ::testing::HasSubstr;
using Shape = testing::DeformableShape;

// The weight that pixel `i` has in a sample at coordinate x: a hat of width 2 around its centre.
long double hat(long double x, int64_t i) {
  return std::max(0.0L, 1 - std::fabs(x - static_cast<long double>(i)));
}

// o of one row in long double: every pixel of every level times its hats. It shares no code with
// the golden, which looks for corners.
std::vector<long double> by_hats(const DeformableCase& c, int64_t b, int64_t h, int64_t i) {
  const attest_deformable_params& p = c.p();
  std::vector<long double> o(static_cast<size_t>(p.head_dim_v));
  int64_t first = 0;
  for (int64_t l = 0; l < p.num_levels; ++l) {
    const int64_t height = p.level_height[l], width = p.level_width[l];
    for (int64_t n = 0; n < p.num_points; ++n) {
      const auto at = [&](int64_t axis, int64_t size) {
        const long double location = c.tensors[ATTEST_LOCATIONS].at({b, h, i, l, n, axis}),
                          pixels = static_cast<long double>(size);
        return p.align_corners ? location * (pixels - 1) : location * pixels - 0.5L;
      };
      const long double weight = c.tensors[ATTEST_WEIGHTS].at({b, h, i, l, n}), x = at(0, width),
                        y = at(1, height);
      for (int64_t row = 0; row < height; ++row)
        for (int64_t column = 0; column < width; ++column) {
          const long double share = hat(x, column) * hat(y, row);
          if (share == 0) continue;
          for (int64_t d = 0; d < p.head_dim_v; ++d)
            o[size_t(d)] += weight * share *
                            static_cast<long double>(
                                c.tensors[ATTEST_V].at({b, h, first + row * width + column, d}));
        }
    }
    first += height * width;
  }
  return o;
}

struct Seen {
  int64_t exact = 0, swept = 0, nan = 0;
};
// Compares all of the golden with by_hats().
Seen compare(const DeformableCase& c) {
  constexpr double kMostTerm = 16 * 128;  // weights and values of "borders" are as large
  const attest_deformable_params& p = c.p();
  Seen seen;
  std::mutex lock;
  deformable_operation()
      .golden(c.problem, {}, c.tensors)
      ->expect(DeformableArithmetic{}, [&](const Expected& chunk) {
        const std::lock_guard guard(lock);
        for (size_t r = 0; r < chunk.rows.size(); ++r) {
          const int64_t head = chunk.rows[r] / p.seq_len_q;
          const std::vector<long double> o =
              by_hats(c, head / p.num_heads, head % p.num_heads, chunk.rows[r] % p.seq_len_q);
          for (size_t d = 0; d < o.size(); ++d) {
            const size_t at = r * o.size() + d;
            if (!chunk.value) {
              ++seen.swept;
              EXPECT_LE(chunk.low[at], double(o[d]));
              EXPECT_GE(chunk.high[at], double(o[d]));
              continue;
            }
            ++seen.exact;
            seen.nan += std::isnan(chunk.value[at]);
            EXPECT_EQ(std::isnan(chunk.value[at]), std::isnan(o[d])) << "row " << chunk.rows[r];
            if (std::isnan(o[d])) continue;
            EXPECT_NEAR(chunk.value[at], double(o[d]), kMostTerm * 1e-12)
                << "row " << chunk.rows[r];
            EXPECT_TRUE(chunk.sigma[at] > 0 && chunk.sigma[at] < kMostTerm * 0.1)
                << chunk.sigma[at];
          }
        }
      });
  return seen;
}

const std::vector<Shape> kShapes{
    {.seq_len_q = 40, .head_dim_v = 5, .num_points = 3},
    {.batch = 2,
     .num_heads = 3,
     .seq_len_q = 30,
     .head_dim_v = 8,
     .num_points = 4,
     .levels = {{12, 19}, {6, 10}, {3, 5}, {1, 1}}},
    {.num_heads = 2,
     .seq_len_q = 30,
     .levels = {{2, 33}, {40, 1}},
     .align_corners = true,
     .location_dtype = ATTEST_F32},
    {.seq_len_q = 40, .num_points = 1, .levels = {{1, 1}}, .align_corners = true}};

TEST(DeformableGolden, AgreesWithASumOverAllPixels) {
  for (const DType dtype : {ATTEST_F32, ATTEST_F16, ATTEST_BF16})
    for (const Shape& shape : kShapes)
      for (const std::string& fill :
           deformable_operation().fills(DeformableCase(shape, dtype, {}).problem)) {
        SCOPED_TRACE(fill);
        const DeformableCase c(shape, dtype, {fill, 3});
        const Seen seen = compare(c);
        EXPECT_EQ(seen.exact, element_count(c.tensors[ATTEST_O].spec));
        if (fill != "wild") {
          EXPECT_EQ(seen.nan, 0);
        } else if (shape.head_dim_v > 1 && shape.num_points > 1) {
          EXPECT_GT(seen.nan, 0);
          EXPECT_LT(seen.nan, seen.exact);
        }
      }
}

TEST(DeformableGolden, SamplesRowsAndBoundsTheOthers) {
  const DeformableCase c({.num_heads = 2,
                          .seq_len_q = 3000,
                          .head_dim_v = 512,
                          .num_points = 8,
                          .levels = {{5, 4}, {2, 2}}},
                         ATTEST_F32, {"random", 1});
  const auto golden = deformable_operation().golden(c.problem, {}, c.tensors);
  EXPECT_THAT(golden->method(), HasSubstr("of 3000 rows a head"));
  std::vector<bool> judged = judged_rows(c.problem, *golden);
  for (const int64_t row : {0, 2999, 3000, 5999}) EXPECT_TRUE(judged[size_t(row)]) << row;
  int64_t beside_edges = 0;
  for (int64_t row = 0; row < 3000; ++row) beside_edges += judged[size_t(row)] && row % 16 < 2;
  EXPECT_GT(beside_edges, 50);  // of 237 rows
  const Seen seen = compare(c);
  EXPECT_EQ(seen.exact + seen.swept, element_count(c.tensors[ATTEST_O].spec));
  EXPECT_GT(seen.exact, 0);
  EXPECT_GT(seen.swept, seen.exact);
}

// o of all rows, [batch, num_heads, seq_len_q, head_dim_v].
std::vector<double> outputs(const DeformableCase& c) {
  const auto channels = size_t(c.p().head_dim_v);
  std::vector<double> o(size_t(element_count(c.tensors[ATTEST_O].spec)));
  deformable_operation()
      .golden(c.problem, {}, c.tensors)
      ->expect(DeformableArithmetic{}, [&](const Expected& chunk) {
        for (size_t r = 0; r < chunk.rows.size(); ++r)
          std::copy_n(chunk.value + r * channels, channels,
                      o.begin() + std::ptrdiff_t(size_t(chunk.rows[r]) * channels));
      });
  return o;
}

// suites/README.md, "Sums over cameras": cameras below each other, with an eighth of their height
// between two, give the sum of their outputs.
TEST(DeformableGolden, SumsOverCamerasThatLieBelowEachOther) {
  constexpr int64_t kCameras = 3, kQueries = 40, kPoints = 4, kChannels = 5, kEighths = 26;
  const DeformableCase apart({.batch = kCameras,
                              .seq_len_q = kQueries,
                              .head_dim_v = kChannels,
                              .num_points = kPoints,
                              .levels = {{16, 12}, {8, 6}}},
                             ATTEST_F64, {"random", 5}),
      together({.seq_len_q = kQueries,
                .head_dim_v = kChannels,
                .num_points = kCameras * kPoints,
                .levels = {{2 * kEighths, 12}, {kEighths, 6}}},
               ATTEST_F64, {"random", 6});
  const auto set = [&](int32_t role, std::initializer_list<int64_t> index, double value) {
    const Tensor& x = together.tensors[size_t(role)];
    int64_t at = 0, axis = 0;
    for (const int64_t i : index) at += i * x.spec.stride[axis++];
    store(x.data, ATTEST_F64, at, value);
  };
  const Tensors& given = apart.tensors;
  for (int64_t n = 0; n < element_count(together.tensors[ATTEST_V].spec); ++n)
    store(together.tensors[ATTEST_V].data, ATTEST_F64, n, 0);
  const std::vector<Level> small = levels_of(apart.p()), large = levels_of(together.p());
  int64_t unseen = 0;
  for (int64_t camera = 0; camera < kCameras; ++camera)
    for (size_t l = 0; l < small.size(); ++l) {
      const Level& level = small[l];
      for (int64_t pixel = 0; pixel < level.height * level.width; ++pixel)
        for (int64_t d = 0; d < kChannels; ++d)
          set(ATTEST_V,
              {0, 0, large[l].first + camera * level.height / 8 * 9 * level.width + pixel, d},
              given[ATTEST_V].at({camera, 0, level.first + pixel, d}));
      for (int64_t i = 0; i < kQueries; ++i)
        for (int64_t n = 0; n < kPoints; ++n) {
          const auto from = int64_t(l), to = camera * kPoints + n;
          const double x = given[ATTEST_LOCATIONS].at({camera, 0, i, from, n, 0}),
                       y = given[ATTEST_LOCATIONS].at({camera, 0, i, from, n, 1});
          const bool seen = is_inside(coordinate(apart.p(), y, level.height), level.height);
          unseen += !seen;
          set(ATTEST_LOCATIONS, {0, 0, i, from, to, 0}, x);
          set(ATTEST_LOCATIONS, {0, 0, i, from, to, 1},
              seen ? (8 * y + 9 * double(camera)) / kEighths : -1);
          set(ATTEST_WEIGHTS, {0, 0, i, from, to},
              given[ATTEST_WEIGHTS].at({camera, 0, i, from, n}));
        }
    }
  EXPECT_GT(unseen, 0);
  const std::vector<double> of_cameras = outputs(apart), sums = outputs(together);
  for (size_t at = 0; at < sums.size(); ++at)
    EXPECT_NEAR(sums[at],
                of_cameras[at] + of_cameras[at + sums.size()] + of_cameras[at + 2 * sums.size()],
                1e-12);
}

// Its output is 0, but what it adds is not.
TEST(DeformableFill, CancellingHasNoOutputButSamples) {
  for (const DType dtype : {ATTEST_F32, ATTEST_F16, ATTEST_BF16}) {
    const DeformableCase c({.num_heads = 2,
                            .seq_len_q = 50,
                            .num_points = 4,
                            .levels = {{100, 167}, {50, 84}, {25, 42}, {1, 7}}},
                           dtype, {"cancelling", 3});
    int64_t apart = 0, inside = 0;
    std::vector<Point> points;
    const Points reader(c.problem, c.tensors);
    for (int64_t i = 0; i < 50; ++i) {
      for (const long double o : by_hats(c, 0, 1, i)) EXPECT_LT(std::fabs(o), 1e-12);
      reader.read(0, 1, i, points);
      for (size_t n = 0; n + 1 < points.size(); ++n) {
        inside += points[n].weight != 0;
        apart += points[n].weight != 0 && points[n].x != points[n + 1].x;
      }
    }
    EXPECT_GT(inside, 300);
    EXPECT_GT(apart, 200) << dtype_name(dtype);
  }
}

// With large weights whatever their number, some sums would be above 65,504, and f16 kernels
// failed.
TEST(DeformableFill, BordersOfManyPointsStayInTheRangeOfF16) {
  const DeformableCase c({.num_heads = 2,
                          .seq_len_q = 700,
                          .head_dim_v = 8,
                          .num_points = 78,
                          .levels = {{53, 22}, {26, 11}, {13, 5}, {6, 3}}},
                         ATTEST_F16, {"borders", 1});
  double largest = 0;
  for (const double o : outputs(c)) largest = std::max(largest, std::fabs(o));
  EXPECT_LT(largest, 35'000);
  EXPECT_GT(largest, 8'000);
}

// Golden::distinct_rows: queries with equal points count once a head.
TEST(DeformableGolden, CountsEqualQueriesOnce) {
  DeformableCase c({.num_heads = 2, .seq_len_q = 30, .levels = {{40, 40}}}, ATTEST_F32,
                   {"random", 1});
  const auto rows = [&] {
    return deformable_operation().golden(c.problem, {}, c.tensors)->distinct_rows();
  };
  EXPECT_EQ(rows(), 60);
  for (const int32_t role : {ATTEST_LOCATIONS, ATTEST_WEIGHTS}) {
    const Tensor& x = c.tensors[size_t(role)];
    const int64_t row = element_count(x.spec) / 60;
    for (int64_t n = 0; n < 60 * row; ++n)
      store(x.data, ATTEST_F32, n, load(x.data, ATTEST_F32, n % row));
  }
  EXPECT_EQ(rows(), 2);
}

std::string refused(const std::function<void(attest_deformable_params&)>& change) {
  Problem problem = blank_problem(deformable_operation(), ATTEST_F32);
  auto& p = problem.as<attest_deformable_params>();
  p.seq_len_q = 8;
  p.head_dim_v = 4;
  p.level_height[0] = 6;
  p.level_width[0] = 5;
  change(p);
  try {
    finish_problem(problem);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(Deformable, RefusesInvalidProblems) {
  using P = attest_deformable_params;
  EXPECT_EQ(refused([](P&) {}), "");
  EXPECT_EQ(refused([](P& p) { p.level_height[0] = p.level_width[0] = 0; }),
            "num_levels: no level has a size; give level_height_0 and level_width_0");
  EXPECT_EQ(refused([](P& p) { p.level_width[0] = 0; }),
            "level_width_0: 0, so level 0 has no pixels; give it a size of 1 to 1048576, or leave "
            "the level out");
  EXPECT_THAT(refused([](P& p) { p.level_height[2] = p.level_width[2] = 3; }),
              HasSubstr("level_height_1: 0, so level 1 has no pixels"));
  EXPECT_EQ(refused([](P& p) {
              p.num_levels = 1;
              p.level_height[1] = 3;
            }),
            "level_height_1: 3 where 0 is right: num_levels is 1");
  EXPECT_EQ(refused([](P& p) { p.num_levels = 9; }), "num_levels: 9 where 1 to 8 is right");
  EXPECT_EQ(refused([](P& p) { p.level_height[0] = -3; }),
            "level_height_0: -3 where 1 to 1048576 is right");
  EXPECT_EQ(refused([](P& p) { p.num_points = 0; }), "num_points: 0 where 1 to 1024 is right");
  EXPECT_EQ(refused([](P& p) { p.seq_len_q = 0; }), "seq_len_q: 0 where 1 to 2147483648 is right");
  EXPECT_EQ(refused([](P& p) { p.align_corners = 2; }), "align_corners: 2 where 0 or 1 is right");
}

TEST(Deformable, NamesTensorsWhosePointsDoNotMultiply) {
  Problem problem = blank_problem(deformable_operation(), ATTEST_F32);
  auto& p = problem.as<attest_deformable_params>();
  p.seq_len_q = 8;
  p.head_dim_v = 4;
  p.level_height[0] = 6;
  p.level_width[0] = 5;
  p.num_points = 4;
  problem.tensor[ATTEST_WEIGHTS] =
      dense_tensor(ATTEST_F32, ATTEST_READ, std::vector<int64_t>{1, 1, 8, 2, 2});
  try {
    finish_problem(problem);
    FAIL();
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "weights: dims [1,1,8,2,2] where [1,1,8,1,4] is right");
  }
}

TEST(Deformable, VariantsTurnALevelAndAlignCorners) {
  const DeformableCase c({.seq_len_q = 8, .levels = {{4, 4}, {3, 5}}}, ATTEST_F32, {});
  std::vector<std::string> names;
  for (const Variant& variant : deformable_operation().variants(c.problem))
    names.push_back(variant.name);
  EXPECT_THAT(names, ::testing::IsSupersetOf({"align_corners", "turned level"}));
}

}  // namespace
}  // namespace attest::core::deformable
