// The commands that measure what the records do not tell. `attest choose` reads their records
// beside those there are. It does not take the records of `attest repro`.
#pragma once
#include <string>

#include "reports/choice/choice.hpp"

namespace attest::reports {

/// What `attest run` has to be given to run the problem of this record: "lidar --case
/// full_32768/self --dtype f32"; of a problem without a suite, and of a size in a sweep, its spec.
std::string subject_of(const core::Results& run, const core::Record& record);

/// The implementation of a record and the options that it was judged with, as words of `attest
/// run`: "--impl naive --threads 2". Of a case that was skipped for its time, with limits that let
/// it run if a run takes up to twice the estimated time; of one that was skipped for its memory,
/// without the limit on memory.
std::string options_of(const core::Record& record);

/// The command that runs the case, or with `tokens` the problem of the family at that size, as the
/// implementation of this record was run: "attest run lidar --case full_32768/self --dtype f32
/// --impl naive --threads 2 --output more_lidar_full_32768-self_f32_naive_2.jsonl". A size that no
/// case of the input has is given by its spec.
std::string measuring_command(const ProblemRecords& problem, std::optional<int64_t> tokens,
                              const core::Record& implementation);

/// What shows the answer for a candidate: the command that repeats the nearest point, or if that
/// was skipped or is of a size that says nothing, the one that measures it. Empty if the record
/// does not say it.
std::string command_of(const ProblemRecords& problem, std::optional<int64_t> tokens,
                       const Candidate& candidate);

}  // namespace attest::reports
