// The stages of the gradients of softmax attention, by name.
#pragma once
#include <span>

#include "core/operations/arithmetic.hpp"

namespace attest::core {

/// What an implementation of the gradients declares: Arithmetic with a name for each stage.
struct BackwardArithmetic {
  DType score = ATTEST_F32, probability = ATTEST_F32, product = ATTEST_F32,
        accumulator = ATTEST_F32;
  DType output = ATTEST_F32;
  uint32_t ways = 0;
  double exp_error = 0;   // of exp
  int64_t sum_chain = 0;  // 0: as long as the sum itself

  static BackwardArithmetic of(const Arithmetic& arithmetic);
  operator Arithmetic() const;
  bool has(uint32_t way) const { return (ways & way) != 0; }
};

std::span<const ArithmeticStage> backward_stages();

}  // namespace attest::core
