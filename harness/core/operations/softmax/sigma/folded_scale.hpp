// The bias of queries that are scaled before they are rounded to an operand.
#pragma once
#include "core/tensor/dtype.hpp"

namespace attest::core {

/// The mean relative error of x times a constant, rounded to `operand`, for x of dtype `stored`. It
/// is the largest over the constants that kernels use: scale; scale log2(e), for an exp to the base
/// of 2; and sqrt(scale) on both Q and K, whose errors add up.
///
/// A mantissa of 8 bits times a constant just below a power of two is a little below another
/// mantissa of 8 bits. So all products round in the same direction: rounding 0.99587 x moves bf16
/// numbers by -0.38 of a roundoff on average, and moves the scores with them. For most constants
/// the mean is near 0. For powers of two, and for x with 12 bits or more, it is 0.
double folded_scale_bias(double scale, DType stored, DType operand);

}  // namespace attest::core
