// --table: the verdicts of a run as a Markdown file.
#pragma once
#include <CLI/CLI.hpp>

#include <fstream>
#include <string>

#include "core/record/results.hpp"

namespace attest::cli {

/// Adds --table to a command.
void add_table(CLI::App& command, std::string& path);

class TableFile {
 public:
  /// Opens the file, before anything runs. An empty path: nothing is written. Throws MachineError
  /// if it cannot be opened.
  explicit TableFile(const std::string& path);
  /// Throws MachineError if writing fails.
  void write(const core::Results& results);

 private:
  std::string path_;
  std::ofstream out_;
};

}  // namespace attest::cli
