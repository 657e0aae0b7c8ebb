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
  /// Opened before anything runs. An empty path writes nothing. Throws MachineError where it cannot
  /// be written.
  explicit TableFile(const std::string& path);
  void write(const core::Results& results);

 private:
  std::string path_;
  std::ofstream out_;
};

}  // namespace attest::cli
