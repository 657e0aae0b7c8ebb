// Variants of a problem have the same shape and differ in one thing. A plugin that caches plans
// under a key without that thing confuses them.
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
  std::string name;  // "scale", "strides", "mask", "second window_left", "dtype f16", "lengths"
  Problem problem;
  std::function<void(const Tensors&)>
      change;  // applied to the inputs after fill "random" wrote them; may be empty
};

/// The variants of every operation: other strides (padded rows; dense ones if the problem has
/// strides) and each other dtype.
std::vector<Variant> common_variants(const Problem& problem);

/// Applies `change` to a copy of `problem` and adds the result, if it is valid and differs from
/// `problem`. `change_inputs` becomes Variant::change.
void add_variant(std::vector<Variant>& variants, std::string name, const Problem& problem,
                 const std::function<void(Problem&)>& change,
                 std::function<void(const Tensors&)> change_inputs = {});

}  // namespace attest::core
