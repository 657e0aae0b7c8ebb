#include "core/operations/softmax_backward/backward_arithmetic.hpp"

namespace attest::core {
namespace {

constexpr ArithmeticStage kBackwardStages[] = {
    {ATTEST_SOFTMAX_BACKWARD_SCORE, "score"},
    {ATTEST_SOFTMAX_BACKWARD_PROBABILITY, "prob", true},
    {ATTEST_SOFTMAX_BACKWARD_PRODUCT, "product", false, "pv"},
    {ATTEST_SOFTMAX_BACKWARD_ACCUMULATOR, "acc"},
};

}  // namespace

std::span<const ArithmeticStage> backward_stages() { return kBackwardStages; }

BackwardArithmetic BackwardArithmetic::of(const Arithmetic& arithmetic) {
  const auto dtype = [&](int stage) { return arithmetic.stage[size_t(stage)].dtype; };
  return {.score = dtype(ATTEST_SOFTMAX_BACKWARD_SCORE),
          .probability = dtype(ATTEST_SOFTMAX_BACKWARD_PROBABILITY),
          .product = dtype(ATTEST_SOFTMAX_BACKWARD_PRODUCT),
          .accumulator = dtype(ATTEST_SOFTMAX_BACKWARD_ACCUMULATOR),
          .output = arithmetic.output,
          .ways = arithmetic.ways,
          .exp_error = arithmetic.stage[ATTEST_SOFTMAX_BACKWARD_PROBABILITY].rel_error,
          .sum_chain = arithmetic.sum_chain};
}

BackwardArithmetic::operator Arithmetic() const {
  Arithmetic arithmetic{.output = output, .ways = ways, .sum_chain = sum_chain};
  arithmetic.stage[ATTEST_SOFTMAX_BACKWARD_SCORE].dtype = score;
  arithmetic.stage[ATTEST_SOFTMAX_BACKWARD_PROBABILITY] = {probability, exp_error};
  arithmetic.stage[ATTEST_SOFTMAX_BACKWARD_PRODUCT].dtype = product;
  arithmetic.stage[ATTEST_SOFTMAX_BACKWARD_ACCUMULATOR].dtype = accumulator;
  return arithmetic;
}

}  // namespace attest::core
