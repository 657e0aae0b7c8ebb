// attest run --vectors: vectors of folders, the reference first and then the implementations.
#pragma once
#include <CLI/CLI.hpp>

#include <map>
#include <string>
#include <vector>

#include "cli/run.hpp"
#include "core/cases/vector_case.hpp"

namespace attest::cli {

/// What a .safetensors or .npz file by itself lacks, by the keys that a case.json would have.
using VectorWords = std::map<std::string, std::string>;
/// Adds --params, --layout and --arithmetic to a command.
void add_vector_words(CLI::App& command, VectorWords& words);

struct FoundVector {
  std::string suite, folder;
  core::VectorPlace place;
};
/// Every vector of `folders` whose name matches one of the globs, or all. Throws Error where there
/// is none, where two have one name, where words make no sense or go with a vector that needs none.
std::vector<FoundVector> find_vectors(const std::vector<std::string>& folders,
                                      const std::vector<std::string>& globs,
                                      const VectorWords& words);

/// Judges them, prints the table, returns an ExitCode.
int run_vectors(const std::vector<std::string>& folders, const std::vector<std::string>& globs,
                const VectorWords& words, Session& session);

}  // namespace attest::cli
