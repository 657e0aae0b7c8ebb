#include "core/measure/machine/files.hpp"

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <iterator>
#include <sstream>

#include "core/measure/machine/reading.hpp"

namespace attest::core {

namespace fs = std::filesystem;

bool machine_is_made_up() { return machine_root() != "/"; }

fs::path machine_root() {
  const char* given = std::getenv("ATTEST_MACHINE_ROOT");
  return given && *given ? fs::path(given) : fs::path("/");
}

std::string read_text(const fs::path& path) { return read_reading(path).value.value_or(""); }

std::optional<double> read_number(const fs::path& path) {
  const std::string text = read_text(path);
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc()) return std::nullopt;  // "max" of a cgroup, EAGAIN of a sensor
  return value;
}

std::string value_of(const std::string& text, const std::string& key, char separator) {
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    const size_t at = line.find(separator);
    if (at == line.npos || at == 0 || !line.starts_with(key)) continue;
    if (line.find_last_not_of(" \t", at - 1) + 1 != key.size())
      continue;  // "model" is not "model name"
    const size_t start = line.find_first_not_of(" \t\"", at + 1);
    return start == line.npos ? std::string()
                              : line.substr(start, line.find_last_not_of(" \t\r\"") + 1 - start);
  }
  return {};
}

std::vector<std::string> words_of(const std::string& text) {
  std::istringstream words(text);
  return {std::istream_iterator<std::string>(words), {}};
}

std::string chosen_of(const std::string& text) {
  const size_t open = text.find('['), close = text.find(']');
  return open == text.npos || close == text.npos || close < open
             ? text
             : text.substr(open + 1, close - open - 1);
}

bool begins_with(const fs::path& path, const std::string& prefix) {
  return path.filename().string().starts_with(prefix);
}

std::vector<fs::path> entries_of(const fs::path& folder) {
  std::vector<fs::path> entries;
  std::error_code error;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error))
    entries.push_back(it->path());
  std::sort(entries.begin(), entries.end());
  return entries;
}

}  // namespace attest::core
