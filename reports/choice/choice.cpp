#include "reports/choice/choice.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <tuple>
#include <utility>

#include "reports/sizes.hpp"
#include "reports/table.hpp"

namespace attest::reports {
namespace {

using core::Record;
using core::Verdict;

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
  // A time of NaN is compared so that it meets no deadline.
  if (!(time->median_low_ns <= deadline) || !(worst_of(*time) <= deadline))
    finding.set(Usable::kUnknown, "deadline");
}

/// What is known of a case that was not run: the workspace that the implementation declares, and on
/// a CPU its estimated time.
Finding judge_skipped(const Record& record, const ChoiceLimits& limits) {
  if (limits.memory_bytes && double(record.memory.workspace_bytes) > *limits.memory_bytes)
    return {Usable::kNo, "memory"};
  if (limits.deadline_ns && record.device == "cpu" &&
      record.estimated_ns > kEstimateFactor * *limits.deadline_ns)
    return {Usable::kNo, "estimate"};
  return {Usable::kUnknown, "skipped"};
}

bool is_skipped(const Record& record) { return record.outcome.verdict() == Verdict::kSkipped; }

std::optional<Miss> miss_of(const Record& record, const ChoiceLimits& limits) {
  if (!record.outcome.passes()) return std::nullopt;
  Miss most{.limit = "", .factor = 1};
  const auto measure = [&](const char* limit, double value, const std::optional<double>& allowed) {
    // A factor that is not finite compares with nothing.
    if (allowed && value / *allowed > most.factor && std::isfinite(value / *allowed))
      most = {limit, value / *allowed};
  };
  measure("accuracy", record.max_ratio, limits.max_error_ratio);
  const std::optional<double> used = used_bytes(record.memory);
  measure("memory", used.value_or(double(record.memory.workspace_bytes)), limits.memory_bytes);
  if (record.time && limits.deadline_ns) {
    const core::TimeRecord& time = *record.time;
    const bool is_slow = time.median_low_ns > *limits.deadline_ns;
    measure("deadline", is_slow ? time.median_ns : worst_of(time), limits.deadline_ns);
  }
  return most.limit.empty() ? std::nullopt : std::optional(most);
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
    return is_case || (a->case_name == b->case_name && a->inputs == b->inputs &&
                       tokens_of(a->spec) == tokens_of(b->spec));
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

/// The records at the nearest sizes of which something is known, at or below the tokens and at or
/// above.
struct Neighbours {
  int64_t low = 0, high = 0;           // sizes; 0: none
  std::vector<const Record*> records;  // the nearest first

  Neighbours(std::vector<const Record*> all, int64_t tokens, const ChoiceLimits& limits)
      : records(std::move(all)) {
    std::erase_if(records, [&](const Record* record) {
      return is_skipped(*record) && judge(*record, limits).usable == Usable::kUnknown;
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
                             [&](const Record* record) { return distance(*record, tokens); });
  }
};

/// Whether all these records are unsupported for one reason, which then does not depend on tokens.
bool are_unsupported_alike(const std::vector<const Record*>& records) {
  const core::Outcome& first = records.front()->outcome;
  return first.verdict() == Verdict::kUnsupported &&
         std::ranges::all_of(records, [&](const Record* record) {
           return record->outcome.code == first.code && record->outcome.reason == first.reason;
         });
}

/// What the neighbours say together.
Finding judge(const Neighbours& near, const ChoiceLimits& limits) {
  Finding first = judge(*near.records.front(), limits);
  const bool agree = std::ranges::all_of(near.records, [&](const Record* record) {
    return judge(*record, limits).usable == first.usable;
  });
  if (near.high == 0 && agree && first.usable == Usable::kNo) return first;
  if (near.low == 0 && are_unsupported_alike(near.records)) return first;
  if (near.high == 0 || near.low == 0) return {Usable::kUnknown, "range"};
  return agree ? first : Finding{Usable::kUnknown, "between"};
}

Candidate candidate_of(Measured measured, std::optional<int64_t> tokens,
                       const ChoiceLimits& limits) {
  Candidate candidate{.impl = std::move(measured.impl), .threads = measured.threads};
  Finding finding;
  if (tokens) {
    Neighbours near(measured.records, *tokens, limits);
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
  const bool is_measured_there = finding.limit != "range" && finding.limit != "between";
  if (is_measured_there) candidate.miss = miss_of(*candidate.points.front(), limits);
  return candidate;
}

/// The larger one; NaN if one of them is.
double larger(double a, double b) { return std::isnan(a) || a > b ? a : b; }

/// The largest of `value` over the points; nothing if one was not timed, or is not finite.
template <class Value>
std::optional<double> largest(const std::vector<const Record*>& points, Value value) {
  double most = 0;
  for (const Record* point : points) {
    if (!point->time || !std::isfinite(value(*point->time))) return std::nullopt;
    most = std::max(most, value(*point->time));
  }
  return most;
}

}  // namespace

double worst_cold_of(const core::TimeRecord& time) {
  double worst = time.cold_median_ns;
  for (const double sample : time.cold_samples_ns) worst = larger(worst, sample);
  return worst;
}
double worst_of(const core::TimeRecord& time) { return larger(time.max_ns, worst_cold_of(time)); }

Finding judge(const Record& record, const ChoiceLimits& limits) {
  if (is_skipped(record)) return judge_skipped(record, limits);
  const Verdict verdict = record.outcome.verdict();
  if (verdict != Verdict::kPass) return {Usable::kNo, std::string(core::name(verdict))};
  Finding finding;
  // An error of NaN is compared so that it rejects.
  if (limits.max_error_ratio && !(record.max_ratio <= *limits.max_error_ratio))
    finding.set(Usable::kNo, "accuracy");
  if (limits.memory_bytes) limit_memory(record.memory, *limits.memory_bytes, finding);
  if (limits.deadline_ns) limit_time(record.time, *limits.deadline_ns, finding);
  return finding;
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
const Candidate* Choice::nearest_miss() const {
  if (best()) return nullptr;
  const Candidate* nearest = nullptr;
  for (const Candidate& one : candidates)
    if (one.miss && (!nearest || std::tuple(one.usable, one.miss->factor) <
                                     std::tuple(nearest->usable, nearest->miss->factor)))
      nearest = &one;
  return nearest;
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

}  // namespace attest::reports
