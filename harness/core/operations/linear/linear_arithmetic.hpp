// The stages of linear attention, by name.
#pragma once
#include <span>

#include "core/operations/arithmetic.hpp"

namespace attest::core {

/// What an implementation of linear attention declares: Arithmetic with a name for each stage.
struct LinearArithmetic {
  DType features = ATTEST_F32, state = ATTEST_F32, accumulator = ATTEST_F32;
  DType output = ATTEST_F32;
  uint32_t ways = 0;
  double exp_error = 0;   // of the features' exp, relative
  int64_t sum_chain = 0;  // 0: as long as the sum itself

  static LinearArithmetic of(const Arithmetic& arithmetic);
  operator Arithmetic() const;
  bool has(uint32_t way) const { return (ways & way) != 0; }
};

std::span<const ArithmeticStage> linear_stages();
std::span<const ArithmeticWay> linear_ways();

}  // namespace attest::core
