#include "reports/choice/choice.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "reports/compare/launches.hpp"
#include "reports/escape.hpp"
#include "reports/table.hpp"

namespace attest::reports {
namespace {

using core::Record;
using core::Verdict;

/// What one record says of its implementation.
struct Finding {
  Usable usable = Usable::kYes;
  std::string limit;

  /// Keeps the first of the most serious findings.
  void set(Usable found, const char* what) {
    if (found > usable) *this = {found, what};
  }
};

/// The slowest time that was seen: what a deadline has to hold against.
double worst_of(const core::TimeRecord& time) {
  double worst = std::max(time.max_ns, time.cold_median_ns);
  for (const double sample : time.cold_samples_ns) worst = std::max(worst, sample);
  return worst;
}

void limit_memory(const core::MemoryRecord& memory, double most, Finding& finding) {
  // What was seen is the least that it takes.
  const std::optional<double> used = used_bytes(memory);
  if (used.value_or(double(memory.workspace_bytes)) > most)
    return finding.set(Usable::kNo, "memory");
  if (!used || memory.unseen) finding.set(Usable::kUnknown, "memory");
}

void limit_time(const std::optional<core::TimeRecord>& time, double deadline, Finding& finding) {
  if (!time) return finding.set(Usable::kUnknown, "time");
  if (time->median_low_ns > deadline) return finding.set(Usable::kNo, "deadline");
  if (worst_of(*time) > deadline) finding.set(Usable::kUnknown, "deadline");
}

Finding judge(const Record& record, const ChoiceLimits& limits) {
  Finding finding;
  const Verdict verdict = record.outcome.verdict();
  if (verdict == Verdict::kSkipped) return {Usable::kUnknown, "skipped"};
  if (verdict != Verdict::kPass) return {Usable::kNo, std::string(core::name(verdict))};
  // An error of NaN is compared so that it rejects.
  if (limits.max_error_ratio && !(record.max_ratio <= *limits.max_error_ratio))
    finding.set(Usable::kNo, "accuracy");
  if (limits.memory_bytes) limit_memory(record.memory, *limits.memory_bytes, finding);
  if (limits.deadline_ns) limit_time(record.time, *limits.deadline_ns, finding);
  return finding;
}

/// One implementation with one number of threads, and its records: the last one of each problem.
struct Measured {
  std::string impl;
  int32_t threads = 1;
  std::vector<const Record*> records;
};

std::vector<Measured> by_implementation(const ProblemRecords& problem) {
  const bool is_case = !problem.name.empty();
  const auto is_again = [&](const Record* a, const Record* b) {
    return is_case || (a->case_name == b->case_name && tokens_of(a->spec) == tokens_of(b->spec));
  };
  std::vector<Measured> all;
  for (const Record* record : problem.records) {
    auto at = std::ranges::find_if(all, [&](const Measured& one) {
      return one.impl == record->impl && one.threads == record->threads;
    });
    if (at == all.end()) at = all.insert(at, {record->impl, record->threads, {}});
    const auto old =
        std::ranges::find_if(at->records, [&](const Record* one) { return is_again(one, record); });
    if (old == at->records.end())
      at->records.push_back(record);
    else
      *old = record;
  }
  return all;
}

/// By which factor the record's size differs: a distance on the axis of log2.
double distance(const Record* record, int64_t tokens) {
  const auto [less, more] = std::minmax({tokens_of(record->spec), tokens});
  return double(more) / double(less);
}

/// The records at the nearest sizes that were measured, at or below the tokens and at or above.
struct Neighbours {
  int64_t low = 0, high = 0;           // sizes; 0: none
  std::vector<const Record*> records;  // the nearest first

  Neighbours(std::vector<const Record*> all, int64_t tokens) : records(std::move(all)) {
    std::erase_if(records, [](const Record* record) {
      return record->outcome.verdict() == Verdict::kSkipped;
    });
    for (const Record* record : records) {
      const int64_t size = tokens_of(record->spec);
      if (size <= tokens) low = std::max(low, size);
      if (size >= tokens) high = high == 0 ? size : std::min(high, size);
    }
    std::erase_if(records, [&](const Record* record) {
      const int64_t size = tokens_of(record->spec);
      return size != low && size != high;
    });
    std::ranges::stable_sort(records, std::less(),
                             [&](const Record* record) { return distance(record, tokens); });
  }
};

/// What the neighbours say together.
Finding judge(const Neighbours& near, const ChoiceLimits& limits) {
  Finding first = judge(*near.records.front(), limits);
  const bool agree = std::ranges::all_of(near.records, [&](const Record* record) {
    return judge(*record, limits).usable == first.usable;
  });
  if (near.high == 0 && agree && first.usable == Usable::kNo) return first;
  if (near.high == 0 || near.low == 0) return {Usable::kUnknown, "range"};
  return agree ? first : Finding{Usable::kUnknown, "between"};
}

Candidate candidate_of(Measured measured, std::optional<int64_t> tokens,
                       const ChoiceLimits& limits) {
  Candidate candidate{.impl = std::move(measured.impl), .threads = measured.threads};
  Finding finding;
  if (tokens) {
    Neighbours near(measured.records, *tokens);
    if (!near.records.empty()) {
      finding = judge(near, limits);
      candidate.points = std::move(near.records);
    }
  }
  if (candidate.points.empty()) {
    candidate.points = {measured.records.back()};
    finding = judge(*candidate.points[0], limits);
  }
  candidate.usable = finding.usable;
  candidate.limit = finding.limit;
  return candidate;
}

/// The problems whose records have the same key, in the order of their first records. `identify`
/// sets what a record's problem is, and returns whether it has one.
template <class Identify>
std::vector<ProblemRecords> group(const Input& input, Identify identify) {
  std::vector<ProblemRecords> all;
  std::map<std::tuple<std::string, std::string, std::string, std::string, std::string>, size_t> at;
  for (const core::Results& run : input.runs) {
    for (const Record& record : run.records) {
      ProblemRecords one{
          .suite = record.suite, .dtype = record.dtype, .machine = machine(run, record, "cpu")};
      if (!identify(record, one)) continue;
      const std::string spec = one.name.empty() ? one.spec : "";
      const auto [found, fresh] =
          at.try_emplace({one.suite, one.name, one.dtype, one.machine, spec}, all.size());
      if (fresh) all.push_back(std::move(one));
      all[found->second].records.push_back(&record);
    }
  }
  return all;
}

/// "at 4,096 tokens"
std::string at_tokens(const Record& record) {
  return fmt::format("at {} tokens", tokens_of(record.spec));
}

/// What one record says, of a finding that is about it.
std::string say(const Record& r, const Finding& finding, const ChoiceLimits& limits) {
  if (finding.limit.empty())
    return r.time ? fmt::format("meets every limit; slowest seen {}", print_time(worst_of(*r.time)))
                  : "meets every limit; not timed";
  if (finding.limit == "accuracy")
    return fmt::format("its error is {} of its gate, the limit is {:g}", three_digits(r.max_ratio),
                       *limits.max_error_ratio);
  if (finding.limit == "time") return "it was not timed";
  if (finding.limit == "memory") {
    const std::optional<double> used = used_bytes(r.memory);
    if (finding.usable == Usable::kUnknown)
      return used ? fmt::format("not all of its memory was counted: {}", *r.memory.unseen)
                  : "its memory was not measured";
    return fmt::format("{} {} beyond the tensors, the limit is {}", used ? "takes" : "declares",
                       print_bytes(used ? *used : double(r.memory.workspace_bytes)),
                       print_bytes(*limits.memory_bytes));
  }
  if (finding.limit != "deadline")
    return fmt::format("{}: {}", finding.limit, printable(r.outcome.reason));
  const core::TimeRecord& time = *r.time;
  if (finding.usable == Usable::kNo)
    return fmt::format("its median is {}, at least {}; the deadline is {}",
                       print_time(time.median_ns), print_time(time.median_low_ns),
                       print_time(*limits.deadline_ns));
  return fmt::format(
      "its median {} meets the deadline, but the slowest of {} samples took {}: run it again on a "
      "quiet machine, or paced",
      print_time(time.median_ns), time.samples_ns.size(), print_time(worst_of(time)));
}

/// The largest of `value` over the points; nothing if one was not timed.
template <class Value>
std::optional<double> largest(const std::vector<const Record*>& points, Value value) {
  double most = 0;
  for (const Record* point : points) {
    if (!point->time) return std::nullopt;
    most = std::max(most, value(*point->time));
  }
  return most;
}

}  // namespace

std::vector<ProblemRecords> cases(const Input& input) {
  return group(input, [](const Record& record, ProblemRecords& problem) {
    problem.name = record.case_name;
    problem.spec = record.spec;
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
  return fmt::format("{}{} {}", suite, problem.name, problem.dtype);
}

std::string family_of(const Record& record) {
  const bool is_for_launch_cost = record.sweep && record.sweep->over.empty();
  const bool has_tokens = tokens_of(record.spec) > 0;
  return has_tokens && !is_for_launch_cost ? without_tokens(record.spec) : std::string();
}

const char* name(Usable usable) {
  constexpr const char* kNames[] = {"usable", "undecided", "rejected"};
  return kNames[size_t(usable)];
}

std::optional<double> Candidate::median_ns() const {
  return largest(points, [](const core::TimeRecord& time) { return time.median_ns; });
}
std::optional<double> Candidate::worst_ns() const { return largest(points, worst_of); }

const Candidate* Choice::best() const {
  return usable_count() == 0 ? nullptr : &candidates.front();
}
Usable Choice::usable() const {
  return candidates.empty() ? Usable::kUnknown : candidates.front().usable;
}
size_t Choice::usable_count() const {
  return size_t(std::ranges::count(candidates, Usable::kYes, &Candidate::usable));
}

Choice choose(const ProblemRecords& problem, std::optional<int64_t> tokens,
              const ChoiceLimits& limits) {
  Choice choice{.tokens = tokens};
  for (Measured& measured : by_implementation(problem))
    choice.candidates.push_back(candidate_of(std::move(measured), tokens, limits));
  std::ranges::sort(choice.candidates, std::less(), [](const Candidate& one) {
    return std::tuple(one.usable, one.median_ns().value_or(INFINITY), one.impl, one.threads);
  });
  return choice;
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

std::string why(const Candidate& candidate, std::optional<int64_t> tokens,
                const ChoiceLimits& limits) {
  const Record& nearest = *candidate.points.front();
  if (candidate.limit == "range")
    return fmt::format("measured {} {} tokens only",
                       tokens_of(nearest.spec) < *tokens ? "up to" : "from",
                       tokens_of(nearest.spec));
  if (candidate.limit != "between") {
    const std::string said = say(nearest, {candidate.usable, candidate.limit}, limits);
    const bool is_there = !tokens || tokens_of(nearest.spec) == *tokens;
    return is_there ? said : fmt::format("{}: {}", at_tokens(nearest), said);
  }
  std::vector<std::string> parts;
  for (const Record* point : candidate.points)
    parts.push_back(
        fmt::format("{}: {}", at_tokens(*point), say(*point, judge(*point, limits), limits)));
  return fmt::format("its nearest measured sizes disagree: {}", fmt::join(parts, "; "));
}

}  // namespace attest::reports
