#include "cli/jobs.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "core/tensor/error.hpp"

namespace attest::cli {
namespace {

constexpr int64_t kSomeTokens = 65536;  // which fills a problem has does not depend on how many

// The dtypes to run a case in: its own, or those of --dtype that it allows any of.
std::vector<core::DType> dtypes_of(const core::Case& wanted,
                                   const std::vector<std::string>& globs) {
  std::vector<core::DType> kept;
  for (const core::DType dtype : wanted.dtypes)
    if (matches(std::string(core::dtype_name(dtype)), globs)) kept.push_back(dtype);
  return kept;
}

}  // namespace

std::vector<Job> make_jobs(const std::vector<core::Suite>& suites, const CaseFilter& filter) {
  std::vector<Job> jobs;
  std::vector<std::string> names, dtypes;
  for (const core::Suite& suite : suites) {
    for (const core::Case& wanted : suite.cases) {
      if (filter.quick && !wanted.quick) continue;
      // As the table prints it, or without its suite.
      const std::string full_name = suite.name + "/" + wanted.name;
      names.push_back(wanted.name), names.push_back(full_name);
      for (const core::DType dtype : wanted.dtypes) dtypes.emplace_back(core::dtype_name(dtype));
      if (!matches(wanted.name, filter.cases) && !matches(full_name, filter.cases)) continue;
      const double budget_s = filter.budget_s > 0 ? filter.budget_s : suite.budget_s;
      for (const core::DType dtype : dtypes_of(wanted, filter.dtypes))
        jobs.push_back({&wanted, suite.name, suite.file, dtype, budget_s});
    }
  }
  std::sort(dtypes.begin(), dtypes.end());
  dtypes.erase(std::unique(dtypes.begin(), dtypes.end()), dtypes.end());
  require_matches("--dtype", filter.dtypes, dtypes);
  require_matches("--case", filter.cases, names);
  if (jobs.empty())
    throw core::Error(
        "--quick, --case and --dtype together leave no case; attest list SUITE names them");
  return jobs;
}

// A fill that no case has is a slip of the pen: judged without it, a run would say too much.
void check_fills(const std::vector<Job>& jobs, const std::vector<std::string>& wanted) {
  std::vector<std::string> known;
  for (const Job& job : jobs) {
    const core::Problem problem = job.wanted->problem(job.dtype, kSomeTokens);
    for (std::string& fill : core::known_fills(problem, job.wanted->inputs.from_tokens))
      known.push_back(std::move(fill));
  }
  std::sort(known.begin(), known.end());
  known.erase(std::unique(known.begin(), known.end()), known.end());
  core::require_fills("--fill", wanted, known);
}

// A source that makes no sense is found before anything runs.
void check_inputs(const Job& job, const TokenStore& tokens) {
  try {
    if (job.wanted->inputs.from_tokens) tokens.source(job.wanted->inputs.source);
  } catch (const core::Error& error) {
    throw core::Error(fmt::format("suite '{}': case '{}': inputs: {}", job.suite, job.wanted->name,
                                  error.what()));
  }
}

void check_token_files(const std::vector<std::string>& files) {
  for (const std::string& file : files)
    if (!std::filesystem::is_regular_file(file))
      throw core::Error(fmt::format(
          "--tokens {}: no such file; name a .pcd, .ply or .bin sweep, or a .png or .jpg image",
          file));
}

}  // namespace attest::cli
