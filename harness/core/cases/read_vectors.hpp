// Finding vectors in folders, and reading one.
#pragma once
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "core/cases/vector_case.hpp"

namespace attest::core {

/// Every vector in a folder and the folders in it, by name; or the one that a JSON file describes
/// or that a .safetensors or .npz file is. Throws Error where there is none.
std::vector<VectorPlace> find_vectors(const std::filesystem::path& folder);
/// Throws Error where VectorPlace::words make no sense whatever the file: "--params: softmax has no
/// 'sofcap', did you mean ...".
void check_words(const std::map<std::string, std::string>& words);
/// What all of them are called together: "vectors" for "some/vectors/", "dump" for
/// "dump.safetensors".
std::string suite_of_vectors(const std::filesystem::path& folder);
/// Throws Error: files that are damaged, missing, or contradict each other. An operation that
/// attest has no word for is no error.
VectorCase read_vector(const VectorPlace& place);

}  // namespace attest::core
