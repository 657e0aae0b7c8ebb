// Which addends of a sum round alike, of few addends and of more than are remembered.
#include "core/operations/softmax_backward/addend_sample.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <vector>

#include "core/tensor/random.hpp"

namespace attest::core::backward {
namespace {

double chance_of(const AddendSample& sample, double reach) {
  double chance = NAN;
  sample.find_chances({&reach, 1}, {&chance, 1});
  return chance;
}
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
  return chance_of(sample, reach);
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

/// The error of a float32 chain over its gate, which GradientSum makes of the chance.
double gates(int64_t count, const std::function<double(int64_t)>& addend,
             size_t most = AddendSample::kMost) {
  std::vector<double> rows;
  double sum = 0, reach = 0;
  float chain = 0;
  for (int64_t n = 0; n < count; ++n) {
    const auto rounded = float(addend(n));
    rows.push_back(double(rounded));
    sum += rows.back();
    chain += rounded;
    reach = std::max(reach, std::fabs(sum));
  }
  AddendSample sample(most);
  for (const double& row : rows) sample.add(1, &row, 1);
  const auto all = double(count);
  const double pairs = std::min(chance_of(sample, reach) * all * all / 3, all * all / 36);
  return std::fabs(double(chain) - sum) / (6 * 0x1p-24 * reach * std::sqrt(all / 3 + pairs));
}

// Pixels of 8 bits beside an offset that is none of theirs: their distances are whole ulps of the
// sum, which is a power of two, where the weight is.
TEST(AddendSample, KnowsAddendsOnAGrid) {
  for (const int64_t count : {4099, 20'000, 65'536, 120'000})
    for (const double weight : {0.25, 1. / 12}) {
      const auto pixel = [&](int64_t n) {
        const auto code = double(78 + random_below(9, uint64_t(n), 100));
        return double(float(weight)) * double(float(code / 256 + 0.002));
      };
      EXPECT_LT(gates(count, pixel), 0.7) << count << " of " << weight;
    }
}

// The sum ends at 1.4 times 2^14. That of a kernel that multiplies addends by 1.43 ends at 2^15,
// and its ulp divides their distances.
TEST(AddendSample, KnowsAddendsThatLieAlikeInASumThatIsScaled) {
  constexpr double kCount = 20'000, kMean = 1.4 * 0x1p14 / kCount, kUlp = kCount * kMean * 0x1p-23;
  const double found = chance(int64_t(kCount), [](int64_t n) {
    return kMean + kUlp * (double(random_below(9, uint64_t(n), 64)) - 31.5);
  });
  EXPECT_GT(found, 0.9);
}

// However few are alike, and however many are remembered.
TEST(AddendSample, KnowsFewNearlyEqualAddendsOfMany) {
  for (const size_t most : {AddendSample::kMost, size_t{2048}})
    for (const int64_t count : {20'000, 120'000, 400'000})
      for (const double share : {0.02, 0.04, 0.05, 0.1, 0.2, 0.3})
        for (const double spread : {1e-7, 1e-5})
          for (const double flat : {0.9, 1.0031}) {
            const auto mixed = [&](int64_t n) {
              const auto at = uint64_t(n);
              return double(random_uniform(5, at)) < share
                         ? flat * (1 + spread * double(random_normal(6, at)))
                         : 1 + 0.3 * noise(n);
            };
            EXPECT_LT(gates(count, mixed, most), 1)
                << count << " addends, " << share << " near " << flat << " by " << spread << ", "
                << most << " remembered";
          }
}

TEST(AddendSample, CountsRepeatedAddendsOfAClass) {
  const double rows[] = {0.7, 0.31, -0.7};
  AddendSample sample;
  sample.add(1, &rows[0], 500);
  sample.add(1, &rows[1], 500);
  EXPECT_GT(chance_of(sample, 500), 0.4);
  sample.clear();
  sample.add(1, &rows[0], 500);
  sample.add(1, &rows[2], 500);
  EXPECT_EQ(chance_of(sample, 500), 0);
}

// Channels are looked at in vectors, and sums of many addends in a sample first.
TEST(AddendSample, KnowsEachOfManyChannels) {
  for (const size_t count : {500, 3000}) {
    constexpr size_t kChannels = 13;
    std::vector<double> rows(count * kChannels), chances(kChannels), reach(kChannels);
    AddendSample sample;
    for (size_t n = 0; n < count; ++n) {
      double* row = &rows[n * kChannels];
      for (size_t c = 0; c < kChannels; ++c) {
        row[c] = c % 3 == 0 ? 0.7 : 1 + 0.1 * noise(int64_t(n * kChannels + c));
        reach[c] += row[c];
      }
      sample.add(1, row, 1);
    }
    reach[6] = 0;  // has no sum
    sample.find_chances(reach, chances);
    for (size_t c = 0; c < kChannels; ++c)
      EXPECT_NEAR(chances[c], c % 3 == 0 && c != 6 ? 1 : 0, 0.03) << count << ", channel " << c;
  }
}

TEST(AddendSample, LeavesOutWhatIsNoNumber) {
  const double rows[] = {0.7, NAN, INFINITY, 0.7};
  AddendSample sample;
  for (const double& row : rows) sample.add(1, &row, 10);
  EXPECT_NEAR(chance_of(sample, 14), 1, 1e-3);
  EXPECT_EQ(chance_of(sample, NAN), 0);
  EXPECT_EQ(chance_of(sample, 0), 0);
}

}  // namespace
}  // namespace attest::core::backward
