// The fixture of tests that run attest in a folder of their own.
#pragma once
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "testing/shell.hpp"

namespace attest::testing {

/// The folder exists as long as the test. Names of files are relative to it.
class FolderTest : public ::testing::Test {
 protected:
  FolderTest() {
    std::filesystem::remove_all(folder_);  // of a process that died
    std::filesystem::create_directories(folder_);
  }
  ~FolderTest() override { std::filesystem::remove_all(folder_); }

  /// Runs `attest ARGUMENTS` in the folder.
  Outcome attest(const std::string& arguments) const { return run_attest(folder_, arguments); }

  /// Writes a file and returns its name.
  std::string write(const std::string& name, const std::string& text) const {
    std::ofstream(folder_ / name, std::ios::binary) << text;
    return name;
  }
  std::string text(const std::string& name) const {
    std::ostringstream text;
    text << std::ifstream(folder_ / name, std::ios::binary).rdbuf();
    return text.str();
  }
  /// Returns the lines of a file of JSON lines, without a last line that has no newline.
  std::vector<nlohmann::json> lines(const std::string& name) const {
    std::ifstream in(folder_ / name);
    std::vector<nlohmann::json> found;
    for (std::string line; std::getline(in, line) && !in.eof();)
      found.push_back(nlohmann::json::parse(line));
    return found;
  }
  /// Returns those lines of a results file that are records.
  std::vector<nlohmann::json> results(const std::string& name) const {
    std::vector<nlohmann::json> found = lines(name);
    std::erase_if(found, [](const nlohmann::json& line) { return line["type"] != "result"; });
    return found;
  }
  /// Writes a file of JSON lines.
  void write_lines(const std::string& name, const std::vector<nlohmann::json>& lines) const {
    std::ofstream out(folder_ / name);
    for (const nlohmann::json& line : lines) out << line.dump() << "\n";
  }
  /// Writes the lines of the file `from` to the file `to`, with its records changed.
  void rewrite_records(const std::string& from, const std::string& to,
                       const std::function<void(nlohmann::json&)>& change) const {
    std::vector<nlohmann::json> all = lines(from);
    for (nlohmann::json& line : all)
      if (line["type"] == "result") change(line);
    write_lines(to, all);
  }
  /// Writes the lines of the file `from` to the file `to`, with its header changed.
  void rewrite_header(const std::string& from, const std::string& to,
                      const std::function<void(nlohmann::json&)>& change) const {
    std::vector<nlohmann::json> all = lines(from);
    change(all.at(0));
    write_lines(to, all);
  }

  const std::filesystem::path folder_ =
      std::filesystem::path(::testing::TempDir()) / ("attest_" + std::to_string(getpid()));
};

}  // namespace attest::testing
