// The options of the commands that judge.
#pragma once
#include <CLI/CLI.hpp>

#include <string>
#include <string_view>
#include <vector>

#include "cli/plugins.hpp"
#include "core/run/runner.hpp"

namespace attest::cli {

struct JudgingOptions {
  PluginOptions plugins;
  core::RelationChoice relations = core::RelationChoice::kAuto;
  bool untimed = false, host_golden = false, overwrite = false;
  std::string output;

  // Of commands that judge many cases.
  bool strict = false;  // exits with 3 where something that a table lists was not judged
  std::string least;    // --min-arithmetic
  std::string resume, table;

  // Not options, but settled by the command.
  std::string command;                   // as it was given
  std::vector<std::string> token_files;  // --tokens
  bool shows_progress = true;
  bool shows_coverage = true;  // what was declared and never judged
  bool shows_shares = false;   // where the time went

  /// Adds those that every command has that judges.
  void add_to(CLI::App& app);
  /// Adds those of commands that judge many cases.
  void add_many_to(CLI::App& app);
  /// The file to write: --resume names it as well as -o.
  const std::string& results_path() const { return output.empty() ? resume : output; }
};

/// "auto", "all" or "none".
std::string_view print(core::RelationChoice choice);

}  // namespace attest::cli
