#include "reports/choice/choice.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <tuple>
#include <utility>

#include "reports/table.hpp"
#include "reports/words/sizes.hpp"

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

void limit_time(const Record& record, double deadline, Finding& finding) {
  const std::optional<core::TimeRecord>& time = record.time;
  // A time that is not above zero says nothing: the clock or the file is wrong.
  if (!time || time->median_ns <= 0 || time->median_low_ns <= 0)
    return finding.set(Usable::kUnknown, "time");
  if (time->median_low_ns > deadline) return finding.set(Usable::kNo, "deadline");
  // A time of NaN is compared so that it meets no deadline.
  if (!(time->median_low_ns <= deadline) || !(worst_of(record) <= deadline))
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

/// Whether outputs were compared with a golden, so that there is an error.
bool is_compared(const Record& record) {
  return std::ranges::any_of(
      record.fills, [](const core::FillRecord& fill) { return fill.judgement.exact_elements > 0; });
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
    measure("deadline", is_slow ? time.median_ns : worst_of(record), limits.deadline_ns);
  }
  return most.limit.empty() ? std::nullopt : std::optional(most);
}

/// One implementation with one number of threads, and its records: the one of each problem that
/// counts.
struct Measured {
  std::string impl;
  int32_t threads = 1;
  std::vector<const Record*> records;
};

/// Whether the outputs were wrong, or there were none because it crashed.
bool is_wrong(const Record& record) {
  const Verdict verdict = record.outcome.verdict();
  return verdict == Verdict::kFail || verdict == Verdict::kSuspect || verdict == Verdict::kCrash;
}

/// Which of several records of one problem, the oldest first, counts: the last that was not
/// skipped. Where that passes, the last one counts that is wrong and of the same library: what
/// fails at times is not to be used.
const Record* counting(const std::vector<const Record*>& records) {
  const Record* last = records.back();
  for (const Record* record : records)
    if (!is_skipped(*record) || is_skipped(*last)) last = record;
  if (!last->outcome.passes() || last->plugin_hash.empty()) return last;
  const std::string& library = last->plugin_hash;
  for (const Record* record : records)
    if (is_wrong(*record) && record->plugin_hash == library) last = record;
  return last;
}

std::vector<Measured> by_implementation(const ProblemRecords& problem) {
  const bool is_case = !problem.name.empty();
  const auto is_again = [&](const Record* a, const Record* b) {
    return is_case || (a->case_name == b->case_name && a->inputs == b->inputs &&
                       tokens_of(a->spec) == tokens_of(b->spec));
  };
  struct Group {
    std::string impl;
    int32_t threads;
    std::vector<std::vector<const Record*>> problems;
  };
  std::vector<Group> groups;
  for (const Record* record : problem.records) {
    auto at = std::ranges::find_if(groups, [&](const Group& one) {
      return one.impl == record->impl && one.threads == record->threads;
    });
    if (at == groups.end()) at = groups.insert(at, {record->impl, record->threads, {}});
    auto same = std::ranges::find_if(
        at->problems, [&](const auto& records) { return is_again(records.front(), record); });
    if (same == at->problems.end()) same = at->problems.insert(same, {{}});
    same->push_back(record);
  }
  std::vector<Measured> all;
  for (const Group& group : groups) {
    Measured& one = all.emplace_back(Measured{group.impl, group.threads, {}});
    for (const auto& records : group.problems) one.records.push_back(counting(records));
  }
  return all;
}

/// The records at the nearest sizes of which something is known, at or below the tokens and at or
/// above.
struct Neighbours {
  int64_t low = 0, high = 0;           // sizes; 0: none
  std::vector<const Record*> records;  // the nearest first, of those the most serious first

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
    std::ranges::stable_sort(records, std::less(), [&](const Record* record) {
      return std::tuple(distance(*record, tokens), -int(judge(*record, limits).usable));
    });
  }
};

/// Whether these records, those of the smallest size, are unsupported for one reason that does not
/// depend on tokens: it is of the table or of the plugin's kernels, which know no tokens, or `all`
/// have it at another size.
bool are_unsupported_alike(const std::vector<const Record*>& records,
                           const std::vector<const Record*>& all) {
  const Record& first = *records.front();
  const auto is_alike = [&](const Record* record) {
    return record->outcome.code == first.outcome.code &&
           record->outcome.reason == first.outcome.reason;
  };
  if (first.outcome.verdict() != Verdict::kUnsupported || !std::ranges::all_of(records, is_alike))
    return false;
  return first.outcome.code == core::ReasonCode::kUnsupportedTable ||
         first.outcome.code == core::ReasonCode::kUnsupportedKernel ||
         std::ranges::any_of(all, [&](const Record* record) {
           return is_alike(record) && tokens_of(record->spec) != tokens_of(first.spec);
         });
}

/// The largest power of two that the number is a multiple of.
int64_t alignment(int64_t number) { return number & -number; }

/// The largest power of two that all sizes at which it passed are multiples of.
int64_t judged_multiple(const std::vector<const Record*>& all) {
  int64_t least = INT64_MAX;
  for (const Record* record : all)
    if (record->outcome.passes()) least = std::min(least, alignment(tokens_of(record->spec)));
  return least;
}

/// What the neighbours say together, of `all` records of an implementation.
Finding judge(const Neighbours& near, const std::vector<const Record*>& all, int64_t tokens,
              const ChoiceLimits& limits) {
  Finding first = judge(*near.records.front(), limits);
  if (near.low == near.high) return first;
  const bool agree = std::ranges::all_of(near.records, [&](const Record* record) {
    return judge(*record, limits).usable == first.usable;
  });
  if (near.high == 0 && agree && first.usable == Usable::kNo) return first;
  if (near.low == 0 && are_unsupported_alike(near.records, all)) return first;
  if (near.high == 0 || near.low == 0) return {Usable::kUnknown, "range"};
  if (!agree) return {Usable::kUnknown, "between"};
  if (first.usable == Usable::kYes && alignment(tokens) < judged_multiple(all))
    return {Usable::kUnknown, "alignment"};
  return first;
}

Candidate candidate_of(Measured measured, std::optional<int64_t> tokens,
                       const ChoiceLimits& limits) {
  Candidate candidate{.impl = std::move(measured.impl), .threads = measured.threads};
  Finding finding;
  if (tokens) {
    Neighbours near(measured.records, *tokens, limits);
    if (!near.records.empty()) {
      finding = judge(near, measured.records, *tokens, limits);
      candidate.points = std::move(near.records);
      if (finding.limit == "alignment")
        candidate.judged_multiple = judged_multiple(measured.records);
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
    if (!point->time || !std::isfinite(value(*point))) return std::nullopt;
    most = std::max(most, value(*point));
  }
  return most;
}

}  // namespace

double worst_cold_of(const core::TimeRecord& time) {
  double worst = time.cold_median_ns;
  for (const double sample : time.cold_samples_ns) worst = larger(worst, sample);
  return worst;
}
double worst_frame_of(const Record& record) {
  double worst = 0;
  if (!record.paced) return worst;
  for (const double frame : record.paced->alone.processing_time_ns) worst = larger(worst, frame);
  return worst;
}
double worst_of(const Record& record) {
  const double worst = larger(record.time->max_ns, worst_cold_of(*record.time));
  return larger(worst, worst_frame_of(record));
}

Finding judge(const Record& record, const ChoiceLimits& limits) {
  if (is_skipped(record)) return judge_skipped(record, limits);
  const Verdict verdict = record.outcome.verdict();
  if (verdict != Verdict::kPass) return {Usable::kNo, std::string(core::name(verdict))};
  Finding finding;
  // An error of NaN is compared so that it rejects.
  if (limits.max_error_ratio && !(record.max_ratio <= *limits.max_error_ratio))
    finding.set(Usable::kNo, "accuracy");
  else if (limits.max_error_ratio && !is_compared(record))
    finding.set(Usable::kUnknown, "accuracy");
  if (limits.memory_bytes) limit_memory(record.memory, *limits.memory_bytes, finding);
  if (limits.deadline_ns) limit_time(record, *limits.deadline_ns, finding);
  return finding;
}

const char* name(Usable usable) {
  constexpr const char* kNames[] = {"usable", "undecided", "rejected"};
  return kNames[size_t(usable)];
}

std::optional<double> Candidate::median_ns() const {
  return largest(points, [](const Record& record) { return record.time->median_ns; });
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
