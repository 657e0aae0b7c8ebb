// Going on with a run that was cut short: what its results file holds, and whether it is the same
// run.
#pragma once
#include <sys/types.h>

#include <map>
#include <string>
#include <vector>

#include "cli/results_file.hpp"
#include "cli/run.hpp"
#include "core/record/record.hpp"

namespace attest::cli {

/// What has to be the same for two parts to be one run, by name: attest itself, suites, cases,
/// options, implementations, tokens, CPU.
using Identity = std::map<std::string, std::string>;

Identity identify(const std::vector<Job>& jobs, const Session& session,
                  const std::vector<core::Registry::Entry>& chosen);
/// All of that but what is run: suites, cases and tokens.
Identity identify(const Session& session, const std::vector<core::Registry::Entry>& chosen);

/// The contents of files, by their hashes; "none" without a file.
std::string hash_files(const std::vector<std::string>& paths);

/// What a results file holds already. A last line that was torn does not count.
class EarlierResults {
 public:
  EarlierResults() = default;
  /// No such file, or an empty one: nothing is there yet. Throws Error: it cannot be read, or is no
  /// results file.
  explicit EarlierResults(const std::string& path);

  bool begun() const { return begun_; }
  /// It has its closing line.
  bool complete() const { return complete_; }
  /// Where its last whole line ends.
  off_t bytes() const { return bytes_; }
  size_t count() const { return records_.size(); }

  /// Throws Error, naming what differs between the file's run and this one.
  void require_same(const Identity& identity) const;
  /// The record of that (case, dtype, implementation), each of several once; null where there is
  /// none.
  const core::Record* take(const std::string& suite, const std::string& case_name,
                           const std::string& dtype, const std::string& impl);

 private:
  std::string path_;
  bool begun_ = false, complete_ = false;
  off_t bytes_ = 0;
  Identity identity_;
  std::multimap<std::string, core::Record> records_;
  std::multimap<std::string, core::Record> taken_;
};

/// The session's file with its header: a new one, or the one that is gone on with. A session
/// without a file has no use for the identity. Throws Error where the file is of another run.
ResultsFile begin_results(const Identity& identity, const Session& session,
                          const EarlierResults& earlier);
/// What a record that was kept says of speed, as if it had been made now.
void note_speed(const core::Record& record, core::Rates& rates);

}  // namespace attest::cli
