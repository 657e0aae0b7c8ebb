// The options that describe a file of tensors that has no JSON description.
#pragma once
#include <CLI/CLI.hpp>

#include "core/session/plan.hpp"

namespace attest::cli {

/// Adds --operation, --params, --layout and --arithmetic to a command.
void add_vector_words(CLI::App& command, core::VectorWords& words);

}  // namespace attest::cli
