// What a report is made of: the runs of one or more results files, and what to know before reading
// them.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "core/record/results.hpp"
#include "reports/compare/comparison.hpp"
#include "reports/history/history.hpp"
#include "reports/input/left_out.hpp"
#include "reports/projection/projected.hpp"

namespace attest::reports {

struct Input {
  std::vector<core::Results> runs;
  LeftOut left_out;                      // of the runs, what read_input() did not keep
  std::vector<std::string> warnings;     // sentences; see warnings_of
  std::vector<CaseHistory> histories;    // of the series of their records, where an index is given
  std::optional<Comparison> comparison;  // with an earlier build, where one is given
  std::optional<ProjectionTarget> projection;  // to a board, where one is asked for
  std::vector<OperationAxes> axes;             // of this attest, to say what records never touch
  SeenAxes suites;  // of the problems of attest's own suites, where known
};

/// Results files as one input. A run that several files hold counts once: of records that are in
/// both, the first file's stay. A run is the same if its header is. Throws Error if a file has no
/// header. `left_out`: of runs that are in one file each.
Input make_input(std::vector<core::Results> files, LeftOut left_out = {});

/// What weakens the results of these runs: runs that did not end, builds that are not optimised,
/// busy or throttled machines, several machines, noisy times; and reason codes that this attest
/// does not know.
std::vector<std::string> warnings_of(const std::vector<core::Results>& runs,
                                     const LeftOut& left_out = {});

/// The name of a run's file without its folder; "this run" if it has none.
std::string file_name(const core::Results& run);

}  // namespace attest::reports
