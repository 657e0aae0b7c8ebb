// Completion of the command line in shells, written from the help of the program.
#pragma once
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "cli/help/help_text.hpp"

namespace attest::cli {

/// What a completion script is made of.
struct Completion {
  std::vector<CommandHelp> commands;
  // Words for values that are neither choices nor files: {"CODE", {"fail:tolerance", ...}}
  std::map<std::string, std::vector<std::string>> words;

  /// The words that may follow the option, or stand for the argument.
  std::vector<std::string> words_of(const OptionHelp& option) const;
};

std::string bash_completion(const Completion& completion);
std::string zsh_completion(const Completion& completion);
std::string fish_completion(const Completion& completion);

/// The beginning of a help text, up to what explains it: "write the results to a new file".
std::string first_clause(std::string_view text);

}  // namespace attest::cli
