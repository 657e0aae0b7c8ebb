// A plan: the list of jobs of a session. Suites, spec lines, test vectors and captured cases all
// become jobs.
#pragma once
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "core/problem/suite.hpp"
#include "core/record/record.hpp"
#include "core/session/token_store.hpp"
#include "core/vectors/read_vectors.hpp"

namespace attest::core {

/// A case of a suite in one dtype.
struct SuiteJob {
  const Case* wanted = nullptr;
  std::string file;  // of the suite
  DType dtype = ATTEST_F32;
};

/// One problem by its spec line.
struct SpecJob {
  std::string spec;
  std::string inputs = "random";             // or a token source
  std::vector<std::string> only_impls = {};  // globs; empty: all
};

/// A test vector or a captured case.
struct VectorJob {
  std::string folder;  // as the user named it
  VectorPlace place;
};

/// Describes one problem and its inputs. Neither exists yet.
struct Job {
  std::string suite, case_name;    // as in its records
  std::string dtype;               // as in its records; empty for a vector, which is not read yet
  std::vector<std::string> fills;  // judge only on these; empty: on the default ones
  double budget_s = 0;             // seconds of timed runs; 0: the session's budget
  std::variant<SuiteJob, SpecJob, VectorJob> source;
  std::optional<SweepPoint> point = {};  // as in its records; nothing: it is no part of a sweep
  // Names (globs) of the implementations that run the job. If there are none, its source has them.
  std::vector<std::string> only = {};

  /// "SUITE/CASE DTYPE", as a line of keep_records begins.
  std::string name() const;
  bool is_vector() const { return std::holds_alternative<VectorJob>(source); }
  /// Globs; only implementations with matching names run the job. Empty: all.
  std::vector<std::string> only_impls() const;
  /// The source of its tokens; empty: its inputs do not come from tokens.
  std::string token_line() const;
};

/// What must be equal if a run is to be resumed: suites, cases, options ..., by name.
using Identity = std::map<std::string, std::string>;

struct Plan {
  std::deque<Suite> suites;  // jobs point into them
  std::vector<Job> jobs;
  Identity identity;
  std::vector<std::string> names, dtypes;  // of all cases, including those that the filter drops

  /// Appends the jobs of another plan.
  void append(Plan&& other);
};

/// Selects cases of suites and folders.
struct CaseFilter {
  std::vector<std::string> cases, dtypes;  // globs; empty: all
  std::vector<std::string> fills;          // judge only on these; empty: on those of the case
  bool quick = false;                      // only the cases that a suite marks as quick
  double budget_s = 0;                     // seconds of timed runs; 0: the suite's budget
  bool lenient = false;                    // globs may match nothing, and the plan may be empty
};

/// The cases of suites that pass the filter. A suite is a file, or the name of one that comes with
/// attest. Throws Error: a suite that cannot be read, a glob or fill that matches nothing, an
/// invalid token source, a token file that no case uses, or an empty plan.
Plan plan_suites(const std::vector<std::string>& suites, const CaseFilter& filter,
                 const std::vector<std::string>& token_files = {});

/// One problem by its spec line, as a case named `case_name` without a suite. `dtypes`: a job for
/// each of them, instead of the dtype in the line. Throws Error: an invalid spec line, fill or
/// dtype.
Plan plan_spec(const SpecJob& job, const std::vector<std::string>& fills,
               const std::string& case_name, const std::vector<std::string>& dtypes = {});

/// Describes a .safetensors or .npz file that has no case.json: values for keys of a case.json.
using VectorWords = std::map<std::string, std::string>;

/// Whether a word of a command line is a spec line, and not the name of a suite.
bool is_spec(const std::string& subject);

/// The cases of suites, then a case for each spec line: "problem1", "problem2" ... The filter
/// selects cases of suites. Throws Error as plan_suites and plan_spec do, or if there are only spec
/// lines and the filter selects cases.
Plan plan_subjects(const std::vector<std::string>& subjects, const CaseFilter& filter,
                   const std::vector<std::string>& token_files = {});

/// Keeps only the jobs that `lines` name, in the order of the lines. A line is "SUITE/CASE DTYPE
/// IMPL"; IMPL is a glob, and the implementations that it matches run the job. A job may have
/// several lines. Returns the lines that name no job of the plan. Throws Error if a line has fewer
/// than three words.
std::vector<std::string> keep_records(Plan& plan, const std::vector<std::string>& lines);

/// The vectors of `folders` whose names match the filter's cases. Throws Error: there is no vector,
/// two have the same name, or `words` are invalid or given for a vector that has a description.
Plan plan_vectors(const std::vector<std::string>& folders, const CaseFilter& filter,
                  const VectorWords& words = {});

/// The hashes of the files' contents; "none" without files.
std::string hash_files(const std::vector<std::string>& paths);

}  // namespace attest::core
