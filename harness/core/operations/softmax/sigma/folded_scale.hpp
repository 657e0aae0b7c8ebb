// Queries that are scaled before they are rounded to an operand: numbers of few bits times one
// constant.
#pragma once
#include "core/tensor/dtype.hpp"

namespace attest::core {

/// The mean relative error that x times the scale has when it is rounded to `operand`, with x of
/// dtype `stored`: the larger of those for the constants that kernels multiply by, which are scale,
/// scale log2(e) where the exp is one of base 2, and sqrt(scale) for both Q and K, whose errors add
/// up.
///
/// A number of 8 bits times a constant just below a power of two lies a little below a number of 8
/// bits, whatever it was, so that all of them round up, or all down: 0.99587 x moves bf16 numbers
/// by -0.38 of a roundoff on average, and the scores with them. For most constants the mean is near
/// 0, for powers of two it is 0, and so it is for x of more bits than enter the mean (12 and up).
double folded_scale_bias(double scale, DType stored, DType operand);

}  // namespace attest::core
