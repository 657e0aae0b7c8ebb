#include "core/session/plan.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <set>

#include "core/isolation/installation.hpp"
#include "core/isolation/libraries.hpp"
#include "core/problem/glob.hpp"
#include "core/problem/spec.hpp"
#include "core/tensor/error.hpp"
#include "core/tensor/tensor.hpp"
#include "core/vectors/formats/formats.hpp"

namespace attest::core {
namespace {

constexpr int64_t kSomeTokens = 65536;  // which fills a problem has does not depend on how many

// What a session judges, in one word: how many cases, and the hash of their names.
std::string print_cases(size_t count, const std::string& lines) {
  return fmt::format("{} ({})", count, hex(hash_text(lines)));
}

void add_case(const Suite& suite, const Case& wanted, const CaseFilter& filter, Plan& plan) {
  const double budget_s = filter.budget_s > 0 ? filter.budget_s : suite.budget_s;
  for (const DType dtype : filter.quick ? wanted.quick : wanted.dtypes) {
    const std::string name(dtype_name(dtype));
    if (matches(name, filter.dtypes))
      plan.jobs.push_back({suite.name, wanted.name, name,
                           filter.fills.empty() ? wanted.fills : filter.fills, budget_s,
                           SuiteJob{&wanted, suite.file, dtype}});
  }
}

void add_cases(const Suite& suite, const CaseFilter& filter, Plan& plan) {
  for (const Case& wanted : suite.cases) {
    if (filter.quick && wanted.quick.empty()) continue;
    const std::string full_name = suite.name + "/" + wanted.name;  // as the table prints it
    plan.names.push_back(wanted.name);
    plan.names.push_back(full_name);
    for (const DType dtype : wanted.dtypes) plan.dtypes.emplace_back(dtype_name(dtype));
    if (matches(wanted.name, filter.cases) || matches(full_name, filter.cases))
      add_case(suite, wanted, filter, plan);
  }
}

void require_jobs(const Plan& plan, const CaseFilter& filter) {
  require_matches("--dtype", filter.dtypes, plan.dtypes);
  require_matches(filter.quick ? "--quick --case" : "--case", filter.cases, plan.names);
  if (plan.jobs.empty())
    throw Error("--quick, --case and --dtype together leave no case; attest list SUITE names them");
}

// A fill that no case has is a slip of the pen: judged without it, a run would say too much.
void check_fills(const std::vector<Job>& jobs, const std::vector<std::string>& wanted) {
  std::set<std::string> known;
  for (const Job& job : jobs) {
    const auto& [one, file, dtype] = std::get<SuiteJob>(job.source);
    for (std::string& fill : known_fills(one->problem(dtype, kSomeTokens), one->inputs.from_tokens))
      known.insert(std::move(fill));
  }
  require_fills("--fill", wanted, {known.begin(), known.end()});
}

// A source that makes no sense is found before anything runs.
void check_inputs(const std::vector<Job>& jobs, const std::vector<std::string>& token_files) {
  const TokenStore store(token_files);
  std::vector<std::string> lines;
  for (const Job& job : jobs) {
    const Inputs& inputs = std::get<SuiteJob>(job.source).wanted->inputs;
    if (!inputs.from_tokens) continue;
    lines.push_back(inputs.source);
    try {
      store.source(inputs.source);
    } catch (const Error& error) {
      throw Error(
          fmt::format("suite '{}': case '{}': inputs: {}", job.suite, job.case_name, error.what()));
    }
  }
  if (const std::string unused = store.unused_file(lines); !unused.empty())
    throw Error(fmt::format("--tokens {}: no case takes tokens of that kind", unused));
}

/// A vector's files, a line each: what its description says, and the tensors beside it as they are
/// when the run begins.
void list_files(const VectorPlace& place, std::set<std::string>& lines) {
  lines.insert(hash_files({place.model.string()}));
  if (place.bare) return;
  // A description in the working directory has no folder in its name.
  const std::filesystem::path folder = place.data.empty() ? "." : place.data;
  for (const auto& entry : std::filesystem::directory_iterator(folder))
    if (tensor_format(entry.path()))
      lines.insert(fmt::format("{} {} {}", entry.path().string(), entry.file_size(),
                               entry.last_write_time().time_since_epoch().count()));
}

Identity identify_vectors(const std::vector<Job>& jobs) {
  std::set<std::string> files;
  std::string cases, all;
  for (const Job& job : jobs) {
    const VectorPlace& place = std::get<VectorJob>(job.source).place;
    list_files(place, files);
    cases += fmt::format("{}/{}", job.suite, job.case_name);
    for (const auto& [key, value] : place.words) cases += fmt::format(" --{} {}", key, value);
    cases += "\n";
  }
  for (const std::string& line : files) all += line + "\n";
  return {{"cases", print_cases(jobs.size(), cases)}, {"vectors", hex(hash_text(all))}};
}

}  // namespace

std::string Job::name() const {
  return fmt::format("{}{}{} {}", suite, suite.empty() ? "" : "/", case_name, dtype);
}

std::string Job::token_line() const {
  if (const auto* of_suite = std::get_if<SuiteJob>(&source)) {
    const Inputs& inputs = of_suite->wanted->inputs;
    return inputs.from_tokens ? inputs.source : "";
  }
  const auto* spec = std::get_if<SpecJob>(&source);
  return spec && spec->inputs != "random" ? spec->inputs : "";
}

std::vector<std::string> Job::only_impls() const {
  if (!only.empty()) return only;
  if (const auto* of_suite = std::get_if<SuiteJob>(&source)) return of_suite->wanted->only_impls;
  const auto* spec = std::get_if<SpecJob>(&source);
  return spec ? spec->only_impls : std::vector<std::string>();
}

void Plan::append(Plan&& other) {
  for (Suite& suite : other.suites) suites.push_back(std::move(suite));
  for (Job& job : other.jobs) jobs.push_back(std::move(job));
  identity.merge(other.identity);
  names.insert(names.end(), other.names.begin(), other.names.end());
  dtypes.insert(dtypes.end(), other.dtypes.begin(), other.dtypes.end());
}

Plan plan_suites(const std::vector<std::string>& suites, const CaseFilter& filter,
                 const std::vector<std::string>& token_files) {
  Plan plan;
  std::vector<std::string> files;
  for (const std::string& suite : suites) {
    files.push_back(find_suite(suite));
    const Suite& read = plan.suites.emplace_back(read_suite(files.back()));
    if (read.cases.empty())
      throw Error(fmt::format("{0}: has no cases, but sweeps: attest scale {0}", suite));
    add_cases(read, filter, plan);
  }
  std::ranges::sort(plan.dtypes);
  plan.dtypes.erase(std::unique(plan.dtypes.begin(), plan.dtypes.end()), plan.dtypes.end());
  if (!filter.lenient) require_jobs(plan, filter);
  if (!filter.fills.empty()) check_fills(plan.jobs, filter.fills);
  check_inputs(plan.jobs, token_files);
  std::string cases;
  for (const Job& job : plan.jobs)
    cases += fmt::format("{}/{} {} {}\n", job.suite, job.case_name, job.dtype, job.budget_s);
  plan.identity = {{"suites", hash_files(files)},
                   {"cases", print_cases(plan.jobs.size(), cases)},
                   {"fills", fmt::format("{}", fmt::join(filter.fills, ","))},
                   {"tokens", hash_files(token_files)}};
  return plan;
}

Plan plan_spec(const SpecJob& job, const std::vector<std::string>& fills,
               const std::string& case_name, const std::vector<std::string>& dtypes) {
  Plan plan;
  for (const std::string& line : lines_in_dtypes(job.spec, dtypes)) {
    SpecJob source = job;
    source.spec = line;
    const Problem problem = parse_problem(source.spec);
    require_fills("--fill", fills, known_fills(problem, job.inputs != "random"));
    const std::string dtype(dtype_name(problem.dtype));
    plan.jobs.push_back({"", case_name, dtype, fills, 0, std::move(source)});
  }
  return plan;
}

bool is_spec(const std::string& subject) {
  const std::string first = subject.substr(0, subject.find(' '));
  return find_operation(first) || subject.find_first_of(" =") != subject.npos;
}

Plan plan_subjects(const std::vector<std::string>& subjects, const CaseFilter& filter,
                   const std::vector<std::string>& token_files) {
  std::vector<std::string> suites, specs;
  for (const std::string& subject : subjects)
    (is_spec(subject) ? specs : suites).push_back(subject);
  if (suites.empty() && (filter.quick || !filter.cases.empty() || !filter.dtypes.empty()))
    throw Error(
        "--quick, --case and --dtype select cases of suites; a problem has a word dtype=f16");
  if (suites.empty() && !token_files.empty())
    throw Error(fmt::format("--tokens {}: no case takes tokens of that kind", token_files.front()));
  Plan plan;
  if (!suites.empty()) plan = plan_suites(suites, filter, token_files);
  for (size_t i = 0; i < specs.size(); ++i)
    plan.append(plan_spec({.spec = specs[i]}, filter.fills, fmt::format("problem{}", i + 1)));
  if (!specs.empty()) plan.identity["problems"] = fmt::format("{}", fmt::join(specs, "; "));
  return plan;
}

std::vector<std::string> keep_records(Plan& plan, const std::vector<std::string>& lines) {
  std::vector<std::string> unknown;
  std::vector<Job> kept;
  for (const std::string& line : lines) {
    const size_t space = line.rfind(' ');
    if (space == line.npos || line.find(' ') == space)
      throw Error(fmt::format("{}: must be SUITE/CASE DTYPE IMPL", in_quotes(line)));
    const std::string wanted = line.substr(0, space), impl = line.substr(space + 1);
    auto at = std::ranges::find(kept, wanted, &Job::name);
    if (at == kept.end()) {
      const auto job = std::ranges::find(plan.jobs, wanted, &Job::name);
      if (job == plan.jobs.end()) {
        unknown.push_back(line);
        continue;
      }
      at = kept.insert(at, *job);
      at->only.clear();
    }
    at->only.push_back(impl);
  }
  plan.jobs = std::move(kept);
  plan.identity["records"] = hex(hash_text(fmt::format("{}", fmt::join(lines, "\n"))));
  return unknown;
}

Plan plan_vectors(const std::vector<std::string>& folders, const CaseFilter& filter,
                  const VectorWords& words) {
  check_words(words);
  Plan plan;
  std::map<std::string, std::string> models;
  for (const std::string& folder : folders) {
    const std::string suite = suite_of_vectors(folder);
    for (VectorPlace place : find_vectors(folder)) {
      if (!words.empty() && !place.bare)
        throw Error(fmt::format("--{} is for {} alone; {} says so itself", words.begin()->first,
                                kFilesOfCases, place.model.filename().string()));
      place.words = words;
      const std::string full_name = suite + "/" + place.name;
      if (const auto [at, first] = models.emplace(full_name, place.model); !first)
        throw Error(fmt::format("{} and {} are both called {}: judge one after the other",
                                at->second, place.model.string(), full_name));
      plan.names.push_back(place.name);
      plan.names.push_back(full_name);
      if (matches(place.name, filter.cases) || matches(full_name, filter.cases))
        plan.jobs.push_back({suite, place.name, "", {}, 0, VectorJob{folder, place}});
    }
  }
  if (plan.jobs.empty() && !filter.lenient) require_matches("--case", filter.cases, plan.names);
  plan.identity = identify_vectors(plan.jobs);
  return plan;
}

std::string hash_files(const std::vector<std::string>& paths) {
  std::string all;
  for (const std::string& path : paths) all += (all.empty() ? "" : " ") + hex(hash_file(path));
  return all.empty() ? "none" : all;
}

}  // namespace attest::core
