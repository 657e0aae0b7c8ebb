#include "reports/choice/problems.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <functional>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "reports/words/machine.hpp"
#include "reports/words/sizes.hpp"

namespace attest::reports {
namespace {

using core::Record;
using core::Results;

/// A record of each implementation, by its name: the last one.
using LastRecords = std::map<std::string, const Record*>;

/// Those of `all` that the problem has no record of.
std::vector<const Record*> others_than(const ProblemRecords& problem, const LastRecords& all) {
  std::vector<const Record*> others;
  for (const auto& [impl, record] : all)
    if (std::ranges::find(problem.records, impl, &Record::impl) == problem.records.end())
      others.push_back(record);
  return others;
}

/// The runs as they were started, whatever the order in which their files were given.
std::vector<const Results*> by_time(const Input& input) {
  std::vector<const Results*> runs;
  for (const Results& run : input.runs) runs.push_back(&run);
  std::ranges::stable_sort(runs, {}, [](const Results* run) { return run->header.started; });
  return runs;
}

/// Sets what tells a problem from others of its name.
void tell_apart(std::vector<ProblemRecords>& all) {
  struct Seen {
    std::set<std::string> specs, inputs;
  };
  const auto name_of = [](const ProblemRecords& one) {
    return std::tuple(one.suite, one.name, one.dtype, one.machine);
  };
  std::map<decltype(name_of(all.front())), Seen> seen;
  for (const ProblemRecords& one : all) {
    seen[name_of(one)].specs.insert(one.spec);
    seen[name_of(one)].inputs.insert(one.inputs);
  }
  for (ProblemRecords& one : all) {
    const Seen& same = seen.at(name_of(one));
    if (one.name.empty()) continue;
    if (same.specs.size() > 1) one.apart = one.spec;
    if (same.inputs.size() > 1) one.apart += (one.apart.empty() ? "" : ", ") + one.inputs;
  }
}

/// The problems whose records have the same key, in the order of their first records. `identify`
/// sets what a record's problem is, and returns whether it has one.
template <class Identify>
std::vector<ProblemRecords> group(const Input& input, Identify identify) {
  std::vector<ProblemRecords> all;
  std::map<std::array<std::string, 6>, size_t> at;
  std::map<std::string, LastRecords> of_machine;
  const std::vector<std::string> devices = devices_of(input.runs);
  for (const Results* run : by_time(input)) {
    for (const Record& record : run->records) {
      ProblemRecords one{.suite = record.suite,
                         .dtype = record.dtype,
                         .machine = machine(*run, record, devices),
                         .input = &input};
      of_machine[one.machine][record.impl] = &record;
      if (!identify(record, one)) continue;
      const auto [found, fresh] = at.try_emplace(
          {one.suite, one.name, one.dtype, one.machine, one.spec, one.inputs}, all.size());
      if (fresh) all.push_back(std::move(one));
      all[found->second].records.push_back(&record);
    }
  }
  for (ProblemRecords& one : all) one.others = others_than(one, of_machine.at(one.machine));
  tell_apart(all);
  return all;
}

}  // namespace

std::vector<ProblemRecords> cases(const Input& input) {
  return group(input, [](const Record& record, ProblemRecords& problem) {
    problem.name = record.case_name;
    problem.spec = record.spec;
    problem.inputs = record.inputs;
    return true;
  });
}

std::vector<ProblemRecords> families(const Input& input) {
  return group(input, [](const Record& record, ProblemRecords& problem) {
    problem.spec = family_of(record);
    return !problem.spec.empty();
  });
}

std::string title(const ProblemRecords& problem) {
  const std::string suite = problem.suite.empty() ? "" : problem.suite + "/";
  if (problem.name.empty())
    return problem.suite.empty() ? problem.spec : problem.suite + ": " + problem.spec;
  return fmt::format("{}{} {}{}{}", suite, problem.name, problem.dtype,
                     problem.apart.empty() ? "" : ": ", problem.apart);
}

std::string family_of(const Record& record) {
  const bool is_for_launch_cost = record.sweep && record.sweep->over.empty();
  const bool has_tokens = tokens_of(record.spec) > 0;
  return has_tokens && !is_for_launch_cost ? without_tokens(record.spec) : std::string();
}

std::vector<int64_t> grid(const ProblemRecords& family) {
  int64_t fewest = 0, most = 0;
  for (const Record* record : family.records) {
    const int64_t tokens = tokens_of(record->spec);
    fewest = fewest == 0 ? tokens : std::min(fewest, tokens);
    most = std::max(most, tokens);
  }
  std::vector<int64_t> sizes;
  for (int64_t size = 1; size <= most; size *= 2)
    if (size >= fewest) sizes.push_back(size);
  return sizes;
}

double distance(const Record& record, int64_t tokens) {
  const auto [less, more] = std::minmax({tokens_of(record.spec), tokens});
  return double(more) / double(less);
}

const Results& run_of(const Input& input, const Record& record) {
  return *std::ranges::find_if(input.runs, [&](const Results& run) {
    const Record* const first = run.records.data();
    return std::greater_equal<>()(&record, first) &&
           std::less<>()(&record, first + run.records.size());
  });
}

std::string processor(const Results& run, const Record& record) {
  const std::string name = fact(run, record.device, record.device == "cpu" ? "model" : "name");
  return name.empty() ? record.device : name;
}

}  // namespace attest::reports
