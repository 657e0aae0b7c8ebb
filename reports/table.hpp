// Prints records as a table for a terminal.
#pragma once
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "core/record/results.hpp"
#include "reports/words/sizes.hpp"

namespace attest::reports {

/// The bytes that an implementation takes beside its tensors, as they were measured. On a device
/// the memory pool and the workspace are added up. Returns nothing if the memory was not measured.
std::optional<double> used_bytes(const core::MemoryRecord& memory);

/// Counts unsupported records, which are too many to show one by one.
class UnsupportedCounts {
 public:
  void add(const core::Record& record);
  /// A line for each implementation with its most frequent reasons, under a title; empty without
  /// such records.
  std::string print() const;

 private:
  std::map<std::string, std::map<std::string, int>> counts_;  // by implementation and reason
};

/// "60 pass, 4 skipped".
std::string print_verdicts(const std::map<core::Verdict, int>& counts);

/// Prints the table row by row, as records come.
class TableWriter {
 public:
  /// The first column is wide enough for the names `impls`. `colour`: ANSI colours.
  TableWriter(const std::vector<std::string>& impls, bool colour);
  std::string heading() const;
  /// The row of a record. If the previous row is of another case, the title of the case comes
  /// first. Empty if the implementation does not support the case.
  std::string add(const core::Record& record);
  /// The unsupported cases with their reasons, the counts of verdicts, the legend. `records`: those
  /// that were added; a race may have changed verdicts since.
  std::string ending(const std::vector<core::Record>& records) const;

 private:
  size_t width_ = 14;
  bool colour_;
  std::string title_;  // of the last row's case
};

/// The whole table: a block for each case and dtype, with a line for each implementation: verdict,
/// error (share of its gate), median time with spread, GFLOP/s, peak memory. Unsupported cases are
/// counted below, with their reasons. `colour`: ANSI colours.
std::string print_table(const std::vector<core::Record>& records, bool colour);

/// A line that says so if the run of these results was not completed; else empty.
std::string cut_short(const core::Results& results);

/// The records of each case and dtype, in the order in which its first record comes.
std::vector<std::vector<const core::Record*>> by_case(const std::vector<core::Record>& records);

/// The verdict in a column of 11 characters. `colour`: ANSI colours.
std::string verdict_column(core::Verdict verdict, bool colour);

/// What helps to find a bug: where the output is wrong, and the command that repeats the case.
/// Empty unless the record is bad. `width`: of the first column, which stays empty.
std::string print_hints(const core::Record& record, size_t width);

}  // namespace attest::reports
