#include "cli/parse_failure.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "core/problem/hint.hpp"
#include "core/tensor/error.hpp"

namespace attest::cli {
namespace {

bool is(const CLI::Error& error, CLI::ExitCodes kind) { return error.get_exit_code() == int(kind); }

/// The options of a command with their dashes: "--paced", "-o".
std::vector<std::string> option_names(const CLI::App& command) {
  std::vector<std::string> names;
  for (const CLI::Option* option : command.get_options()) {
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
    for (const std::string& name : option->get_snames()) names.push_back("-" + name);
  }
  return names;
}

/// The first word that the command does not take. "--" is none: options end there.
std::string explain_extra(const CLI::App& command) {
  std::vector<std::string> words = command.remaining();
  std::erase(words, "--");
  const std::string& word = words.at(0);
  if (!word.starts_with("-"))
    return fmt::format("{}: the command takes no such argument", core::in_quotes(word));
  const std::string name = word.substr(0, word.find('='));
  return fmt::format("{}: no such option{}", name, core::did_you_mean(name, option_names(command)));
}

}  // namespace

std::vector<std::string> command_names(const CLI::App& program) {
  std::vector<std::string> names;
  for (const CLI::App* command : program.get_subcommands([](const CLI::App*) { return true; }))
    names.push_back(command->get_name());
  return names;
}

std::string print_failure(const CLI::App& program, const CLI::Error& error) {
  const std::vector<CLI::App*> chosen = program.get_subcommands();
  if (chosen.empty() && is(error, CLI::ExitCodes::RequiredError))
    return fmt::format(
        "attest: no command was named; there are {}; attest --help says what they do\n",
        fmt::join(command_names(program), ", "));
  const bool is_extra = is(error, CLI::ExitCodes::ExtrasError);
  // An option before the name of the command is the program's.
  const bool of_program = chosen.empty() || (is_extra && program.remaining_size() > 0);
  const CLI::App& command = of_program ? program : *chosen.front();
  std::string text = is_extra ? explain_extra(command) : error.what();
  std::ranges::replace(text, '\n', ' ');
  return fmt::format("attest: {}{} attest {}--help says what there is\n", text,
                     text.ends_with('?') ? "" : ";", of_program ? "" : command.get_name() + " ");
}

}  // namespace attest::cli
