// Which addends of a sum round alike, of few addends and of more than are remembered.
#include "core/operations/softmax_backward/addend_sample.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <vector>

#include "core/tensor/random.hpp"

namespace attest::core::backward {
namespace {

/// The chance of a sum of one channel whose addends are those of `addend`.
double chance(int64_t count, const std::function<double(int64_t)>& addend) {
  std::vector<double> rows;
  double sum = 0, reach = 0;
  for (int64_t n = 0; n < count; ++n) {
    rows.push_back(addend(n));
    sum += rows.back();
    reach = std::max(reach, std::fabs(sum));
  }
  AddendSample sample;
  for (const double& row : rows) sample.add(1, &row, 1);
  return sample.chance(0, reach);
}
double noise(int64_t n) { return double(random_normal(3, uint64_t(n))); }

class AddendSampleOf : public ::testing::TestWithParam<int64_t> {};

TEST_P(AddendSampleOf, NearlyEqualAddends) {
  EXPECT_NEAR(chance(GetParam(), [](int64_t) { return 0.7; }), 1, 1e-3);
  EXPECT_NEAR(chance(GetParam(), [](int64_t n) { return 0.7 + 1e-8 * noise(n); }), 1, 1e-2);
}
TEST_P(AddendSampleOf, AddendsOfWhichHalfAreNearlyEqual) {
  EXPECT_NEAR(chance(GetParam(), [](int64_t n) { return n % 2 ? 0.7 : 2 + noise(n); }), 0.3, 0.1);
}
TEST_P(AddendSampleOf, AddendsThatLieAnywhere) {
  EXPECT_LT(chance(GetParam(), noise), 0.02);
  EXPECT_LT(chance(GetParam(), [](int64_t n) { return 1 + 0.1 * noise(n); }), 0.02);
}
TEST_P(AddendSampleOf, AddendsOfBothSigns) {
  EXPECT_LT(chance(GetParam(), [](int64_t n) { return n % 2 ? 0.7 : -0.7; }), 0.02);
}
// They are lost, but err by no more than themselves.
TEST_P(AddendSampleOf, AddendsFarBelowAnUlp) {
  EXPECT_LT(chance(GetParam(), [](int64_t n) { return n == 0 ? 1 : 1e-12; }), 1e-6);
  EXPECT_GT(chance(GetParam(), [](int64_t n) { return n == 0 ? 1 : 0.9 * 0x1p-24; }), 0.2);
}

INSTANTIATE_TEST_SUITE_P(Sums, AddendSampleOf, ::testing::Values(400, 4000, 100'000));

TEST(AddendSample, CountsRepeatedAddendsOfAClass) {
  const double rows[] = {0.7, 0.31, -0.7};
  AddendSample sample;
  sample.add(1, &rows[0], 500);
  sample.add(1, &rows[1], 500);
  EXPECT_GT(sample.chance(0, 500), 0.4);
  sample.clear();
  sample.add(1, &rows[0], 500);
  sample.add(1, &rows[2], 500);
  EXPECT_EQ(sample.chance(0, 500), 0);
}

TEST(AddendSample, LeavesOutWhatIsNoNumber) {
  const double rows[] = {0.7, NAN, INFINITY, 0.7};
  AddendSample sample;
  for (const double& row : rows) sample.add(1, &row, 10);
  EXPECT_NEAR(sample.chance(0, 14), 1, 1e-3);
  EXPECT_EQ(sample.chance(0, NAN), 0);
  EXPECT_EQ(sample.chance(0, 0), 0);
}

}  // namespace
}  // namespace attest::core::backward
