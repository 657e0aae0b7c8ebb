// Mistakes that implementations make. Each is another problem, or other inputs, for which a wrong
// output would be right: an output that passes there names its own bug.
#pragma once
#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "core/operations/operation.hpp"

namespace attest::core {

struct Mistake {
  std::string words;  // what comes after "as if": "softmax_scale were 1 / head_dim"
  Problem problem;    // its outputs have the specifications of the true problem
  Tensors inputs;     // of `problem`: those of the true problem, views of them, or in `storage`
  std::vector<std::vector<std::byte>> storage;
  // By row of the main output (leading 3): what it is multiplied by besides. Empty: nothing
  std::vector<double> row_factors = {};

  /// Leaves a tensor out.
  void drop(int32_t role);
  /// Replaces a tensor by its indices [begin, end) of one dim. Does nothing if it is absent, or if
  /// it has only one index there.
  void cut(int32_t role, int axis, int64_t begin, int64_t end);
  /// Replaces a tensor by one that has index `from[i]` of one dim at index i.
  void gather(int32_t role, int axis, const std::vector<int64_t>& from);
};

/// Applies `change` to a copy of `problem` and `inputs`, and adds the result if it is a valid
/// problem that differs from `problem`.
void add_mistake(std::vector<Mistake>& mistakes, std::string words, const Problem& problem,
                 const Tensors& inputs, const std::function<void(Mistake&)>& change);

}  // namespace attest::core
