// The fill "wild" of problems with few queries, such as decoding: every query head has one thing
// that is NaN or infinite, and the last head has the values. If there are too few heads, the rest
// is in further rounds, "wild_2", "wild_3" and so on.
#pragma once
#include <cstdint>

#include "core/operations/softmax/problem/geometry.hpp"

namespace attest::core {

/// Returns whether write_wild_few makes the inputs of "wild", and not write_wild_ends.
bool has_few_wild_rows(const Problem& problem);
/// Writes NaN and infinities into sequence b of Q, K and V, those of a round.
void write_wild_few(const Problem& problem, const Tensors& tensors, const Geometry& geometry,
                    int64_t b, int64_t round);

}  // namespace attest::core
