// Writing a case into a folder that the reader of vectors reads again, bit for bit: case.json,
// inputs.safetensors and outputs.safetensors. README.md describes the format.
#pragma once
#include <filesystem>
#include <string>
#include <vector>

#include "core/cases/vector_case.hpp"
#include "core/inputs/prepared.hpp"

namespace attest::core {

/// The inputs as they are, whatever filled them, and the float64 golden of them; rows that the
/// golden does not compute are NaN. `source` is for people: where the case comes from. Makes the
/// folder. Throws Error where it cannot be written.
void capture_case(const Problem& problem, const PreparedInputs& inputs, const std::string& source,
                  const std::filesystem::path& folder);

/// A vector that was read: the inputs as they were given, and those of its outputs that are an
/// output of the operation. What is left out is named in the result. The vector must have a
/// problem.
std::vector<std::string> capture_vector(const VectorCase& vector,
                                        const std::filesystem::path& folder);

}  // namespace attest::core
