// attest run --vectors: vectors of folders, the reference first and then the implementations.
#pragma once
#include <string>
#include <vector>

#include "cli/run.hpp"

namespace attest::cli {

/// Judges every vector of `folders` whose name matches one of the globs (or all), prints the table, returns an ExitCode.
int run_vectors(const std::vector<std::string>& folders, const std::vector<std::string>& globs, Session& session);

}  // namespace attest::cli
