// Variants of a problem: of the same shape, but for one thing that a cache of plans, keyed too
// coarsely, may forget.
//
//   // {"scale", the same problem with half the softmax_scale} ...
//   for (const Variant& variant : problem.operation->variants(problem)) ...
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "core/operations/operation.hpp"

namespace attest::core {

struct Variant {
  std::string name;  // "scale", "strides", "mask", "window", "dtype f16", "num_kv_heads", "lengths"
  Problem problem;
  std::function<void(const Tensors&)>
      change;  // of the inputs that fill "random" wrote; may be empty
};

/// What every operation has: other strides (padded rows, or dense ones where the problem has
/// strides), each other dtype.
std::vector<Variant> common_variants(const Problem& problem);

/// Adds the problem that `change` makes of `problem`, whose other specifications stay, if it is a
/// valid one and another one.
void add_variant(std::vector<Variant>& variants, std::string name, const Problem& problem,
                 const std::function<void(Problem&)>& change,
                 std::function<void(const Tensors&)> change_inputs = {});

}  // namespace attest::core
