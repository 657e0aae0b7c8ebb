// Writes a case into a folder: case.json, inputs.safetensors and outputs.safetensors. read_vector
// reads it again, bit for bit. README.md describes the format.
#pragma once
#include <filesystem>
#include <string>
#include <vector>

#include "core/inputs/prepared.hpp"
#include "core/vectors/test_vector.hpp"

namespace attest::core {

/// Writes the inputs and their float64 golden; rows that the golden does not compute are NaN.
/// `source` tells people where the case comes from. Makes the folder. Throws Error if it cannot be
/// written.
void capture_case(const Problem& problem, const PreparedInputs& inputs, const std::string& source,
                  const std::filesystem::path& folder);

/// Writes a vector that was read: its inputs, and those outputs that are outputs of the operation.
/// Returns the names of what is left out. The vector must have a problem. Throws Error if the
/// folder cannot be written.
std::vector<std::string> capture_vector(const TestVector& vector,
                                        const std::filesystem::path& folder);

}  // namespace attest::core
