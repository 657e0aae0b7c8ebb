#include "core/operations/softmax/arithmetic.hpp"

namespace attest::core {
namespace {

constexpr ArithmeticStage kStages[] = {
    {ATTEST_SOFTMAX_QK, "qk"},           {ATTEST_SOFTMAX_PV, "pv"},
    {ATTEST_SOFTMAX_SCORE, "score"},     {ATTEST_SOFTMAX_PROBABILITY, "prob", true},
    {ATTEST_SOFTMAX_ACCUMULATOR, "acc"},
};
constexpr ArithmeticWay kWays[] = {
    {ATTEST_P_NORMALISED_FIRST, "normalised-first"},
    {ATTEST_P_TRUNCATED, "truncated"},
    {ATTEST_SUMS_ROUNDED_P, "sums-rounded"},
    {ATTEST_WEIGHS_BY_LSE, "weighs-by-lse"},
};

}  // namespace

std::span<const ArithmeticStage> softmax_stages() { return kStages; }
std::span<const ArithmeticWay> softmax_ways() { return kWays; }

SoftmaxArithmetic SoftmaxArithmetic::of(const Arithmetic& arithmetic) {
  const auto dtype = [&](int stage) { return arithmetic.stage[size_t(stage)].dtype; };
  return {.qk = dtype(ATTEST_SOFTMAX_QK),
          .pv = dtype(ATTEST_SOFTMAX_PV),
          .score = dtype(ATTEST_SOFTMAX_SCORE),
          .probability = dtype(ATTEST_SOFTMAX_PROBABILITY),
          .accumulator = dtype(ATTEST_SOFTMAX_ACCUMULATOR),
          .output = arithmetic.output,
          .ways = arithmetic.ways,
          .exp_error = arithmetic.stage[ATTEST_SOFTMAX_PROBABILITY].rel_error,
          .sum_chain = arithmetic.sum_chain};
}

SoftmaxArithmetic::operator Arithmetic() const {
  Arithmetic arithmetic{.output = output, .ways = ways, .sum_chain = sum_chain};
  arithmetic.stage[ATTEST_SOFTMAX_QK].dtype = qk;
  arithmetic.stage[ATTEST_SOFTMAX_PV].dtype = pv;
  arithmetic.stage[ATTEST_SOFTMAX_SCORE].dtype = score;
  arithmetic.stage[ATTEST_SOFTMAX_PROBABILITY] = {probability, exp_error};
  arithmetic.stage[ATTEST_SOFTMAX_ACCUMULATOR].dtype = accumulator;
  return arithmetic;
}

}  // namespace attest::core
