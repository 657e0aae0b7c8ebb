#include "cli/locate.hpp"

#include <filesystem>

namespace attest::cli {
namespace fs = std::filesystem;

std::string last_name(const std::string& path) {
  const fs::path normal = fs::path(path).lexically_normal();
  return (normal.has_filename() ? normal : normal.parent_path()).filename().string();
}

std::string command_line(const CLI::App& command) {
  std::string text = "attest " + command.get_name();
  for (const CLI::Option* option : command.get_options()) {
    if (option->count() == 0) continue;
    if (!option->get_positional()) text += " " + option->get_name();
    if (option->get_items_expected_max() == 0) continue;  // a flag
    const std::string type = option->get_type_name();
    const bool is_path = type == "FILE" || type == "SUITE" || type == "DIR";
    for (const std::string& value : option->results()) text += " " + (is_path ? last_name(value) : value);
  }
  return text;
}

}  // namespace attest::cli
