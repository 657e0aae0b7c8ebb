// Events of deformable attention are counted from the bytes of the inputs.
#include "core/operations/deformable/deformable_events.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "core/operations/deformable/sampling.hpp"
#include "core/operations/deformable/testing/deformable_cases.hpp"

namespace attest::core::deformable {
namespace {

using ::testing::Contains;
using testing::DeformableCase;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::IsSupersetOf;
using ::testing::Not;
using Shape = testing::DeformableShape;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN(),
                 kInfinite = std::numeric_limits<double>::infinity();

std::set<std::string> count(const DeformableCase& c, bool judged = true) {
  const auto& p = c.p();
  return count_deformable_events(
      c.problem, c.tensors, std::vector<bool>(size_t(p.batch * p.num_heads * p.seq_len_q), judged));
}

void put(const DeformableCase& c, int32_t role, std::initializer_list<int64_t> index,
         double value) {
  const Tensor& x = c.tensors[size_t(role)];
  int64_t at = 0, axis = 0;
  for (const int64_t i : index) at += i * x.spec.stride[axis++];
  store(x.data, x.spec.dtype, at, value);
}

/// Two queries of two points in each of some levels of 9 x 7 pixels. Points lie between pixels and
/// weigh a half, and all values are 1. Level 0 alone counts: weights of the others are 0.
DeformableCase plain(size_t levels = 1) {
  DeformableCase c({.seq_len_q = 2, .num_points = 2, .levels = {levels, {9, 7}}}, ATTEST_F32,
                   {"random", 1});
  const auto& p = c.p();
  for (int64_t i = 0; i < 2; ++i)
    for (int64_t l = 0; l < p.num_levels; ++l)
      for (int64_t n = 0; n < 2; ++n) {
        put(c, ATTEST_LOCATIONS, {0, 0, i, l, n, 0}, 0.3 + 0.25 * double(n));
        put(c, ATTEST_LOCATIONS, {0, 0, i, l, n, 1}, 0.4);
        put(c, ATTEST_WEIGHTS, {0, 0, i, l, n}, l == 0 ? 0.5 : 0);
      }
  for (int64_t token = 0; token < token_count(p); ++token)
    for (int64_t d = 0; d < p.head_dim_v; ++d) put(c, ATTEST_V, {0, 0, token, d}, 1);
  return c;
}

/// The events of the plain case with the first point at (x, y), beside those of a plain one.
std::set<std::string> at(double x, double y) {
  const DeformableCase c = plain();
  put(c, ATTEST_LOCATIONS, {0, 0, 0, 0, 0, 0}, x);
  put(c, ATTEST_LOCATIONS, {0, 0, 0, 0, 0, 1}, y);
  std::set<std::string> found = count(c);
  EXPECT_EQ(found.erase("level/first"), 1u);
  return found;
}

/// The location of a coordinate along an axis of `size` pixels.
double of(double coordinate, int64_t size) { return (coordinate + 0.5) / double(size); }

TEST(DeformableEvents, AreOfLocations) {
  EXPECT_THAT(at(0.31, 0.41), IsEmpty());
  EXPECT_THAT(at(of(-0.7, 7), 0.41), ElementsAre("border/left"));
  EXPECT_THAT(at(of(6.3, 7), 0.41), ElementsAre("border/right"));
  EXPECT_THAT(at(0.31, of(-0.7, 9)), ElementsAre("border/top"));
  EXPECT_THAT(at(0.31, of(8.7, 9)), ElementsAre("border/bottom"));
  EXPECT_THAT(at(of(6.3, 7), of(8.7, 9)),
              ElementsAre("border/bottom", "border/corner", "border/right"));
  EXPECT_THAT(at(0.5, 0.41), ElementsAre("centre/x"));
  EXPECT_THAT(at(0.31, 0.5), ElementsAre("centre/y"));
  EXPECT_THAT(at(of(7.5, 7), 0.41), ElementsAre("outside/near"));
  EXPECT_THAT(at(of(8.5, 7), 0.41), IsEmpty());
  EXPECT_THAT(at(0.31, -1e12), ElementsAre("outside/far"));
  EXPECT_THAT(at(kNan, 0.41), ElementsAre("location/nan/x"));
  EXPECT_THAT(at(0.31, kNan), ElementsAre("location/nan/y"));
  EXPECT_THAT(at(kInfinite, 0.41), ElementsAre("location/inf/x"));
  EXPECT_THAT(at(0.31, -kInfinite), ElementsAre("location/inf/y"));
  EXPECT_THAT(at(0.55, 0.4), ElementsAre("points/one_place"));
}

TEST(DeformableEvents, AreOfWeights) {
  const auto with = [](double weight, double x = 0.31) {
    const DeformableCase c = plain();
    put(c, ATTEST_LOCATIONS, {0, 0, 0, 0, 0, 0}, x);
    put(c, ATTEST_WEIGHTS, {0, 0, 0, 0, 0}, weight);
    return count(c);
  };
  EXPECT_THAT(with(0.25), ElementsAre("level/first"));
  EXPECT_THAT(with(-0.25), ElementsAre("level/first", "weight/negative"));
  EXPECT_THAT(with(1.5), ElementsAre("level/first", "weight/above_1"));
  EXPECT_THAT(with(kNan), ElementsAre("level/first", "weight/nan"));
  EXPECT_THAT(with(kNan, 5), ElementsAre("level/first", "outside/nan_weight"));
  EXPECT_THAT(with(0, -0.05), ElementsAre("level/first")) << "its border shows in no output";
  const DeformableCase small = plain();
  put(small, ATTEST_WEIGHTS, {0, 0, 1, 0, 0}, 0x1p-13);
  put(small, ATTEST_WEIGHTS, {0, 0, 1, 0, 1}, 0);
  EXPECT_THAT(count(small), ElementsAre("level/first", "weight/small"));
}

TEST(DeformableEvents, AreOfLevels) {
  DeformableCase c = plain(3);
  EXPECT_THAT(count(c), ElementsAre("level/first", "levels/one"));
  put(c, ATTEST_WEIGHTS, {0, 0, 0, 1, 0}, 1);
  put(c, ATTEST_WEIGHTS, {0, 0, 1, 1, 0}, 1);
  EXPECT_THAT(count(c), ElementsAre("level/first", "level/middle"));
  put(c, ATTEST_WEIGHTS, {0, 0, 0, 2, 0}, 1);
  EXPECT_THAT(count(c), ElementsAre("level/first", "level/last", "level/middle", "levels/all"));
  EXPECT_THAT(count(c, false), IsEmpty()) << "no row is judged";
}

TEST(DeformableEvents, AreOfValues) {
  // Coordinates (1.6, 3.1): pixel (3, 1) has 0.36 of the sample.
  const DeformableCase large = plain();
  put(large, ATTEST_V, {0, 0, 3 * 7 + 1, 2}, 257);
  EXPECT_THAT(count(large), Not(Contains("value/256")));
  put(large, ATTEST_V, {0, 0, 3 * 7 + 1, 2}, -300);
  EXPECT_THAT(count(large), Contains("value/256"));
  // Only the first query reads it.
  const auto nan_in = [](std::initializer_list<int64_t> levels) {
    DeformableCase c = plain(3);
    for (const int64_t level : levels) {
      for (int64_t i = 0; i < 2; ++i) put(c, ATTEST_WEIGHTS, {0, 0, i, level, 0}, 0.5);
      put(c, ATTEST_LOCATIONS, {0, 0, 1, level, 0, 0}, 0.7);
      put(c, ATTEST_LOCATIONS, {0, 0, 1, level, 1, 0}, 0.8);
      put(c, ATTEST_V, {0, 0, level * 63 + 3 * 7 + 1, 0}, kNan);
    }
    return count(c);
  };
  EXPECT_THAT(nan_in({0}), Contains("nan/v"));
  EXPECT_THAT(nan_in({0}), Not(Contains("nan/v/inner")));
  EXPECT_THAT(nan_in({1}), IsSupersetOf({"nan/v", "nan/v/inner"}));
  EXPECT_THAT(nan_in({0, 1}), Contains("nan/v/inner")) << "beside one of the first level";
  const DeformableCase everywhere = plain();
  put(everywhere, ATTEST_V, {0, 0, 3 * 7 + 1, 0}, kNan);
  EXPECT_THAT(count(everywhere), Not(Contains("nan/v"))) << "everything is NaN";
  DeformableCase cancels = plain(2);
  put(cancels, ATTEST_WEIGHTS, {0, 0, 0, 1, 0}, -0.95);
  EXPECT_THAT(count(cancels), Contains("cancels"));
  put(cancels, ATTEST_WEIGHTS, {0, 0, 0, 1, 0}, -0.2);
  EXPECT_THAT(count(cancels), Not(Contains("cancels")));
}

// What is said to be impossible is not counted.
TEST(DeformableEvents, AreAmongThoseThatAreListed) {
  for (const Shape& shape :
       {Shape{.seq_len_q = 40, .num_points = 1, .levels = {{1, 1}}, .align_corners = true},
        Shape{.seq_len_q = 1, .num_points = 2, .levels = {{4, 1}, {1, 9}}},
        Shape{.num_heads = 2, .seq_len_q = 61, .levels = {{12, 19}, {6, 10}, {3, 5}}}})
    for (const DType dtype : {ATTEST_F32, ATTEST_F16, ATTEST_BF16})
      for (const std::string& fill :
           deformable_operation().fills(DeformableCase(shape, dtype, {}).problem)) {
        const DeformableCase c(shape, dtype, {fill, 3});
        std::set<std::string> possible;
        for (const NumericEvent& event : deformable_events(c.problem))
          if (event.why_not.empty()) possible.insert(event.name);
        for (const std::string& name : count(c)) EXPECT_TRUE(possible.contains(name)) << name;
      }
}

}  // namespace
}  // namespace attest::core::deformable
