#include "core/session/sweep_plan.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "core/isolation/installation.hpp"
#include "core/problem/glob.hpp"
#include "core/problem/spec.hpp"
#include "core/tensor/error.hpp"

namespace attest::core {
namespace {

SweepPoint point_of(const Sweep& sweep, const std::string& over, int64_t value) {
  SweepPoint point{sweep.of.base.name, over, value, {}, {}};
  if (sweep.of.deadline_s > 0) point.deadline_ns = sweep.of.deadline_s * 1e9;
  if (sweep.of.memory_bytes > 0) point.memory_bytes = sweep.of.memory_bytes;
  return point;
}

void add_job(const Sweep& sweep, const std::string& point_name, const Problem& problem,
             const PointOptions& options, SweepPoint point, Plan& plan) {
  const Case& base = sweep.of.base;
  std::string name = fmt::format("{}/{}", base.name, point_name);
  if (options.threads > 0) name += fmt::format("/threads={}", options.threads);
  const std::string dtype(dtype_name(problem.dtype));
  plan.jobs.push_back({base.suite, name, dtype, options.fills.empty() ? base.fills : options.fills,
                       options.budget_s, SpecJob{print_problem(problem), "random", base.only_impls},
                       std::move(point)});
  plan.names.push_back(name);
  plan.dtypes.push_back(dtype);
}

// Once for all sweeps of an entry.
void add_smallest(const Sweep& sweep, const PointOptions& options, Plan& plan) {
  for (const DType dtype : sweep.of.base.dtypes)
    if (const std::optional<Problem> problem = sweep.smallest(dtype))
      add_job(sweep, "smallest", *problem, options, point_of(sweep, "", 0), plan);
}

void check_fills(const Sweep& sweep, const std::vector<std::string>& fills) {
  for (const DType dtype : sweep.of.base.dtypes)
    require_fills("--fill", fills, known_fills(sweep.at(dtype, sweep.values.front()), false));
}

void keep_dtypes(const std::vector<std::string>& globs, Scaling& scaling) {
  std::erase_if(scaling.base.dtypes,
                [&](const DType dtype) { return !matches(std::string(dtype_name(dtype)), globs); });
}

}  // namespace

std::vector<Scaling> read_scalings(const std::vector<std::string>& suites,
                                   const SweepFilter& filter) {
  std::vector<Scaling> kept;
  std::vector<std::string> names, dtypes;
  for (const std::string& file : suites) {
    const Suite suite = read_suite(find_suite(file));
    if (suite.scaling.empty())
      throw Error(
          fmt::format("{}: has no section scaling; give a problem, e.g. attest scale "
                      "'softmax num_heads=8 head_dim=64' --over seq_len_q=1k..256k",
                      file));
    for (Scaling scaling : suite.scaling) {
      for (const DType dtype : scaling.base.dtypes) dtypes.emplace_back(dtype_name(dtype));
      if (filter.quick) scaling.base.dtypes = scaling.base.quick;
      if (scaling.base.dtypes.empty()) continue;
      names.push_back(scaling.base.name);
      keep_dtypes(filter.dtypes, scaling);
      if (matches(scaling.base.name, filter.names) && !scaling.base.dtypes.empty())
        kept.push_back(std::move(scaling));
    }
  }
  require_matches("--dtype", filter.dtypes, dtypes);
  require_matches("--case", filter.names, names);
  if (kept.empty() && !suites.empty())
    throw Error("--quick, --case and --dtype together leave no sweep");
  return kept;
}

void number_names(std::vector<Scaling>& scalings) {
  std::map<std::string, int> times;
  for (Scaling& scaling : scalings)
    if (const int now = ++times[scaling.base.suite + "/" + scaling.base.name]; now > 1)
      scaling.base.name += fmt::format("-{}", now);
}

void add_point(const Sweep& sweep, int64_t value, const PointOptions& options, Plan& plan) {
  for (const DType dtype : sweep.of.base.dtypes)
    add_job(sweep, fmt::format("{}={}", sweep.over, value), sweep.at(dtype, value), options,
            point_of(sweep, sweep.over, value), plan);
}

Plan plan_sweeps(std::span<const Sweep> sweeps, const PointOptions& options) {
  Plan plan;
  std::set<std::string> begun;
  for (const Sweep& sweep : sweeps) {
    check_fills(sweep, options.fills);
    if (begun.insert(sweep.of.base.suite + "/" + sweep.of.base.name).second)
      add_smallest(sweep, options, plan);
    for (const int64_t value : sweep.values) add_point(sweep, value, options, plan);
  }
  std::string lines;
  for (const Job& job : plan.jobs)
    lines +=
        fmt::format("{}/{} {}\n", job.suite, job.case_name, std::get<SpecJob>(job.source).spec);
  plan.identity = {{"sweeps", fmt::format("{} ({})", plan.jobs.size(), hex(hash_text(lines)))},
                   {"fills", fmt::format("{}", fmt::join(options.fills, ","))}};
  return plan;
}

}  // namespace attest::core
