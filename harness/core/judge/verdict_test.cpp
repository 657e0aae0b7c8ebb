// The table of events against the sources and the page: no code that it lacks, none that nobody
// sets, and the page says the same.
#include "core/judge/verdict.hpp"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <regex>
#include <set>
#include <string>

namespace attest::core {
namespace {

namespace fs = std::filesystem;

std::string read(const fs::path& path) {
  std::ifstream in(path);
  return {std::istreambuf_iterator<char>(in), {}};
}

// Codes in quotes in the sources of the program; tests and test plugins may speak of others.
std::set<std::string> codes_in_sources() {
  const std::regex code(
      "\"((pass|fail|suspect|unsupported|skipped|error|crash|timeout):[a-z-]+)\"");
  std::set<std::string> found;
  for (const char* folder : {"/harness/core", "/harness/cli", "/reports"}) {
    if (!fs::exists(std::string(ATTEST_SOURCE_DIR) + folder)) continue;
    for (const fs::directory_entry& entry :
         fs::recursive_directory_iterator(std::string(ATTEST_SOURCE_DIR) + folder)) {
      const std::string file = entry.path().filename();
      if (file == "verdict.hpp" || file.find("_test.") != file.npos) continue;
      if (entry.path().extension() != ".cpp" && entry.path().extension() != ".hpp") continue;
      const std::string text = read(entry.path());
      for (std::sregex_iterator at(text.begin(), text.end(), code), end; at != end; ++at)
        found.insert((*at)[1]);
    }
  }
  return found;
}

TEST(Events, EveryCodeStartsWithItsVerdict) {
  std::set<std::string_view> seen;
  for (const Event& event : kEvents) {
    EXPECT_TRUE(seen.insert(event.code).second) << event.code;
    EXPECT_TRUE(event.code.empty() ||
                event.code.substr(0, event.code.find(':')) == name(event.verdict))
        << event.code;
  }
}

TEST(Events, TheSourcesSetWhatTheTableHasAndNothingElse) {
  const std::set<std::string> sources = codes_in_sources();
  EXPECT_TRUE(sources.count("fail:tolerance"));
  for (const std::string& code : sources)
    EXPECT_TRUE(find_event(code)) << code << " is not in kEvents of verdict.hpp";
  for (const Event& event : kEvents)
    EXPECT_TRUE(event.code.empty() || sources.count(std::string(event.code)))
        << event.code << ": nothing sets it";
}

TEST(Events, ThePageShowsTheTable) {
  std::string table = "| verdict | code | what happened |\n|---|---|---|\n";
  for (const Event& event : kEvents)
    table += "| " + std::string(name(event.verdict)) + " | " +
             (event.code.empty() ? "" : "`" + std::string(event.code) + "` ") + "| " +
             std::string(event.meaning) + " |\n";
  EXPECT_NE(read(ATTEST_SOURCE_DIR "/harness/core/run/README.md").find(table), std::string::npos)
      << "harness/core/run/README.md should hold\n"
      << table;
}

}  // namespace
}  // namespace attest::core
