// Finds test vectors in folders, and reads them.
#pragma once
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "core/vectors/test_vector.hpp"

namespace attest::core {

/// All vectors in a folder and the folders below it, sorted by name. `folder` may also be a JSON
/// description, or a .safetensors or .npz file. Throws Error if there is no vector.
std::vector<VectorPlace> find_vectors(const std::filesystem::path& folder);
/// Throws Error if VectorPlace::words are invalid for any file: "--params: softmax has no 'sofcap',
/// did you mean ...".
void check_words(const std::map<std::string, std::string>& words);
/// The suite name of all vectors of a folder: "vectors" for "some/vectors/", "dump" for
/// "dump.safetensors".
std::string suite_of_vectors(const std::filesystem::path& folder);
/// Reads the files of a vector and maps its operation. Throws Error: files that are damaged,
/// missing, or contradict each other. An operation that attest does not know sets
/// TestVector::unsupported. `other`: values that its description is to have instead
/// (other_readings.hpp).
TestVector read_vector(const VectorPlace& place,
                       const std::map<std::string, std::string>& other = {});

}  // namespace attest::core
