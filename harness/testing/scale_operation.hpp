// The private operation `scale`, y = factor * x: as small as an operation can be. Another private
// operation beside it needs a number of its own, from ATTEST_PRIVATE on.
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
