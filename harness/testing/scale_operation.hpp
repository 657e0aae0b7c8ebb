// A private operation, y = factor * x: proves that an operation needs nothing but its own room, and
// serves as the smallest problem there is in tests of the judge and the runner.
#pragma once
#include "core/operations/operation.hpp"

namespace attest::testing {

inline constexpr int32_t kScale = ATTEST_PRIVATE;
enum : int32_t { kX = ATTEST_OWN, kY };  // [rows, width] each
enum : int32_t { kOperand };             // the stages: x before it is multiplied

struct ScaleParams {
  uint32_t struct_size;
  float factor;
  int64_t rows, width;
};

/// Registers the operation once and returns it.
const core::Operation& scale_operation();

/// rows x width, factor 3.
core::Problem scale_problem(int64_t rows, int64_t width, core::DType dtype = ATTEST_F32);

}  // namespace attest::testing
