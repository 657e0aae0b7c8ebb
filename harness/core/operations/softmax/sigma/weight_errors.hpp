// What the probabilities of a row err by because they are rounded.
#pragma once
#include <cstdint>

#include "core/operations/softmax/sigma/sigma.hpp"

namespace attest::core {

/// How many maxima a golden tries for each row. The maximum by which a kernel divides p decides to
/// which side p is rounded, and an online softmax has met other maxima before the last one. Those
/// that are tried lie within one step between numbers.
inline constexpr int kTriedMaxima = 4;
/// Returns the number by which a kernel that has met maximum `n` divides each p before it rounds
/// it. `kappa`: SigmaModel::kappa.
double unit_beside(const SigmaModel& model, double kappa, int n);

/// Finds the errors of `count` probabilities. A kernel divides each of them by `unit` before it
/// rounds it. `of_normaliser` [count] gets the errors of p, and `of_operands` [count] those of the
/// numbers that PV multiplies, which may be rounded a second time. A hidden key has a p of 0, and
/// no error. All errors are 0 if nothing is rounded.
void find_weight_errors(const SigmaModel& model, double unit, const double* p, int64_t count,
                        double* of_normaliser, double* of_operands);

}  // namespace attest::core
