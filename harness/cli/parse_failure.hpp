// What is wrong with a command line, in one line.
#pragma once
#include <CLI/CLI.hpp>

#include <string>
#include <vector>

namespace attest::cli {

/// "attest: --pace: no such option, did you mean '--paced'? attest run --help lists all". `program`
/// threw the error when it parsed its arguments.
std::string print_failure(const CLI::App& program, const CLI::Error& error);

/// The names of the commands of the program, in the order in which they were added.
std::vector<std::string> command_names(const CLI::App& program);

}  // namespace attest::cli
