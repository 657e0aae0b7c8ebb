// What the probabilities of a row err by because they are rounded.
#pragma once
#include <cstdint>

#include "core/operations/softmax/sigma/sigma.hpp"

namespace attest::core {

/// To which side p round depends on the maximum by which a kernel divides, and an online softmax
/// has met others before the last. So many maxima are tried, over one step between numbers.
inline constexpr int kTriedMaxima = 4;
/// A kernel that has met maximum `n` divides p by this number before it rounds them. `kappa`:
/// SigmaModel::kappa.
double unit_beside(const SigmaModel& model, double kappa, int n);

/// The errors of `count` probabilities that are divided by `unit` before they are rounded. Hidden
/// keys have 0. `of_normaliser` are those of p, `of_operands` those of what PV multiplies, which
/// may be rounded again. Both, [count], are 0 where nothing is rounded.
void find_weight_errors(const SigmaModel& model, double unit, const double* p, int64_t count,
                        double* of_normaliser, double* of_operands);

}  // namespace attest::core
