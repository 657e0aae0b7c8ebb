// Finite biases that hide: programs write the lowest number of a type, or some -10,000, where
// others write -inf. In the fill "random".
#pragma once
#include <cstdint>

#include "core/operations/operation.hpp"

namespace attest::core {

/// Writes BIAS of inputs that are complete otherwise.
///
/// A bias of pairs gets three kinds of rows, each one in 16 (in 4, of fewer than 32 rows): biases
/// are -40,960 and -40,704 in turn; the first three quarters of the row's keys have the lowest
/// finite number; one key in 8 has it. In a bias of keys one key in 16 has the lowest number, and,
/// where all rows see the same keys, the first half of them, 256 at most. A bias of rows gets
/// -40,960 alone.
///
/// No row sees the lowest number alone: float32 cannot tell what is added to it, and times log2(e)
/// it is -inf, so that honest kernels differ. Twice as large as -40,960 would overflow scores in
/// f16.
void write_finite_biases(const Problem& problem, const Tensors& tensors);

}  // namespace attest::core
