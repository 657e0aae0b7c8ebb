#include "core/operations/linear/linear_arithmetic.hpp"

namespace attest::core {
namespace {

constexpr ArithmeticStage kLinearStages[] = {
    {ATTEST_LINEAR_FEATURES, "features", true, "qk"},
    {ATTEST_LINEAR_STATE, "state", false, "pv"},
    {ATTEST_LINEAR_ACCUMULATOR, "acc"},
};
constexpr ArithmeticWay kLinearWays[] = {{ATTEST_WEIGHS_PAIRS, "weighs-pairs"}};

}  // namespace

std::span<const ArithmeticStage> linear_stages() { return kLinearStages; }
std::span<const ArithmeticWay> linear_ways() { return kLinearWays; }

LinearArithmetic LinearArithmetic::of(const Arithmetic& arithmetic) {
  const auto dtype = [&](int stage) { return arithmetic.stage[size_t(stage)].dtype; };
  return {.features = dtype(ATTEST_LINEAR_FEATURES),
          .state = dtype(ATTEST_LINEAR_STATE),
          .accumulator = dtype(ATTEST_LINEAR_ACCUMULATOR),
          .output = arithmetic.output,
          .ways = arithmetic.ways,
          .exp_error = arithmetic.stage[ATTEST_LINEAR_FEATURES].rel_error,
          .sum_chain = arithmetic.sum_chain};
}

LinearArithmetic::operator Arithmetic() const {
  Arithmetic arithmetic{.output = output, .ways = ways, .sum_chain = sum_chain};
  arithmetic.stage[ATTEST_LINEAR_FEATURES] = {features, exp_error};
  arithmetic.stage[ATTEST_LINEAR_STATE].dtype = state;
  arithmetic.stage[ATTEST_LINEAR_ACCUMULATOR].dtype = accumulator;
  return arithmetic;
}

}  // namespace attest::core
