// How large the values of keys are, by the code of the key.
#pragma once
#include "core/operations/softmax/closed_form/codebook.hpp"

namespace attest::core {

/// The largest that a random value is, before its fill scales it.
inline constexpr double kLargestRandom = 4;

/// What the values of keys of that code are at most in size.
double largest_value_of(const Codebook& book, int64_t key_code);

/// The power of two by which the fill "rising" scales the values of marks of that code. With ALiBi
/// there is no closed form that could leave out what an operand of PV cannot hold, so that values
/// stay below the 448 of e4m3; without it they go up to 2^9 times kLargestRandom.
int mark_exponent(const Codebook& book, int64_t code);

/// The factor by which the fill "rising" scales the values of keys that are no marks. A sum of all
/// that a row sees has to fit into an accumulator in f16.
float others_factor(const Codebook& book);

}  // namespace attest::core
