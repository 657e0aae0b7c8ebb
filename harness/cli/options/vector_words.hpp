// The options that describe a file of tensors that has no JSON description.
#pragma once
#include <CLI/CLI.hpp>

#include "cli/options/judging_options.hpp"
#include "core/session/plan.hpp"

namespace attest::cli {

/// Adds --operation, --params, --layout and --arithmetic to a command.
void add_vector_words(CLI::App& command, core::VectorWords& words);

/// Adds --time to a command that judges vectors.
CLI::Option* add_time_of_vectors(CLI::App& command, bool& is_timed);
/// Vectors are timed only where --time says so. Throws Error: --time contradicts --judge-only.
void settle_time(JudgingOptions& judging, bool is_timed);

}  // namespace attest::cli
