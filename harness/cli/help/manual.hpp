// Manual pages (man 1), written from the help of the program.
#pragma once
#include <string>
#include <vector>

#include "cli/help/help_text.hpp"

namespace attest::cli {

/// attest(1). `version`: "0.1.0".
std::string program_page(const CommandHelp& program, const std::vector<CommandHelp>& commands,
                         const std::string& version);
/// attest-COMMAND(1).
std::string command_page(const CommandHelp& command, const std::string& version);

}  // namespace attest::cli
