// attest man: writes manual pages.
#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>

#include "cli/commands/commands.hpp"
#include "cli/exit_code.hpp"
#include "cli/help/manual.hpp"
#include "core/problem/hint.hpp"
#include "core/tensor/error.hpp"

namespace attest::cli {
namespace {

struct ManArguments {
  std::string command, folder;
};

void write(const std::filesystem::path& file, const std::string& text) {
  std::ofstream out(file, std::ios::trunc);
  if (!(out << text << std::flush))
    throw core::MachineError(fmt::format("{}: {}", file.string(), std::strerror(errno)));
}

void write_all(const std::filesystem::path& folder, const CLI::App& program) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  const std::vector<CommandHelp> commands = help_of_commands(program);
  write(folder / "attest.1", program_page(help_of(program), commands, ATTEST_VERSION));
  for (const CommandHelp& command : commands)
    write(folder / fmt::format("attest-{}.1", command.name), command_page(command, ATTEST_VERSION));
}

std::string page_of(const std::string& name, const CLI::App& program) {
  const std::vector<CommandHelp> commands = help_of_commands(program);
  if (name.empty()) return program_page(help_of(program), commands, ATTEST_VERSION);
  const auto found = std::ranges::find(commands, name, &CommandHelp::name);
  if (found != commands.end()) return command_page(*found, ATTEST_VERSION);
  std::vector<std::string> names;
  for (const CommandHelp& command : commands) names.push_back(command.name);
  throw core::Error(fmt::format("no command '{}'{}", name, core::did_you_mean(name, names)));
}

int run(const ManArguments& arguments, const CLI::App& program) {
  if (!arguments.folder.empty())
    write_all(arguments.folder, program);
  else
    fmt::print("{}", page_of(arguments.command, program));
  return kOk;
}

}  // namespace

Command add_man(CLI::App& program) {
  CLI::App* command = program.add_subcommand("man", "write the manual page of attest or a command");
  auto arguments = std::make_shared<ManArguments>();
  command->add_option("command", arguments->command, "the command; none: attest itself")
      ->type_name("COMMAND");
  command
      ->add_option("-o,--output", arguments->folder,
                   "write the pages of attest and of all its commands into this folder")
      ->type_name("DIR");
  command->footer("Example: attest man run | man -l -");
  return [arguments, &program] { return run(*arguments, program); };
}

}  // namespace attest::cli
