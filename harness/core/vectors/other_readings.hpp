// What the author of a file of tensors may have meant: the same tensors under another description.
#pragma once
#include <map>
#include <string>
#include <vector>

#include "core/vectors/test_vector.hpp"

namespace attest::core {

/// Another description: values for some of its keys.
struct OtherReading {
  std::string words;                        // as the user gives it: "--params causal"
  std::map<std::string, std::string> keys;  // {"params", "causal"}
};

/// The readings in which the tensors are causal, or in the other layout, or both. Empty for vectors
/// whose description leaves nothing open: those of ONNX, of upstream projects, and captured ones.
/// Throws Error if the description cannot be read.
std::vector<OtherReading> other_readings(const VectorPlace& place);

}  // namespace attest::core
