#include "cli/repro_line.hpp"

#include <fmt/format.h>

#include "cli/locate.hpp"
#include "cli/run.hpp"

namespace attest::cli {

std::string shell_word(const std::string& word) {
  if (!word.empty() && word.find_first_of(" '\"\\*?[]$&;<>|()#~`!") == word.npos) return word;
  std::string text = "'";
  for (const char c : word) text += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return text + "'";
}

std::string repro_options(const Session& session) {
  std::string options;
  for (const std::string& plugin : session.plugins.plugins)
    options += " --plugin " + shell_word(recorded_path(plugin));
  options += fmt::format(" --threads {}", session.plugins.threads);
  if (session.host_golden) options += " --host-golden";
  if (session.options.relations == core::RelationChoice::kAll) options += " --relations all";
  return options;
}

}  // namespace attest::cli
