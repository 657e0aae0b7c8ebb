// The help of the program as data: --help, man pages and shell completions say the same.
#pragma once
#include <CLI/CLI.hpp>

#include <string>
#include <vector>

namespace attest::cli {

struct OptionHelp {
  std::vector<std::string> names;  // "-o", "--output"; of an argument without dashes: its name
  // "FILE", or the choices: "auto|all|none"; in brackets if it may be left out; empty: a flag
  std::string value;
  std::string preset;  // the default value, if --help shows one
  std::string text;
  bool positional = false;
  bool required = false, repeats = false;

  /// The choices, if the value is one of several words; else empty.
  std::vector<std::string> choices() const;
  bool value_is_optional() const;
  /// Whether the value is a file or a folder.
  bool takes_path() const;
};

struct CommandHelp {
  std::string name, summary, footer;  // footer: its examples
  std::vector<OptionHelp> options;
};

/// "an element is wrong" as "An element is wrong."; nothing of an empty text.
std::string sentence(std::string text);

/// Of `app` alone: the program, or one of its commands.
CommandHelp help_of(const CLI::App& app);
/// Of every command, in the order of --help.
std::vector<CommandHelp> help_of_commands(const CLI::App& program);

}  // namespace attest::cli
