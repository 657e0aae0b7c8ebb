// Inputs in 8 bits, and their factors.
#pragma once
#include <string_view>

#include "core/operations/operation.hpp"

namespace attest::core {

inline constexpr std::string_view kF8BandsName = "f8_bands";

/// Writes Q_DESCALE, K_DESCALE and V_DESCALE: numbers from 0.5 to 1.6, none within 6 % of 1. Those
/// of neighbouring sequences, heads and blocks, and those of K and V, differ by 14 % at least.
void fill_factors(uint64_t seed, const Tensors& tensors);

/// The fill "f8_bands": what it writes over that of "random". All numbers of a channel of K, and of
/// one of V, are of one binade, and channels have all binades, that of subnormal numbers included.
/// Those of Q are of the inverse of K's, so that every channel shows in the scores.
void write_f8_bands(const Problem& problem, const Fill& fill, const Tensors& tensors);

}  // namespace attest::core
