// The command line as it was given, for records.
#pragma once
#include <CLI/CLI.hpp>

#include <string>

namespace attest::cli {

/// The last name of a path, of a folder with a slash at its end too.
std::string last_name(const std::string& path);

/// "attest run --quick ..." as it was given, paths cut to their last name: a record holds no folder of its maker.
std::string command_line(const CLI::App& command);

}  // namespace attest::cli
