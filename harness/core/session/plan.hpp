// A plan: what a session is to judge, as a list of jobs. Suites, spec lines, test vectors and
// captured folders all become jobs.
#pragma once
#include <deque>
#include <map>
#include <string>
#include <variant>
#include <vector>

#include "core/cases/read_vectors.hpp"
#include "core/problem/suite.hpp"
#include "core/session/token_store.hpp"

namespace attest::core {

/// A case of a suite in one dtype.
struct SuiteJob {
  const Case* wanted = nullptr;
  std::string file;  // of the suite
  DType dtype = ATTEST_F32;
};

/// One problem by its line.
struct SpecJob {
  std::string spec;
  std::string inputs = "random";  // or a token source
};

/// A test vector or a captured case.
struct VectorJob {
  std::string folder;  // as it was named
  VectorPlace place;
};

/// One problem with its inputs, neither of which is made yet.
struct Job {
  std::string suite, case_name;    // as its records have them
  std::string dtype;               // likewise; empty: of a vector, which is not read yet
  std::vector<std::string> fills;  // judged on these alone; empty: those that judge by default
  double budget_s = 0;             // of timed runs; 0: the session's
  std::variant<SuiteJob, SpecJob, VectorJob> source;

  bool is_vector() const { return std::holds_alternative<VectorJob>(source); }
  /// Globs of the implementations that it is for; empty: all.
  std::vector<std::string> only_impls() const;
};

/// What has to be the same for two parts of a run to be one, by name: suites, cases, options ...
using Identity = std::map<std::string, std::string>;

struct Plan {
  std::deque<Suite> suites;  // jobs point into them
  std::vector<Job> jobs;
  Identity identity;
  std::vector<std::string> names, dtypes;  // of all cases, whether or not the filter keeps them

  /// Adds the jobs of another plan behind those that are there.
  void append(Plan&& other);
};

/// Which cases of suites and folders a plan keeps.
struct CaseFilter {
  std::vector<std::string> cases, dtypes;  // globs; empty: all
  std::vector<std::string> fills;          // judge on these alone; empty: those of the case
  bool quick = false;                      // only the cases that a suite marks
  double budget_s = 0;                     // of timed runs; 0: the suite's
  bool lenient = false;                    // globs may match nothing, and no job may be left
};

/// The cases of suites, named by file or by the name of one that comes with attest, which the
/// filter keeps. Throws Error: a suite that cannot be read, a glob or fill that matches nothing, a
/// token source that makes no sense, a token file that no case takes, nothing that is left.
Plan plan_suites(const std::vector<std::string>& suites, const CaseFilter& filter,
                 const std::vector<std::string>& token_files = {});

/// One problem by its line, as a case named `case_name` of no suite. Throws Error: a spec or a fill
/// that makes no sense.
Plan plan_spec(const SpecJob& job, const std::vector<std::string>& fills,
               const std::string& case_name);

/// What a .safetensors or .npz file by itself lacks, by the keys that a case.json would have.
using VectorWords = std::map<std::string, std::string>;

/// Every vector of `folders` that the filter's globs of cases keep. Throws Error: there is none,
/// two have one name, words make no sense or go with a vector that needs none.
Plan plan_vectors(const std::vector<std::string>& folders, const CaseFilter& filter,
                  const VectorWords& words = {});

/// The contents of files, by their hashes; "none" without a file.
std::string hash_files(const std::vector<std::string>& paths);

}  // namespace attest::core
