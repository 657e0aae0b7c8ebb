// Which problems of which suites: what run and capture have in common.
#pragma once
#include <string>
#include <vector>

#include "cli/run.hpp"

namespace attest::cli {

struct CaseFilter {
  std::vector<std::string> cases, dtypes;  // globs; empty: all
  bool quick = false;                      // only the cases that a suite marks
  double budget_s = 0;                     // of timed runs; 0: the suite's
};

/// The problems that the filter keeps; they refer to `suites`. Throws Error: a glob that matches
/// nothing, nothing that is left.
std::vector<Job> make_jobs(const std::vector<core::Suite>& suites, const CaseFilter& filter);
/// Throws Error: a fill that no job has.
void check_fills(const std::vector<Job>& jobs, const std::vector<std::string>& wanted);
/// Throws Error: a token source that makes no sense.
void check_inputs(const Job& job, const TokenStore& tokens);
/// Throws Error: a file of --tokens that is not there.
void check_token_files(const std::vector<std::string>& files);

}  // namespace attest::cli
