// The options that the judging commands share: run, replay, repro.
#pragma once
#include <CLI/CLI.hpp>

#include <string>
#include <string_view>
#include <vector>

#include "cli/options/pacing_options.hpp"
#include "cli/plugins.hpp"
#include "core/session/session.hpp"

namespace attest::cli {

struct JudgingOptions {
  PluginOptions plugins;
  core::RelationChoice relations = core::RelationChoice::kAuto;
  bool untimed = false, host_golden = false, overwrite = false;
  bool locked_clocks = false;  // do not start unless all clocks are locked
  std::string least;           // --min-arithmetic
  PacingOptions pacing;
  std::string output;

  // Only of run and replay, which judge many cases.
  bool strict = false;     // exit with 3 if a declared feature or dtype was never judged
  bool fail_fast = false;  // stop after the first bad record
  bool dry_run = false;    // say what would run, and run nothing
  std::string resume, table;

  // Set by the command itself.
  std::string command;                   // the command line, see command_line()
  std::vector<std::string> token_files;  // --tokens
  core::RunObserver observer;            // RunOptions::observer
  int64_t reruns = 0;                    // RunOptions::reruns
  bool names_case_limit = false;         // repro lines have --case-limit
  bool shows_progress = true;            // print rows as records come, not all at the end
  std::string format = "terminal";       // how they are printed at the end (reports::find_format)
  bool probes_machine = false;  // measure the machine's peak rates if something is timed, even
                                // without a results file
  bool shows_coverage = true;   // print what was declared and never judged
  bool shows_shares = false;    // print where the time went

  /// Adds the options of every judging command.
  void add_to(CLI::App& app);
  /// Adds --case-limit.
  void add_case_limit_to(CLI::App& app, const std::string& help);
  /// Adds these, and the options of commands that judge many cases.
  void add_many_to(CLI::App& app);
  /// Of the session that judges. Throws Error if --min-arithmetic or --contend is invalid.
  core::RunOptions run_options() const;
  /// What must be equal for --resume: the session's identity, --min-arithmetic and the pacing.
  core::Identity identity(const core::Session& session) const;
  /// The results file: --resume or -o names it. "": none.
  const std::string& results_path() const { return output.empty() ? resume : output; }
};

/// "auto", "all" or "none".
std::string_view print(core::RelationChoice choice);

}  // namespace attest::cli
