// The commands that measure what the records do not tell. They write records that `attest choose`
// reads beside those there are, which those of `attest repro` are not for.
#pragma once
#include <string>

#include "reports/choice/choice.hpp"

namespace attest::reports {

/// What `attest run` has to be given to run the problem of this record: "lidar --case
/// full_32768/self --dtype f32"; of a problem without a suite, and of a size in a sweep, its spec.
std::string subject_of(const core::Results& run, const core::Record& record);

/// The implementation of a record and the options that it was judged with, as words of `attest
/// run`: "--impl naive --threads 2". Of a case that was skipped for its time, with limits that let
/// it run if a run takes up to twice the estimated time.
std::string options_of(const core::Record& record);

/// The command that runs the problem of one record as the implementation of another was run:
/// "attest run lidar --case full_32768/self --dtype f32 --impl naive --threads 2 --output
/// more.jsonl".
std::string measuring_command(const Input& input, const core::Record& problem,
                              const core::Record& implementation);

/// The record of the problem that an implementation without one is to be measured on: of a case
/// the last, of a family that with the most similar number of tokens.
const core::Record& problem_to_measure(const ProblemRecords& problem,
                                       std::optional<int64_t> tokens);

/// What shows the answer for a candidate: the command that repeats the nearest point, or if that
/// was skipped, the one that measures it. Empty if the record does not say it.
std::string command_of(const Input& input, const Candidate& candidate);

}  // namespace attest::reports
