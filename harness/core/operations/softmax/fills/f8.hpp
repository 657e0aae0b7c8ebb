// Inputs in 8 bits, and their factors.
#pragma once
#include <string_view>

#include "core/operations/operation.hpp"

namespace attest::core {

inline constexpr std::string_view kF8BandsName = "f8_bands";

/// Writes Q_DESCALE, K_DESCALE and V_DESCALE: numbers from 0.5 to 1.6, none within 6 % of 1. Those
/// of neighbouring sequences, heads and blocks, and those of K and V, differ by 14 % at least.
void fill_factors(uint64_t seed, const Tensors& tensors);

/// Multiplies what Q, K and V with factors store, so that their largest numbers get the largest
/// codes, and divides the factors by as much: scaling by the largest number makes such codes and
/// factors. The numbers stay what they were but for their rounding to codes.
void scale_to_codes(const Tensors& tensors);

/// Makes the fill "f8_bands" of the fill "random" by writing Q, K and V anew. A channel of K or V
/// has numbers of one binade, and the channels together have every binade whose numbers times their
/// factors f16 holds, with that of subnormal numbers. The same channel of Q has the inverse size,
/// so that every channel shows in the scores.
void write_f8_bands(const Problem& problem, const Fill& fill, const Tensors& tensors);

}  // namespace attest::core
