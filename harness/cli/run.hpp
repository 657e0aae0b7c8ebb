// A run: cases times dtypes times implementations, in order, into a results file and a table.
#pragma once
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "cli/plugins.hpp"
#include "core/inputs/tokens.hpp"
#include "core/problem/suite.hpp"
#include "core/run/runner.hpp"

namespace attest::cli {

/// Tokens by their source line, each loaded once. A file given by the user takes the place of the
/// embedded sweep or picture in every source of its kind.
class TokenStore {
 public:
  /// Throws Error: a name that is neither a sweep's nor an image's, or two of a kind.
  explicit TokenStore(const std::vector<std::string>& files);
  /// Whether every file of the user's is of a kind that one of the source lines has; else `unused`
  /// is one that is not.
  bool wanted_by(const std::vector<std::string>& sources, std::string& unused) const;
  /// The source with the user's file in it.
  core::TokenSource source(const std::string& line) const;
  /// The tokens of a source line, whose whole name is what the label calls its inputs from here on.
  const core::Tokens& take(const std::string& line, core::CaseLabel& label);
  double seconds() const { return seconds_; }

 private:
  std::map<core::TokenSource::Kind, std::string> files_;
  std::map<std::string, core::Tokens> loaded_;
  double seconds_ = 0;
};

/// One problem of a run.
struct Job {
  const core::Case* wanted = nullptr;
  std::string suite, suite_file;
  core::DType dtype = ATTEST_F32;
  double budget_s = 0;  // of timed runs; 0: the session's
};

struct Session {
  core::RunOptions options;
  PluginOptions plugins;
  std::string results_path;
  std::string table_path;  // --table
  bool resume = false;     // goes on with what `results_path` holds
  std::string command;     // for the header
  // What else makes it the run that it is, for whoever goes on with it.
  std::vector<std::string> suite_files, token_files;
  std::string least;  // --min-arithmetic
  bool host_golden = false;
  bool strict = false;  // exits with 3 where something that a table lists was not judged
};

/// --relations auto|all|none, the same for every command that judges.
void add_relations(CLI::App& command, core::RelationChoice& choice);
/// --host-golden, likewise.
void add_host_golden(CLI::App& command, bool& host_golden);

/// What every command takes that judges many cases: how, and where results go.
struct JudgingOptions {
  std::string least, output, resume;
  bool untimed = false, overwrite = false;

  /// Adds them, and those of `session`.
  void add_to(CLI::App& command, Session& session);
  /// Puts them into the session. Throws Error: words that make no sense, two names for one file of
  /// results.
  void apply(Session& session) const;
};

/// The ExitCode that records come to. `all_judged`: so was everything that tables list, or nobody
/// asks.
int exit_code(const std::vector<core::Record>& records, bool all_judged);

/// Runs every job on every implementation that --impl keeps, prints the table, returns an ExitCode.
int run_jobs(const std::vector<Job>& jobs, Session& session, TokenStore& tokens);

}  // namespace attest::cli
