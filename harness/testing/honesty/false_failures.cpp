#include "testing/honesty/false_failures.hpp"

#include <fmt/format.h>
#include <omp.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "core/inputs/tokens.hpp"
#include "core/problem/spec.hpp"
#include "core/run/runner.hpp"
#include "core/tensor/random.hpp"
#include "core/tensor/stopwatch.hpp"

namespace attest::core::testing {
namespace {

constexpr int64_t kAskedForRelations = 4;  // one problem in so many

Problem problem_of(const TrialOptions& options, int64_t index) {
  if (!options.spec.empty()) return parse_problem(options.spec);
  if (index < options.problems)
    return random_problem(options.seed, uint64_t(index), options.limits);
  ProblemLimits top = options.limits;
  top.least_tokens = top.most_tokens;
  top.least_flops = top.most_flops / 10;
  top.most_flops /= 4;
  return random_problem(options.seed, uint64_t(index), top);
}

// Those of the problem's operation; `each` of them, drawn without putting any back.
std::vector<const Implementation*> chosen(Plugin& plugin, const Problem& problem,
                                          const TrialOptions& options, int64_t index) {
  std::vector<const Implementation*> found;
  for (const Implementation& one : plugin.implementations())
    if (one.operation == problem.operation->number() &&
        one.name.starts_with(options.implementations))
      found.push_back(&one);
  if (options.each == 0 || options.each >= found.size()) return found;
  const uint64_t seed = random_bits(random_bits(options.seed, 11), uint64_t(index));
  for (size_t n = 0; n < options.each; ++n)
    std::swap(found[n], found[n + random_below(seed, n, found.size() - n)]);
  found.resize(options.each);
  return found;
}

void add(const Record& record, std::vector<FillVerdict>& verdicts) {
  FillVerdict common{.implementation = record.impl, .dtype = record.dtype, .spec = record.spec};
  for (const FillRecord& fill : record.fills) {
    FillVerdict& one = verdicts.emplace_back(common);
    one.fill = fill.fill;
    one.verdict = name(fill.judgement.outcome.verdict());
    one.reason = fill.judgement.outcome.reason;
    one.max_ratio = fill.judgement.max_ratio;
    one.rms_ratio = fill.judgement.rms_ratio;
  }
  const bool said =
      !record.fills.empty() && verdicts.back().verdict == name(record.outcome.verdict());
  if (said || record.outcome.passes()) return;
  common.verdict = name(record.outcome.verdict());
  common.reason = record.outcome.reason;
  verdicts.push_back(common);
}

// The rows of the table that an implementation counts in: its name, or each part of
// "prob_f16__first__tiles".
std::vector<std::string> rows_of(const std::string& name) {
  std::vector<std::string> rows;
  for (size_t begin = 0, end; begin <= name.size(); begin = end + 2) {
    end = std::min(name.find("__", begin), name.size());
    rows.push_back(name.substr(begin, end - begin));
  }
  return rows;
}

double quantile(const std::vector<double>& sorted, double share) {
  return sorted[std::min(sorted.size() - 1, size_t(share * double(sorted.size())))];
}
std::string quantiles(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return fmt::format("{:.2f} {:.2f} {:.2f} **{:.2f}**", quantile(values, 0.5),
                     quantile(values, 0.9), quantile(values, 0.99), values.back());
}

}  // namespace

std::vector<FillVerdict> judge_random_problems(const std::filesystem::path& path,
                                               const TrialOptions& options, int64_t shard,
                                               int64_t shards) {
  if (shards > 1) omp_set_num_threads(1);
  RunOptions run;
  run.timed = false;
  run.diagnosed = false;
  run.limits.case_limit_s = 1e6;  // slow machines too
  if (!options.fill.empty()) run.fills = {options.fill};
  Rates rates;
  Plugin plugin(
      path, {.executable = find_worker(), .cpus = "", .limits = {.threads = 1, .timeout_s = 120}});
  std::optional<Tokens> tokens;
  if (!options.inputs.empty()) tokens = load_tokens(parse_token_source(options.inputs));
  std::vector<FillVerdict> verdicts;
  const auto start = Clock::now();
  for (int64_t index = shard; index < options.problems + options.at_the_top; index += shards) {
    if (seconds_since(start) > options.seconds) break;
    const Problem problem = problem_of(options, index);
    // Ten relations and more cost three times what the fills do.
    const bool related = options.relations && index / shards % kAskedForRelations == 0;
    run.relations = related ? RelationChoice::kAuto : RelationChoice::kNone;
    const std::string spec = print_problem(problem);
    CaseRunner runner(problem, spec, {"random", std::to_string(index), "random", ""},
                      tokens ? &*tokens : nullptr, run, rates);
    for (const Implementation* implementation : chosen(plugin, problem, options, index))
      add(runner.run(plugin, *implementation), verdicts);
  }
  return verdicts;
}

int64_t count_false_failures(const std::vector<FillVerdict>& verdicts) {
  return std::count_if(verdicts.begin(), verdicts.end(),
                       [](const FillVerdict& v) { return v.tried() && !v.pass(); });
}

int exit_code(const std::vector<FillVerdict>& verdicts) {
  const bool any =
      std::any_of(verdicts.begin(), verdicts.end(), [](const FillVerdict& v) { return v.tried(); });
  return count_false_failures(verdicts) > 0 ? 1 : any ? 0 : 4;
}

void print_false_failures(const std::vector<FillVerdict>& verdicts, std::FILE* out) {
  std::map<std::pair<std::string, std::string>, std::pair<std::vector<double>, std::vector<double>>>
      ratios;
  std::set<std::string> specs;
  int64_t passes = 0, unsupported = 0, skipped = 0;
  for (const FillVerdict& v : verdicts) {
    specs.insert(v.spec);
    passes += v.pass();
    unsupported += v.verdict == "unsupported";
    skipped += v.verdict == "skipped";
    if (v.fill.empty()) continue;
    for (const std::string& row : rows_of(v.implementation))
      for (const char* dtype : {v.dtype.c_str(), "all"}) {
        auto& [largest, rms] = ratios[{row, dtype}];
        largest.push_back(v.max_ratio);
        rms.push_back(v.rms_ratio);
      }
  }
  fmt::print(out, "{} problems, {} judged outputs: **{} false failures**", specs.size(), passes,
             count_false_failures(verdicts));
  if (unsupported > 0) fmt::print(out, ", {} unsupported", unsupported);
  if (skipped > 0) fmt::print(out, ", {} skipped", skipped);
  fmt::print(out,
             "\n\nEach ratio is an error as a share of its gate: 50 %, 90 %, 99 % of the outputs "
             "are at most this, and the "
             "largest.\n\n");
  fmt::print(out,
             "| implementation | dtype | outputs | largest error: 50 90 99 **max** | root mean "
             "square: 50 90 99 **max** "
             "|\n|---|---|---|---|---|\n");
  for (const auto& [key, both] : ratios)
    fmt::print(out, "| {} | {} | {} | {} | {} |\n", key.first, key.second, both.first.size(),
               quantiles(both.first), quantiles(both.second));
  for (const FillVerdict& v : verdicts)
    if (!v.pass() && v.verdict != "unsupported")
      fmt::print(out, "\n{} {} {} ({:.3g} {:.3g}): {}\n    {}\n", v.implementation, v.fill,
                 v.verdict, v.max_ratio, v.rms_ratio, v.reason, v.spec);
}

}  // namespace attest::core::testing
