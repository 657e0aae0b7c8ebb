// What a report is made of: the runs of one or more results files, and what to know before reading
// them.
#pragma once
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "core/record/results.hpp"
#include "reports/compare/comparison.hpp"
#include "reports/history/history.hpp"

namespace attest::reports {

/// The names of an operation's parameters and optional tensors, as spec lines have them.
struct OperationAxes {
  std::string operation;
  std::vector<std::string> names;
};

struct Input {
  std::vector<core::Results> runs;
  std::vector<std::string> warnings;     // sentences; see warnings_of
  std::vector<CaseHistory> histories;    // of the series of their records, where an index is given
  std::optional<Comparison> comparison;  // with an earlier build, where one is given
  std::vector<OperationAxes> axes;       // of this attest, to say what records never touch
};

/// Results files as one input. A run that several files hold counts once: of records that are in
/// both, the first file's stay. A run is the same if its header is. Throws Error if a file has no
/// header.
Input make_input(std::vector<core::Results> files);

/// What weakens the results of these runs: runs that did not end, builds that are not optimised,
/// busy or throttled machines, several machines, noisy times; and reason codes that this attest
/// does not know.
std::vector<std::string> warnings_of(const std::vector<core::Results>& runs);

/// Counts the records that have times, and those that are noisy: their samples spread too far, or
/// something happened to the machine meanwhile (Record::noisy).
struct Noise {
  size_t timed = 0, noisy = 0, spread = 0, disturbed = 0;
  std::map<std::string, size_t> reasons;  // of the disturbed

  void add(const std::vector<core::Record>& records);
  /// "3 of 27 times are noisy: ...". It is empty if no time is noisy.
  std::string print() const;
};

/// The name of a run's file without its folder; "this run" if it has none.
std::string file_name(const core::Results& run);

}  // namespace attest::reports
