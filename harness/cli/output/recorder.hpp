// The sink of the commands that judge: writes records to the results file and prints them as rows
// of a table.
#pragma once
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "cli/options/judging_options.hpp"
#include "cli/output/progress.hpp"
#include "cli/output/results_file.hpp"
#include "core/record/results.hpp"
#include "core/run/rooflines/rooflines.hpp"
#include "core/session/earlier_results.hpp"
#include "core/session/session.hpp"
#include "reports/table.hpp"

namespace attest::cli {

class Recorder : public core::Sink {
 public:
  /// Opens the results file and writes its header; with --resume, continues an existing file.
  /// Throws Error if that file belongs to another run, MachineError if it cannot be written.
  Recorder(const JudgingOptions& options, const core::Implementations& implementations,
           const core::Session& session);

  void starting(const std::string& what) override;
  void tokens(const core::TokenPicture& picture) override;
  const core::Record* earlier(const core::CaseKey& key) override;
  void finished(const core::Job& job, const core::Registry::Entry* entry,
                core::Record& record) override;
  bool wants_more() const override { return !(options_.fail_fast && has_bad_); }
  /// If rows were printed as records came: prints the lines below the table, for all records.
  /// Throws MachineError if standard output could not be written.
  void end_table(const std::vector<core::Record>& records);
  /// If no rows were printed: prints all records in the options' format. Throws as end_table does.
  void print_all(const std::vector<core::Record>& records, bool complete);
  /// Expects so many more records.
  void expect(size_t more);
  /// Writes the closing line of a completed run to the results file.
  void close(const std::vector<core::Record>& records, const core::NeverJudged& never_judged);
  /// The contents of the results file with these records, even if none is written.
  core::Results results(const std::vector<core::Record>& records, bool complete) const;

 private:
  void begin(const core::Session& session);
  void show(const core::Record& record);
  void print(const std::string& text);

  const JudgingOptions& options_;
  const core::Implementations& implementations_;
  core::EarlierResults earlier_;
  std::map<std::string, core::TokenPicture> tokens_;  // by their inputs
  std::optional<core::Rooflines> rooflines_;          // none if nothing is timed or kept
  core::Header header_;
  std::optional<ResultsFile> results_;
  std::optional<Progress> progress_;
  std::optional<reports::TableWriter> table_;  // prints rows as records come
  bool has_rows_ = false;                      // whether a row was printed
  bool has_bad_ = false;                       // whether a record was bad
  bool output_lost_ = false;                   // whether standard output failed
};

}  // namespace attest::cli
