// Keys that are equal, bit for bit: their scores are equal, so their probabilities round alike.
#pragma once
#include <cstdint>
#include <vector>

#include "core/operations/softmax/geometry.hpp"

namespace attest::core {

/// Places of one sequence and key head whose key occurs at least twice, sorted by group, then by place.
struct EqualKeys {
  std::vector<int32_t> place, group;
};

/// By 64-bit hashes of the rows of K: O(length head_dim).
EqualKeys find_equal_keys(const Tensor& k, const Geometry& geometry, int64_t b, int64_t kv_head);

}  // namespace attest::core
