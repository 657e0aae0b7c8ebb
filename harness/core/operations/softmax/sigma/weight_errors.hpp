// What the probabilities of a row err by because they are rounded.
#pragma once
#include <cstdint>

#include "core/operations/softmax/sigma/sigma.hpp"

namespace attest::core {

/// How many maxima a golden tries for each row. A kernel divides p by a maximum before it rounds p,
/// so the maximum decides whether p is rounded up or down. An online softmax also rounds by maxima
/// that it met before the last one. The tried maxima lie within one step between numbers.
inline constexpr int kTriedMaxima = 4;
/// Returns the divisor of p: a kernel divides each p by it and then rounds the quotient. `n` counts
/// the tried maxima, from 0 to kTriedMaxima - 1. `kappa`: SigmaModel::kappa.
double unit_beside(const SigmaModel& model, double kappa, int n);

/// Finds the errors of `count` probabilities. A kernel divides each of them by `unit` before it
/// rounds it. `of_normaliser` [count] gets the errors of p, and `of_operands` [count] those of the
/// numbers that PV multiplies, which may be rounded a second time. A hidden key has a p of 0, and
/// no error. All errors are 0 if nothing is rounded.
void find_weight_errors(const SigmaModel& model, double unit, const double* p, int64_t count,
                        double* of_normaliser, double* of_operands);

}  // namespace attest::core
