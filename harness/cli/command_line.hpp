// Command lines as records and headers have them.
#pragma once
#include <CLI/CLI.hpp>

#include <string>

namespace attest::cli {

/// A word for a shell, in quotes where it needs them.
std::string shell_word(const std::string& word);

/// A path as records name it: a relative one as it was given, an absolute one as seen from the
/// current folder where it is below that, else its last name.
std::string recorded_path(const std::string& path);

/// "attest run --quick ..." as it was given, with paths as records name them.
std::string command_line(const CLI::App& command);

}  // namespace attest::cli
