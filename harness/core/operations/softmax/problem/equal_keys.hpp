// Finds keys that are equal bit for bit. Their scores are equal, so their probabilities round
// alike.
#pragma once
#include "core/operations/equal_rows.hpp"
#include "core/operations/softmax/problem/geometry.hpp"

namespace attest::core {

/// The equal keys of one sequence and key head.
using EqualKeys = EqualRows;

EqualKeys find_equal_keys(const Tensor& k, const Geometry& geometry, int64_t b, int64_t kv_head);

}  // namespace attest::core
