// The outputs of a problem, whichever program computed them, and the size of its tensors.
#pragma once
#include <string>

#include "core/operations/operation.hpp"

namespace attest::core {

/// The output that every problem of the operation has. Throws Error if the operation has none.
const TensorSpec& main_output(const Problem& problem);

/// A hash of all outputs of the problem, as 16 hexadecimal digits.
std::string hash_outputs(const Problem& problem, const Tensors& tensors);

/// The number of elements of all tensors of the problem.
int64_t tensor_elements(const Problem& problem);

}  // namespace attest::core
