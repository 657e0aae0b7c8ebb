#include "core/operations/deformable/deformable_arithmetic.hpp"

namespace attest::core {
namespace {

constexpr ArithmeticStage kDeformableStages[] = {
    {ATTEST_DEFORMABLE_LOCATION, "location"},
    {ATTEST_DEFORMABLE_WEIGHT, "weight"},
    {ATTEST_DEFORMABLE_PRODUCT, "product", false, "pv"},
    {ATTEST_DEFORMABLE_ACCUMULATOR, "acc"},
};
constexpr ArithmeticWay kDeformableWays[] = {{ATTEST_LOCATES_ON_GRID, "locates-on-grid"}};

}  // namespace

std::span<const ArithmeticStage> deformable_stages() { return kDeformableStages; }
std::span<const ArithmeticWay> deformable_ways() { return kDeformableWays; }

DeformableArithmetic DeformableArithmetic::of(const Arithmetic& arithmetic) {
  const auto dtype = [&](int stage) { return arithmetic.stage[size_t(stage)].dtype; };
  return {.location = dtype(ATTEST_DEFORMABLE_LOCATION),
          .weight = dtype(ATTEST_DEFORMABLE_WEIGHT),
          .product = dtype(ATTEST_DEFORMABLE_PRODUCT),
          .accumulator = dtype(ATTEST_DEFORMABLE_ACCUMULATOR),
          .output = arithmetic.output,
          .ways = arithmetic.ways,
          .sum_chain = arithmetic.sum_chain};
}

DeformableArithmetic::operator Arithmetic() const {
  Arithmetic arithmetic{.output = output, .ways = ways, .sum_chain = sum_chain};
  arithmetic.stage[ATTEST_DEFORMABLE_LOCATION].dtype = location;
  arithmetic.stage[ATTEST_DEFORMABLE_WEIGHT].dtype = weight;
  arithmetic.stage[ATTEST_DEFORMABLE_PRODUCT].dtype = product;
  arithmetic.stage[ATTEST_DEFORMABLE_ACCUMULATOR].dtype = accumulator;
  return arithmetic;
}

}  // namespace attest::core
