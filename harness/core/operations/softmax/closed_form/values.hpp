// Writes the values of the codebook fills.
#pragma once
#include "core/operations/softmax/closed_form/codebook.hpp"

namespace attest::core {

/// Stores `values` as row `cell` of a head of Q, K or V.
void store_vector(const Tensor& tensor, int64_t head, Cell cell, const float* values);

/// NaN, Inf or -Inf, for keys of "huge" that no query sees.
float wild_value(uint64_t seed, uint64_t index);

/// Writes V: nearly normal multiples of 2^-15, as codebook.hpp describes for each fill. Keys that
/// no query sees have 1000, or wild_value.
void fill_values(const Problem& problem, const Codebook& book, const Tensors& tensors,
                 uint64_t seed);

}  // namespace attest::core
