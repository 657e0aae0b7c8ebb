#include "core/operations/softmax_backward/backward_arithmetic.hpp"

namespace attest::core {
namespace {

constexpr ArithmeticStage kBackwardStages[] = {
    {ATTEST_SOFTMAX_BACKWARD_SCORE, "score"},
    {ATTEST_SOFTMAX_BACKWARD_PROBABILITY, "prob", true},
    {ATTEST_SOFTMAX_BACKWARD_PRODUCT, "product", false, "pv"},
    {ATTEST_SOFTMAX_BACKWARD_ACCUMULATOR, "acc"},
    {ATTEST_SOFTMAX_BACKWARD_QK, "qk"},
    {ATTEST_SOFTMAX_BACKWARD_OPERAND, "operand", false, "pv"},
    {ATTEST_SOFTMAX_BACKWARD_DELTA, "delta"},
};

}  // namespace

std::span<const ArithmeticStage> backward_stages() { return kBackwardStages; }

BackwardArithmetic BackwardArithmetic::of(const Arithmetic& arithmetic) {
  const auto dtype = [&](int stage) { return arithmetic.stage[size_t(stage)].dtype; };
  return {.score = dtype(ATTEST_SOFTMAX_BACKWARD_SCORE),
          .probability = dtype(ATTEST_SOFTMAX_BACKWARD_PROBABILITY),
          .product = dtype(ATTEST_SOFTMAX_BACKWARD_PRODUCT),
          .accumulator = dtype(ATTEST_SOFTMAX_BACKWARD_ACCUMULATOR),
          .qk = dtype(ATTEST_SOFTMAX_BACKWARD_QK),
          .operand = dtype(ATTEST_SOFTMAX_BACKWARD_OPERAND),
          .delta = dtype(ATTEST_SOFTMAX_BACKWARD_DELTA),
          .output = arithmetic.output,
          .ways = arithmetic.ways,
          .exp_error = arithmetic.stage[ATTEST_SOFTMAX_BACKWARD_PROBABILITY].rel_error,
          .sum_chain = arithmetic.sum_chain};
}

BackwardArithmetic BackwardArithmetic::of(const Arithmetic& arithmetic, const Problem& problem) {
  BackwardArithmetic declared = of(arithmetic);
  if (is_f8(declared.qk) && declared.qk == problem.tensor[ATTEST_Q].dtype) declared.qk = ATTEST_F32;
  return declared;
}

BackwardArithmetic::operator Arithmetic() const {
  Arithmetic arithmetic{.output = output, .ways = ways, .sum_chain = sum_chain};
  arithmetic.stage[ATTEST_SOFTMAX_BACKWARD_SCORE].dtype = score;
  arithmetic.stage[ATTEST_SOFTMAX_BACKWARD_PROBABILITY] = {probability, exp_error};
  arithmetic.stage[ATTEST_SOFTMAX_BACKWARD_PRODUCT].dtype = product;
  arithmetic.stage[ATTEST_SOFTMAX_BACKWARD_ACCUMULATOR].dtype = accumulator;
  arithmetic.stage[ATTEST_SOFTMAX_BACKWARD_QK].dtype = qk;
  arithmetic.stage[ATTEST_SOFTMAX_BACKWARD_OPERAND].dtype = operand;
  arithmetic.stage[ATTEST_SOFTMAX_BACKWARD_DELTA].dtype = delta;
  return arithmetic;
}

}  // namespace attest::core
