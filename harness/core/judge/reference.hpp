// The reference against outputs that others computed: is our golden what everybody else's is?
#pragma once
#include <span>
#include <string>

#include "core/judge/check.hpp"

namespace attest::core {

/// How far the reference may be from a vector's output: |difference| / max(1, |output|), by the
/// dtype that the output was stored in. The vectors' own rounding and their float32 arithmetic
/// account for it; it never judges an implementation.
double reference_tolerance(DType dtype);

/// The golden's output of that role against `expected`, whose dims are the role's. All that differs
/// is error:reference. `partial`: what is NaN in `expected` is not compared.
Judgement compare_golden(const Problem& problem, const Golden& golden, int32_t role,
                         const Tensor& expected, double tolerance, bool partial = false);
/// Numbers in the order of the dims of `expected` against it. `name` is for the message.
Judgement compare_values(std::span<const double> values, const Tensor& expected,
                         const std::string& name, double tolerance);

}  // namespace attest::core
