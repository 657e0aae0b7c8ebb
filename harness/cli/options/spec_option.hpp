// The options that name one problem and its inputs. repro, bench and capture share them.
#pragma once
#include <CLI/CLI.hpp>

#include <string>
#include <vector>

namespace attest::cli {

/// Adds the argument `spec`: a spec line, in quotes or as separate words.
CLI::Option* add_spec(CLI::App& command, std::string& spec, const std::string& help);
/// Adds --inputs and --tokens.
void add_inputs(CLI::App& command, std::string& inputs, std::vector<std::string>& token_files);
/// Adds --fill.
void add_fills(CLI::App& command, std::vector<std::string>& fills);

}  // namespace attest::cli
