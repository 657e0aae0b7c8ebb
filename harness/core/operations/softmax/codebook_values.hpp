// Values of the codebook fills.
#pragma once
#include "core/operations/softmax/codebook.hpp"

namespace attest::core {

/// Stores `values` as row `cell` of a head of Q, K or V.
void store_vector(const Tensor& tensor, int64_t head, Cell cell, const float* values);

/// Writes V: nearly normal multiples of 2^-15 in random order, or such that they cancel; 1000 where nobody sees the key.
void fill_values(const Problem& problem, const Codebook& book, const Tensors& tensors, uint64_t seed);

}  // namespace attest::core
