// What an implementation is chosen for: the records of a case, or of problems that differ from one
// another in tokens alone.
//
//   for (const ProblemRecords& problem : cases(input))
//     fmt::print("{}: {} records\n", title(problem), problem.records.size());
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "reports/input/input.hpp"

namespace attest::reports {

/// The records of one case, or of a family: problems that differ from one another in tokens alone.
/// All are of one machine. The input must outlive it.
struct ProblemRecords {
  std::string suite, name, dtype, machine;  // name: of the case; of a family, empty
  std::string spec;    // the problem; of a family, without what gives the tokens
  std::string inputs;  // what a case's inputs are made of; of a family, empty
  /// What tells a case from others that have its suite, name, dtype and machine: its spec, its
  /// inputs, or both. Empty if there are none: `attest run 'softmax ...'` names every case
  /// problem1.
  std::string apart;
  std::vector<const core::Record*> records;  // those of the run that was started first come first
  /// The last record of each implementation that this machine ran on other problems of the input
  /// and not on this one, sorted by name.
  std::vector<const core::Record*> others;
  const Input* input = nullptr;
};

/// The cases in the order of their first records, of which the oldest come first.
std::vector<ProblemRecords> cases(const Input& input);
/// The families in the same order. Problems without tokens are in none.
std::vector<ProblemRecords> families(const Input& input);

/// "lidar/full_32768/self f16", behind it what tells it apart if there are several of that name; of
/// a family its spec, "lidar: softmax dtype=f16 head_dim=64".
std::string title(const ProblemRecords& problem);

/// The spec without the tokens, which the problems of a family have in common beside suite and
/// dtype. Empty if the record is in no family: it has no tokens, or is the smallest problem of a
/// sweep, measured for the launch cost.
std::string family_of(const core::Record& record);

/// The powers of two from the fewest to the most tokens that the problems of a family have.
std::vector<int64_t> grid(const ProblemRecords& family);

/// By which factor the record's tokens differ from `tokens`, at least 1.
double distance(const core::Record& record, int64_t tokens);

/// The run of the input that has this record.
const core::Results& run_of(const Input& input, const core::Record& record);

/// The name of the processor that ran the record: "NVIDIA H100 80GB HBM3", "AMD EPYC"; where the
/// run does not know it, "cuda".
std::string processor(const core::Results& run, const core::Record& record);

}  // namespace attest::reports
