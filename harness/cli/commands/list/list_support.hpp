// attest list --for: which implementations take a problem, and what it needs.
#pragma once
#include <string>

#include "cli/plugins.hpp"

namespace attest::cli {

/// Prints what the problem is, an estimate of the time of a run, and a line for each
/// implementation: whether it takes the problem, whether the problem fits into memory, and why not.
/// Nothing runs. Throws Error: an invalid spec line.
void list_support(const std::string& spec, PluginOptions& options);

}  // namespace attest::cli
