// The stages of deformable attention, by name.
#pragma once
#include <span>

#include "core/operations/arithmetic.hpp"

namespace attest::core {

/// What an implementation of deformable attention declares: Arithmetic with a name for each stage.
struct DeformableArithmetic {
  DType location = ATTEST_F32, weight = ATTEST_F32, product = ATTEST_F32, accumulator = ATTEST_F32;
  DType output = ATTEST_F32;
  uint32_t ways = 0;
  int64_t sum_chain = 0;  // 0: one addition for each pixel of each point

  static DeformableArithmetic of(const Arithmetic& arithmetic);
  operator Arithmetic() const;
  bool has(uint32_t way) const { return (ways & way) != 0; }
};

std::span<const ArithmeticStage> deformable_stages();
std::span<const ArithmeticWay> deformable_ways();

}  // namespace attest::core
