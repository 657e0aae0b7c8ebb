#include "core/inputs/scene.hpp"

#include <gtest/gtest.h>

#include <cmath>

#include "core/inputs/trig.hpp"
#include "core/tensor/tensor.hpp"

namespace attest::core {
namespace {

uint64_t hash_of(const PointCloud& cloud) {
  uint64_t hash = 0;
  for (const auto* values : {&cloud.x, &cloud.y, &cloud.z, &cloud.intensity})
    hash = hash_bytes(values->data(), values->size() * sizeof(float), hash);
  return hash;
}

// A change of these numbers changes the inputs of every recorded run without a file: compare across
// releases breaks.
TEST(SyntheticSweep, HasTheSameBytesEverywhere) {
  const PointCloud cloud = synthetic_sweep();
  EXPECT_EQ(cloud.size(), 220333u);
  EXPECT_EQ(hex(hash_of(cloud)), "0197a437605ab1c8");
  EXPECT_NE(hash_of(synthetic_sweep(2)), hash_of(cloud));
}

TEST(SyntheticSweep, LooksLikeASweep) {
  for (uint64_t seed = 1; seed < 5; ++seed) {
    const PointCloud cloud = synthetic_sweep(seed);
    ASSERT_GE(cloud.size(), 100000u);
    ASSERT_EQ(cloud.intensity.size(), cloud.size());
    std::array<int, 4> within{};  // returns below 10, 20, 40, 80 m
    for (size_t i = 0; i < cloud.size(); ++i) {
      const double range =
          std::sqrt(double(cloud.x[i]) * cloud.x[i] + double(cloud.y[i]) * cloud.y[i] +
                    double(cloud.z[i]) * cloud.z[i]);
      ASSERT_LE(range, 201);
      ASSERT_GE(cloud.z[i], -2.2f) << "below the road";
      ASSERT_TRUE(cloud.intensity[i] >= 0 && cloud.intensity[i] <= 1);
      for (size_t k = 0; k < 4; ++k) within[k] += range < double(10 << k);
    }
    // Points a metre of range fall off by more than half at every doubling.
    for (size_t k = 1; k + 1 < 4; ++k)
      EXPECT_LT(within[k + 1] - within[k], within[k] - within[k - 1]) << "seed " << seed;
    EXPECT_LT(within[3], int(cloud.size())) << "some returns are far";
  }
}

TEST(SinCosTurns, AgreesWithTheMathLibrary) {
  for (double turns = -3; turns < 3; turns += 0.0137) {
    const SinCos wave = sin_cos_turns(turns);
    EXPECT_NEAR(wave.sin, std::sin(2 * M_PI * turns), 1e-13);
    EXPECT_NEAR(wave.cos, std::cos(2 * M_PI * turns), 1e-13);
  }
  EXPECT_EQ(sin_cos_turns(0.25).sin, 1);
  EXPECT_EQ(sin_cos_turns(0.5).sin, 0);
}

}  // namespace
}  // namespace attest::core
