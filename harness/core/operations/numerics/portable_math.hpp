// exp, log and tanh for the inputs of problems. Libraries differ in the last bits of these
// functions. These here use additions, multiplications and divisions of IEEE 754 only, in one
// order, so every machine gets the same bits.
#pragma once

namespace attest::core {

/// e^x, of any finite x. The relative error is at most 2^-51, above 1e-300.
double portable_exp(double x);
/// The natural logarithm of a normal number x > 0. The relative error is at most 2^-51.
double portable_log(double x);
/// tanh(x), of any finite x. The absolute error is at most 2^-51.
double portable_tanh(double x);

}  // namespace attest::core
