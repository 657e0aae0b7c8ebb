// The sizes of values, by the code of the key.
#pragma once
#include "core/operations/softmax/closed_form/codebook.hpp"

namespace attest::core {

/// Bound of |value| for random values, before a fill scales them.
inline constexpr double kLargestRandom = 4;

/// Bound of |value| for keys of that code.
double largest_value_of(const Codebook& book, int64_t key_code);

/// In the fill "rising", the values of a mark with that code are multiplied by 2^mark_exponent. The
/// exponent lies between 0 and 9. Some operands of PV cannot hold such values; goldens then accept
/// any average of the values in rows where such a mark has weight.
int mark_exponent(int64_t code);

/// The fill "rising" multiplies the values of other keys by this factor, so that the sum over all
/// keys of a row fits into an accumulator in f16.
float others_factor(const Codebook& book);

}  // namespace attest::core
