// Where the suites are that come with attest, and what the command line was.
#pragma once
#include <CLI/CLI.hpp>

#include <filesystem>
#include <string>

namespace attest::cli {

/// A file as given, or the suite of that name in the source tree or the installation. Throws Error naming those that there are.
std::filesystem::path find_suite(const std::string& name);

/// The last name of a path, of a folder with a slash at its end too.
std::string last_name(const std::string& path);

/// "attest run --quick ..." as it was given, paths cut to their last name: a record holds no folder of its maker.
std::string command_line(const CLI::App& command);

}  // namespace attest::cli
