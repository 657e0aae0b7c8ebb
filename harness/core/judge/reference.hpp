// Compares the reference with outputs that other projects computed.
#pragma once
#include <span>
#include <string>

#include "core/judge/check.hpp"

namespace attest::core {

/// How far the reference may be from a vector's output: |difference| / max(1, |output|). It depends
/// on the dtype in which the vector stores the output, and allows for the vector's rounding and
/// float32 arithmetic. It never judges an implementation.
double reference_tolerance(DType dtype);

/// Compares the golden's output of that role with `expected`, which has the role's dims. A
/// difference is error:reference. `partial`: elements that are NaN in `expected` are not compared.
Judgement compare_golden(const Problem& problem, const Golden& golden, int32_t role,
                         const Tensor& expected, double tolerance, bool partial = false);
/// Compares `values`, in the order of the dims of `expected`, with `expected`. Messages call them
/// `name`.
Judgement compare_values(std::span<const double> values, const Tensor& expected,
                         const std::string& name, double tolerance);

}  // namespace attest::core
