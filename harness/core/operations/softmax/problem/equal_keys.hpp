// Keys that are equal, bit for bit: their scores are equal, so their probabilities round alike.
#pragma once
#include "core/operations/equal_rows.hpp"
#include "core/operations/softmax/problem/geometry.hpp"

namespace attest::core {

/// Of one sequence and key head.
using EqualKeys = EqualRows;

EqualKeys find_equal_keys(const Tensor& k, const Geometry& geometry, int64_t b, int64_t kv_head);

}  // namespace attest::core
