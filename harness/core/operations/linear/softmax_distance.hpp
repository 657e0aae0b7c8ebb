// How well linear attention stands in for softmax attention on given inputs.
#pragma once
#include <optional>

#include "core/operations/operation.hpp"

namespace attest::core {

/// Operation::distance_from_softmax of linear attention: its true outputs beside those of softmax
/// attention with scale 1 / sqrt(head_dim) and the same masks, in float64. At most kDistanceRows
/// rows are compared, spread over batch, heads and queries; masked queries are left out, and so
/// are rows with an output that is not finite.
std::optional<double> distance_from_softmax(const Problem& problem, const Tensors& inputs);

inline constexpr int64_t kDistanceRows = 16;

}  // namespace attest::core
