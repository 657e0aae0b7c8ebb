// attest list --for: which implementations take a problem, and what it needs.
#pragma once
#include <string>

#include "cli/plugins.hpp"

namespace attest::cli {

/// Prints what the problem is and a line for each implementation: whether it takes the problem,
/// whether the problem fits into memory, and why not. If one of them is on the CPU, prints an
/// estimate of the time of a run, too. Nothing runs. Throws Error: an invalid spec line.
void list_support(const std::string& spec, PluginOptions& options);

}  // namespace attest::cli
