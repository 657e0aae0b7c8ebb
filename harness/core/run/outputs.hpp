// Outputs of a problem, whoever has computed them.
#pragma once
#include <string>

#include "core/operations/operation.hpp"

namespace attest::core {

/// The output that every problem of the operation has. Throws Error where there is none.
const TensorSpec& main_output(const Problem& problem);

/// 16 hexadecimal digits over the elements of all outputs of the problem, role by role.
std::string hash_outputs(const Problem& problem, const Tensors& tensors);

}  // namespace attest::core
