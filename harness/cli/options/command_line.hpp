// Command lines as records and headers store them.
#pragma once
#include <CLI/CLI.hpp>

#include <string>

namespace attest::cli {

/// The word as a shell reads it, quoted if necessary.
std::string shell_word(const std::string& word);

/// The path as records store it. A relative path stays. An absolute path becomes relative to the
/// current folder if it lies below; otherwise only its last component is kept.
std::string recorded_path(const std::string& path);

/// The user's command line, "attest run --quick ...", with paths as records store them.
std::string command_line(const CLI::App& command);

}  // namespace attest::cli
