// Which products of a row round alike, for channels whose values are known.
#include "core/operations/softmax/golden/product_phases.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "core/tensor/random.hpp"

namespace attest::core {
namespace {

constexpr int64_t kKeys = 16'384, kStride = 8;

// Channels: 0 has one value in the first eighth of the keys, and what cancels it in the rest; 1 has
// opposite values in its halves; 2 has random values; 3 has those of channel 0, with random
// multiples of the ulp that its sums of every eighth key have, an eighth of that of its sum; the
// others have values of 0.
double value(int64_t key, int64_t channel) {
  if (channel == 3)
    return (key < kKeys / 8 ? 3.0 : -3.0 / 7) +
           0x1p-28 * double(kKeys) * double(random_below(5, uint64_t(key), 8));
  if (channel == 0) return key < kKeys / 8 ? 3.0093 : -3.0093 / 7;
  if (channel == 1) return key < kKeys / 2 ? 1.0031 : -1.0031;
  return channel == 2 ? double(random_normal(3, uint64_t(key))) : 0;
}

// The variances of a row of equal weights.
std::vector<double> variances(const SigmaModel& model) {
  std::vector<double> reach(kStride), squares(kStride), sum(kStride), sampled, found(kStride);
  for (int64_t key = 0; key < kKeys; ++key)
    for (int64_t c = 0; c < kStride; ++c) {
      const double product = value(key, c) / double(kKeys);
      sum[size_t(c)] += product;
      squares[size_t(c)] += product * product;
      reach[size_t(c)] = std::max(reach[size_t(c)], std::fabs(sum[size_t(c)]));
      if (is_sampled(uint32_t(key), ProductPhases::kStep)) sampled.push_back(value(key, c));
    }
  RowSums sums{};
  sums.reach = reach.data();
  sums.p2v2 = squares.data();
  sums.largest_v = 4.5;
  const auto count = int64_t(sampled.size()) / kStride;
  const std::vector<double> p(size_t(count), 1 / double(kKeys));
  ProductPhases products(kStride);
  products.start({.lse = std::log(double(kKeys)), .keys = kKeys}, sums, model);
  products.add(p.data(), sampled.data(), count);
  products.write(model, found.data());
  return found;
}

TEST(ProductPhases, ProductsOfTwoSizesThatCancelRoundAlike) {
  const SigmaModel model({}, ATTEST_F32, 4);
  const std::vector<double> found = variances(model);
  const double step = 0x1p-24 * double(kKeys) / 4 * 3.0093 / 8;
  EXPECT_GT(found[0], 0.5 * step * step);
  EXPECT_LT(found[0], 1.01 * step * step);
}

TEST(ProductPhases, OppositeProductsErrInOppositeDirections) {
  EXPECT_EQ(variances(SigmaModel({}, ATTEST_F32, 4))[1], 0);
}

TEST(ProductPhases, RandomProductsAndZerosDoNotRoundAlike) {
  for (const int64_t length : {0, 512}) {
    const std::vector<double> found = variances(SigmaModel({.sum_chain = length}, ATTEST_F32, 4));
    for (const size_t c : {2, 4, 5, 6, 7}) EXPECT_EQ(found[c], 0) << c;
  }
}

// The first of eight parts has the largest partial sum of the row.
TEST(ProductPhases, PartsOfNeighbouringKeysHaveTheirOwnUlps) {
  const double whole = variances(SigmaModel({}, ATTEST_F32, 4))[0],
               parts = variances(SigmaModel({.sum_chain = kKeys / 8}, ATTEST_F32, 4))[0];
  EXPECT_GT(parts, 5 * whole / 64);
  EXPECT_LT(parts, 10 * whole / 64);
}

// The ulp of a sum of every eighth key is finer than that of an eighth of the keys in a row.
TEST(ProductPhases, SumsOfScatteredKeysHaveTheirOwnUlps) {
  EXPECT_EQ(variances(SigmaModel({}, ATTEST_F32, 4))[3], 0);
  const double step = 0x1p-24 * double(kKeys / 8) / 4 * 3 / 8;
  EXPECT_GT(variances(SigmaModel({.sum_chain = kKeys / 8}, ATTEST_F32, 4))[3], 0.3 * step * step);
}

// Values on a grid lie alike where weights are 1, and do not where weights were divided by their
// sum, which is no power of two.
TEST(ProductPhases, WeightsMayBeDividedLater) {
  constexpr int64_t kAll = 20'011;
  const SigmaModel model({}, ATTEST_F32, 4);
  std::vector<double> sampled, reach(kStride), squares(kStride), found(kStride);
  double sum = 0, square = 0;
  for (int64_t key = 0; key < kAll; ++key) {
    const double v = double(random_below(7, uint64_t(key), 256)) / 256 - 0.498;
    sum += v / double(kAll);
    square += v * v / double(kAll * kAll);
    reach[0] = std::max(reach[0], std::fabs(sum));
    if (!is_sampled(uint32_t(key), ProductPhases::kStep)) continue;
    sampled.push_back(v);
    sampled.resize(sampled.size() + kStride - 1, 0.0);
  }
  squares[0] = square;
  RowSums sums{};
  sums.reach = reach.data();
  sums.p2v2 = squares.data();
  sums.largest_v = 0.5;
  const std::vector<double> p(sampled.size() / kStride, 1 / double(kAll));
  ProductPhases products(kStride);
  products.start({.lse = std::log(double(kAll)), .keys = kAll}, sums, model);
  products.add(p.data(), sampled.data(), int64_t(p.size()));
  products.write(model, found.data());
  const double step = 0x1p-24 * double(kAll) / 4 * reach[0];
  EXPECT_GT(found[0], 0.5 * step * step);
}

}  // namespace
}  // namespace attest::core
