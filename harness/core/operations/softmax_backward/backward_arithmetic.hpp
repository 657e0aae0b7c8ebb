// The stages of the gradients of softmax attention, by name.
#pragma once
#include <span>

#include "core/operations/operation.hpp"

namespace attest::core {

/// What an implementation of the gradients declares: Arithmetic with a name for each stage.
struct BackwardArithmetic {
  DType score = ATTEST_F32, probability = ATTEST_F32, product = ATTEST_F32,
        accumulator = ATTEST_F32, qk = ATTEST_F32, operand = ATTEST_F32, delta = ATTEST_F32;
  DType output = ATTEST_F32;
  uint32_t ways = 0;
  double exp_error = 0;   // of exp
  int64_t sum_chain = 0;  // 0: as long as the sum itself

  static BackwardArithmetic of(const Arithmetic& arithmetic);
  /// As it multiplies the Q and K of a problem. If QK is declared in the 8 bits in which they are
  /// stored, nothing is rounded before q.k, so that it counts as float32.
  static BackwardArithmetic of(const Arithmetic& arithmetic, const Problem& problem);
  operator Arithmetic() const;
  bool has(uint32_t way) const { return (ways & way) != 0; }
};

std::span<const ArithmeticStage> backward_stages();

}  // namespace attest::core
