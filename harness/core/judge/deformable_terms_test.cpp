// Every term of deformable attention's sigma is needed and no larger than needed, as
// sigma_terms_test.cpp has it for softmax.
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <functional>

#include "core/judge/testing/emulated_outputs.hpp"
#include "core/judge/testing/term_trial.hpp"
#include "core/operations/deformable/deformable_sigma.hpp"
#include "core/operations/deformable/testing/deformable_cases.hpp"
#include "core/tensor/random.hpp"

namespace attest::core::deformable {
namespace {

using testing::DeformableCase, testing::DeformableShape;

struct TermCase {
  Term term;
  const char* name;
  const char* honest;  // the kernel that needs the term
  DeformableArithmetic arithmetic;
  int kernel;  // of Operation::emulate
  std::function<DeformableCase()> inputs;
};
void PrintTo(const TermCase& c, std::ostream* out) { *out << c.name << ": " << c.honest; }

struct Spot {
  double x, y, weight;  // locations
};
/// Inputs of one level: V by pixel and channel, points by query and number. `dtype` is that of V
/// and O; locations are float32.
struct Made {
  int64_t queries = 200;
  int32_t height = 8, width = 8;
  int64_t num_points = 4;
  DType dtype = ATTEST_F32, v_dtype = ATTEST_NONE;
  std::function<double(int64_t y, int64_t x, double random)> value;
  std::function<Spot(int64_t query, int64_t number, Spot random)> spot;
};

DeformableCase made(const Made& m) {
  DeformableCase c({.seq_len_q = m.queries,
                    .head_dim_v = 8,
                    .num_points = m.num_points,
                    .levels = {{m.height, m.width}},
                    .location_dtype = ATTEST_F32,
                    .v_dtype = m.v_dtype},
                   m.dtype, {"random", 1});
  if (m.value)
    testing::edit(c, ATTEST_V, [&](int64_t pixel, int64_t, double random) {
      return m.value(pixel / m.width, pixel % m.width, random);
    });
  const Tensor &locations = c.tensors[ATTEST_LOCATIONS], &weights = c.tensors[ATTEST_WEIGHTS];
  for (int64_t n = 0; m.spot && n < element_count(weights.spec); ++n) {
    const Spot spot = m.spot(n / m.num_points, n % m.num_points,
                             {load(locations.data, locations.spec.dtype, 2 * n),
                              load(locations.data, locations.spec.dtype, 2 * n + 1),
                              load(weights.data, weights.spec.dtype, n)});
    store(locations.data, locations.spec.dtype, 2 * n, spot.x);
    store(locations.data, locations.spec.dtype, 2 * n + 1, spot.y);
    store(weights.data, weights.spec.dtype, n, spot.weight);
  }
  return c;
}

// Numbers evenly between 0 and 1, which differ from query to query and point to point.
double some(int64_t query, int64_t number, uint64_t of) {
  return double(random_uniform(of, uint64_t(query * 64 + number)));
}
// A location within the cell of the pixels 3 and 4 of 8 x 8.
Spot in_a_cell(int64_t query, int64_t number, double weight) {
  return {(3.6 + 0.8 * some(query, number, 1)) / 8, (3.6 + 0.8 * some(query, number, 2)) / 8,
          weight};
}
Spot quarter_in_a_cell(int64_t query, int64_t number, Spot) {
  return in_a_cell(query, number, 0.25);
}
double near_one(int64_t, int64_t, double random) { return 1 + 0.1 * random; }
double stripes(int64_t, int64_t x, double) { return x % 2 ? 1e-3 : -1e-3; }
// Some location in the right half, on the centre of a row.
Spot in_the_right_half(int64_t query, int64_t number, Spot) {
  return {0.5 + 0.49 * some(query, number, 1), 0.25, 1};
}
// A whole number from `low` to `high` - 1.
double whole(int64_t query, uint64_t of, double low, double high) {
  return low + std::floor((high - low) * some(query, 0, of));
}

std::vector<TermCase> term_cases() {
  using T = Term;
  return {
      {T::kOutput,
       "output",
       "stores o in f16",
       {.output = ATTEST_F16},
       0,
       [] { return made({.dtype = ATTEST_F16, .value = near_one, .spot = quarter_in_a_cell}); }},
      {T::kOutputSubnormal,
       "output_subnormal",
       "stores o near 2^-18 in f16",
       {.output = ATTEST_F16},
       0,
       [] {
         return made({.dtype = ATTEST_F16,
                      .value = [](int64_t, int64_t, double x) { return x * 0x1p-18; },
                      .spot = quarter_in_a_cell});
       }},
      {T::kLocation,
       "location",
       "locations of 1,024 pixels as f16",
       {.location = ATTEST_F16},
       0,
       [] {
         return made({.height = 2,
                      .width = 1024,
                      .num_points = 1,
                      .value = stripes,
                      .spot = in_the_right_half});
       }},
      {T::kCoordinate,
       "coordinate",
       "location * 1,601 - 0.5 in f32",
       {},
       0,
       [] {
         return made({.height = 2,
                      .width = 1601,
                      .num_points = 1,
                      .value = stripes,
                      .spot = in_the_right_half});
       }},
      {T::kGrid,
       "grid",
       "2 x - 1 in f32 near the left edge of 4,001 pixels",
       {.ways = ATTEST_LOCATES_ON_GRID},
       0,
       [] {
         return made(
             {.height = 2, .width = 4001, .num_points = 1, .spot = [](int64_t q, int64_t n, Spot) {
                return Spot{0.0005 + 0.001 * some(q, n, 1), 0.5, 1};
              }});
       }},
      {T::kTwist,
       "twist",
       "f16 locations at the middle of a saddle",
       {.location = ATTEST_F16},
       0,
       [] {
         return made(
             {.height = 601,
              .width = 601,
              .num_points = 1,
              .value = [](int64_t y, int64_t x, double) { return (x + y) % 2 ? 1e-3 : -1e-3; },
              .spot =
                  [](int64_t q, int64_t, Spot) {
                    return Spot{whole(q, 1, 301, 600) / 601, whole(q, 2, 301, 600) / 601, 1};
                  }});
       }},
      {T::kKink,
       "kink",
       "f16 locations just right of where a slope ends",
       {.location = ATTEST_F16},
       0,
       [] {
         return made({.height = 2,
                      .width = 3000,
                      .num_points = 1,
                      .value = [](int64_t, int64_t x, double) { return 1e-3 * double(x / 2 % 2); },
                      .spot =
                          [](int64_t q, int64_t, Spot) {
                            return Spot{(2 * whole(q, 1, 1030, 1450) + 0.52) / 3000, 0.25, 1};
                          }});
       }},
      {T::kWeight,
       "weight",
       "weights near 0.3 as bf16",
       {.weight = ATTEST_BF16},
       0,
       [] {
         return made({.value = [](int64_t, int64_t, double) { return 1.0; },
                      .spot =
                          [](int64_t q, int64_t n, Spot) {
                            // on the centre of a pixel, whose factors are 1 and 0
                            return Spot{0.5625, 0.5625, 0.3 + 0.1 * some(q, n, 3)};
                          }});
       }},
      {T::kFraction,
       "fraction",
       "fractions of f32 coordinates as bf16",
       {.weight = ATTEST_BF16},
       0,
       [] {
         return made({.num_points = 1, .value = stripes, .spot = [](int64_t q, int64_t n, Spot) {
                        return Spot{in_a_cell(q, n, 1).x, 0.5625, 1};
                      }});
       }},
      {T::kFactor,
       "factor",
       "products in bf16 of two fractions that are exact",
       {.weight = ATTEST_BF16},
       0,
       [] {
         return made({.num_points = 1,
                      .value = [](int64_t, int64_t, double) { return 1.0; },
                      .spot =
                          [](int64_t q, int64_t, Spot) {
                            // odd fractions of 7 bits
                            return Spot{(3.5 + (2 * whole(q, 1, 16, 48) + 1) / 128) / 8,
                                        (3.5 + (2 * whole(q, 2, 16, 48) + 1) / 128) / 8, 1};
                          }});
       }},
      {T::kValues,
       "values",
       "V as bf16, all of it 1.003, 64 points in one cell",
       {.product = ATTEST_BF16},
       1,
       [] {
         return made(
             {.num_points = 64,
              .value = [](int64_t, int64_t, double) { return 1.003; },
              .spot = [](int64_t q, int64_t n, Spot) { return in_a_cell(q, n, 1.0 / 64); }});
       }},
      {T::kProduct,
       "product",
       "products and samples in bf16",
       {.product = ATTEST_BF16},
       0,
       [] { return made({.v_dtype = ATTEST_BF16, .value = near_one, .spot = quarter_in_a_cell}); }},
      {T::kDifference,
       "difference",
       "a + f (b - a), where a is 1 and has nearly no weight, b 0.001",
       {},
       2,
       [] {
         return made(
             {.num_points = 1,
              .value = [](int64_t, int64_t x, double r) { return (x % 2 ? 1 : 1e-3) + 1e-4 * r; },
              .spot =
                  [](int64_t q, int64_t, Spot) {
                    // locations, coordinates and fractions are exact
                    return Spot{(3.5 + whole(q, 1, 116, 128) / 128) / 8,
                                (whole(q, 2, 0, 8) + 0.5) / 8, 1};
                  }});
       }},
      {T::kSmallProduct,
       "small_product",
       "products of some 2^-22 in f16",
       {.product = ATTEST_F16},
       0,
       [] {
         return made({.v_dtype = ATTEST_F16,
                      .value = [](int64_t, int64_t, double x) { return x * 0x1p-20; },
                      .spot = quarter_in_a_cell});
       }},
      {T::kFlushed,
       "flushed",
       "flushes products below 2^-14 to 0",
       {.product = ATTEST_F16, .ways = ATTEST_FLUSHES_SUBNORMALS},
       0,
       [] {
         return made({.v_dtype = ATTEST_F16,
                      .value = [](int64_t, int64_t, double x) { return (2 + 0.1 * x) * 0x1p-14; },
                      .spot = quarter_in_a_cell});
       }},
      {T::kFlushed,
       "flushed_difference",
       "a + f (b - a), whose step is flushed; a is twice the step, b - a four times",
       {.product = ATTEST_F16, .ways = ATTEST_FLUSHES_SUBNORMALS},
       2,
       [] {
         return made(
             {.num_points = 1,
              .v_dtype = ATTEST_F16,
              .value =
                  [](int64_t y, int64_t x, double) {
                    // In the line below, one product cancels those of the line above.
                    constexpr double kStep = 0.875 * 0x1p-14;
                    return kStep * (y % 2 ? (x % 2 ? 2 : -2) : (x % 2 ? 85 : -60));
                  },
              .spot = [](int64_t, int64_t, Spot) { return Spot{3.75 / 8, 3.5625 / 8, 1}; }});
       }},
      {T::kSum,
       "sum",
       "a sum of 64 points in bf16",
       {.accumulator = ATTEST_BF16},
       1,
       [] {
         return made({.num_points = 64, .spot = [](int64_t q, int64_t n, Spot) {
                        return in_a_cell(q, n, 1.0 / 64);
                      }});
       }},
      {T::kRepeated,
       "repeated",
       "1,000 equal points of equal weight in one f32 sum",
       {},
       0,
       [] {
         return made({.queries = 40, .num_points = 1000, .spot = [](int64_t q, int64_t, Spot) {
                        return in_a_cell(q, 0, 0.7);
                      }});
       }},
  };
}

class DeformableTerms : public ::testing::TestWithParam<TermCase> {};

TEST_P(DeformableTerms, IsNeededAndNoLargerThanNeeded) {
  const TermCase& term = GetParam();
  const DeformableCase c = term.inputs();
  testing::put_on_trial(term, c, "o off", [&](double size) {
    emulate_deformable(
        c.problem, c.tensors, term.arithmetic, term.kernel, testing::all_rows(c.tensors[ATTEST_O]),
        testing::store_into(c.tensors, [&](int32_t, double value) { return value + size; }));
  });
}

INSTANTIATE_TEST_SUITE_P(Deformable, DeformableTerms, ::testing::ValuesIn(term_cases()),
                         [](const auto& c) { return std::string(c.param.name); });

TEST(DeformableTermTable, HasEveryTerm) { testing::expect_every_term(term_cases()); }
TEST(DeformableTermTable, IsOnThePage) {
  testing::expect_rows_on_page(
      term_cases(), std::filesystem::path(ATTEST_SOURCE_DIR) / "harness/core/judge/SIGMA.md");
}

}  // namespace
}  // namespace attest::core::deformable
