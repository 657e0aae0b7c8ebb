#include "cli/locate.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "core/tensor/error.hpp"

namespace attest::cli {
namespace fs = std::filesystem;

fs::path find_suite(const std::string& name) {
  if (fs::is_regular_file(name)) return name;
  std::error_code error;
  const fs::path program = fs::read_symlink("/proc/self/exe", error).parent_path();
  std::vector<std::string> known;
  for (const fs::path& folder : {program / ".." / ATTEST_DATADIR / "attest/suites", fs::path(ATTEST_SUITES_SOURCE)}) {
    const fs::path named = folder / (name + ".json");
    if (name.find('/') == name.npos && fs::is_regular_file(named)) return named;
    for (const fs::directory_entry& entry : fs::directory_iterator(folder, error))
      if (entry.path().extension() == ".json" && entry.path().stem().extension() != ".schema")
        known.push_back(entry.path().stem());
  }
  std::sort(known.begin(), known.end());
  known.erase(std::unique(known.begin(), known.end()), known.end());
  throw core::Error(fmt::format("{}: no such suite file; suites that come with attest: {}", name, fmt::join(known, " ")));
}

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
