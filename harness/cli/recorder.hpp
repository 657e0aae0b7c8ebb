// Where the records of a session go: the results file, and a row of the table each.
#pragma once
#include <optional>

#include "cli/judging_options.hpp"
#include "cli/progress.hpp"
#include "cli/results_file.hpp"
#include "core/record/results.hpp"
#include "core/session/earlier_results.hpp"
#include "core/session/session.hpp"
#include "reports/table.hpp"

namespace attest::cli {

class Recorder : public core::Sink {
 public:
  /// Opens the results file and writes its header, or goes on with the one that is there. Throws
  /// Error where that one is of another run, MachineError where it cannot be written.
  Recorder(const JudgingOptions& options, const core::Implementations& implementations,
           const core::Session& session);

  void starting(const std::string& what) override;
  const core::Record* earlier(const core::CaseKey& key) override;
  void finished(const core::Job& job, const core::Registry::Entry* entry,
                core::Record& record) override;
  /// What follows the rows of the table, where they were printed as they came. Throws MachineError
  /// where standard output could not be written to.
  void end_table();
  /// The closing line, where the session came to its end.
  void close(const core::Session& session);
  /// What the results file holds, or would hold.
  core::Results results(const core::Session& session) const;

 private:
  void begin(const core::Session& session);
  void show(const core::Record& record);
  void print(const std::string& text);

  const JudgingOptions& options_;
  const core::Implementations& implementations_;
  core::EarlierResults earlier_;
  core::Header header_;
  std::optional<ResultsFile> results_;
  std::optional<Progress> progress_;
  std::optional<reports::TableWriter> table_;  // of rows that are printed as they come
  bool has_rows_ = false;                      // so far
  bool output_lost_ = false;                   // standard output failed
};

}  // namespace attest::cli
