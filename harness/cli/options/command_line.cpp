#include "cli/options/command_line.hpp"

#include <filesystem>

namespace attest::cli {
namespace fs = std::filesystem;

std::string shell_word(const std::string& word) {
  if (!word.empty() && word.find_first_of(" '\"\\*?[]$&;<>|()#~`!") == word.npos) return word;
  std::string text = "'";
  for (const char c : word) text += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return text + "'";
}

std::string recorded_path(const std::string& path) {
  const fs::path given(path), named = given.has_filename() ? given : given.parent_path();
  if (!named.is_absolute()) return named.string();
  std::error_code error;
  const fs::path normal = named.lexically_normal();
  const fs::path from_here = normal.lexically_relative(fs::current_path(error));
  const bool below = !from_here.empty() && *from_here.begin() != "..";
  return (below ? from_here : normal.filename()).string();
}

std::string command_line(const CLI::App& command) {
  std::string text = "attest " + command.get_name();
  for (const CLI::Option* option : command.get_options()) {
    if (option->count() == 0) continue;
    const std::string name = option->get_positional() ? "" : " " + option->get_name();
    if (option->get_items_expected_max() == 0) {  // a flag
      text += name;
      continue;
    }
    const std::string type = option->get_type_name();
    const bool is_path = type == "FILE" || type == "SUITE" || type == "DIR";
    const bool one_each = !option->get_allow_extra_args();
    for (size_t i = 0; i < option->results().size(); ++i) {
      const std::string& value = option->results()[i];
      if (i == 0 || one_each) text += name;
      text += " " + shell_word(is_path ? recorded_path(value) : value);
    }
  }
  return text;
}

}  // namespace attest::cli
