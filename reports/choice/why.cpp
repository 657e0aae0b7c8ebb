#include "reports/choice/why.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "reports/table.hpp"
#include "reports/words/escape.hpp"
#include "reports/words/sizes.hpp"
#include "reports/words/units.hpp"

namespace attest::reports {
namespace {

using core::Record;

/// "at 4096 tokens"
std::string at_tokens(const Record& record) {
  return fmt::format("at {} tokens", tokens_of(record.spec));
}

/// "2.40 times the limit of 20.0 ms"
std::string times(double value, double limit, const char* what, const std::string& printed) {
  return fmt::format("{} times the {} of {}", three_digits(value / limit), what, printed);
}

std::string say_memory(const Record& r, const Finding& finding, double limit) {
  const std::optional<double> used = used_bytes(r.memory);
  const double least = used.value_or(double(r.memory.workspace_bytes));
  if (finding.usable == Usable::kNo)
    return fmt::format("{} {} beyond the tensors, {}", used ? "takes" : "declares",
                       print_bytes(least), times(least, limit, "limit", print_bytes(limit)));
  if (!used) return "its memory was not measured";
  return fmt::format(
      "the {} that were counted beyond the tensors are within the limit of {}, but {} is not "
      "counted{}",
      print_bytes(*used), print_bytes(limit), printable(*r.memory.unseen),
      r.device == "cuda" ? ": nsys profile --cuda-memory-usage=true with the command shows it"
                         : "");
}

std::string say_time(const Record& r, const Finding& finding, double deadline) {
  const core::TimeRecord& time = *r.time;
  const std::string seen =
      fmt::format("median {}, slowest {}", print_time(time.median_ns), print_time(worst_of(r)));
  if (finding.usable == Usable::kNo)
    return fmt::format("{}: the median is {}", seen,
                       times(time.median_ns, deadline, "deadline", print_time(deadline)));
  return fmt::format(
      "{}: the median {} the deadline of {}, the slowest of {} samples{} does not: run it again on "
      "a quiet machine{}",
      seen, time.median_ns <= deadline ? "meets" : "may meet", print_time(deadline),
      time.samples_ns.size(),
      r.paced ? fmt::format(" and {} frames", r.paced->alone.processing_time_ns.size()) : "",
      r.paced ? "" : ", or paced");
}

/// What one record says, of a finding that is about it.
std::string say(const Record& r, const Finding& finding, const ChoiceLimits& limits) {
  if (finding.limit.empty())
    return r.time ? fmt::format("median {}, slowest {}: meets every limit",
                                print_time(r.time->median_ns), print_time(worst_of(r)))
                  : "meets every limit; not timed";
  if (finding.limit == "accuracy" && finding.usable == Usable::kUnknown)
    return "its error was not measured: no outputs were compared with a golden";
  if (finding.limit == "accuracy")
    return fmt::format("its largest error is {} of its gate, the limit is {:g}",
                       three_digits(r.max_ratio), *limits.max_error_ratio);
  if (finding.limit == "time" && r.time)
    return "its time is not above zero: the clock or the file is wrong";
  if (finding.limit == "time") return "it was not timed";
  if (finding.limit == "memory") return say_memory(r, finding, *limits.memory_bytes);
  if (finding.limit == "deadline") return say_time(r, finding, *limits.deadline_ns);
  const std::string reason = printable(r.outcome.reason);
  if (finding.limit == "estimate")
    return fmt::format(
        "estimated, not measured: a run takes {}, {}; an estimate may be {:g} times too long",
        print_time(r.estimated_ns),
        times(r.estimated_ns, *limits.deadline_ns, "deadline", print_time(*limits.deadline_ns)),
        kEstimateFactor);
  if (finding.limit == "skipped") return "not measured, because it was skipped: " + reason;
  // These words are the implementation's own.
  if (r.outcome.code == core::ReasonCode::kUnsupportedQuery)
    return fmt::format("unsupported: {} says \"{}\"", printable(r.impl), reason);
  return fmt::format("{}: {}", finding.limit, reason);
}

/// `said` of the candidate's nearest point; where that is of another size, it comes first.
std::string at_point(const Candidate& candidate, std::optional<int64_t> tokens,
                     const std::string& said) {
  const Record& nearest = *candidate.points.front();
  const bool is_there = !tokens || tokens_of(nearest.spec) == *tokens;
  return is_there ? said : fmt::format("{}: {}", at_tokens(nearest), said);
}

/// The part of a method behind its first comma: "float64, 256 of 4096 rows a head".
std::string rows_in(const std::string& method) {
  const size_t comma = method.find(", ");
  return comma == method.npos ? method : method.substr(comma + 2);
}

}  // namespace

std::string why(const Candidate& candidate, std::optional<int64_t> tokens,
                const ChoiceLimits& limits) {
  if (candidate.limit == "range") {
    const int64_t nearest = tokens_of(candidate.points.front()->spec);
    return fmt::format("not measured at this size: the {} that was measured has {} tokens",
                       nearest < *tokens ? "largest" : "smallest", nearest);
  }
  if (candidate.limit == "alignment")
    return fmt::format(
        "only multiples of {0} tokens were judged: pad the tokens to one, or "
        "measure {1}",
        candidate.judged_multiple, *tokens);
  if (candidate.limit != "between")
    return at_point(candidate, tokens,
                    say(*candidate.points.front(), {candidate.usable, candidate.limit}, limits));
  std::vector<std::string> parts;
  for (const Record* point : candidate.points)
    parts.push_back(
        fmt::format("{}: {}", at_tokens(*point), say(*point, judge(*point, limits), limits)));
  return fmt::format("its nearest measured sizes disagree: {}", fmt::join(parts, "; "));
}

std::string miss_words(const Candidate& candidate, std::optional<int64_t> tokens,
                       const ChoiceLimits& limits) {
  const Record& r = *candidate.points.front();
  const std::string& limit = candidate.miss->limit;
  const std::string factor = three_digits(candidate.miss->factor) + " times";
  std::string said;
  if (limit == "accuracy") {
    said = fmt::format("its largest error is {} the limit of {:g} of its gate", factor,
                       *limits.max_error_ratio);
  } else if (limit == "memory") {
    said = fmt::format("it takes {} the limit of {}", factor, print_bytes(*limits.memory_bytes));
  } else {
    const bool is_slow = r.time->median_low_ns > *limits.deadline_ns;
    said = fmt::format("its {} of {} is {} the deadline of {}", is_slow ? "median" : "slowest time",
                       print_time(is_slow ? r.time->median_ns : worst_of(r)), factor,
                       print_time(*limits.deadline_ns));
  }
  return at_point(candidate, tokens, said);
}

std::string limits_words(const ChoiceLimits& limits) {
  std::vector<std::string> parts;
  if (limits.deadline_ns) parts.push_back(print_time(*limits.deadline_ns));
  if (limits.memory_bytes)
    parts.push_back(print_bytes(*limits.memory_bytes) + " beyond the tensors");
  if (limits.max_error_ratio)
    parts.push_back(fmt::format("a largest error of {:g} of its gate", *limits.max_error_ratio));
  return parts.empty() ? " (no limit was given)"
                       : fmt::format(" within {}", fmt::join(parts, ", "));
}

bool Judging::is_partial() const {
  return fills.size() < 2 || relations == 0 || (!rows.empty() && !rows.starts_with("all rows"));
}

Judging judging_of(const Record& record) {
  Judging judging;
  double least = 0;
  for (const core::FillRecord& fill : record.fills) {
    const core::Judgement& one = fill.judgement;
    if (one.exact_elements == 0) continue;
    if (std::ranges::find(judging.fills, fill.fill) == judging.fills.end())
      judging.fills.push_back(fill.fill);
    const double share =
        one.swept_elements > 0 ? double(one.exact_elements) / double(one.swept_elements) : 1;
    if (judging.rows.empty() || share < least) {
      least = share;
      judging.rows = rows_in(one.method);
    }
  }
  for (const core::RelationRecord& relation : record.relations)
    judging.relations += relation.judgement.outcome.passes() ? 1 : 0;
  return judging;
}

std::string judging_words(const Judging& judging) {
  if (judging.fills.empty()) return "no outputs were compared with a golden";
  const std::string relations =
      judging.relations == 0   ? "without relations between runs"
      : judging.relations == 1 ? "with 1 relation between runs"
                               : fmt::format("with {} relations between runs", judging.relations);
  constexpr size_t kNamed = 3;
  const size_t count = judging.fills.size();
  const std::string names =
      count > kNamed ? "" : fmt::format(" ({})", fmt::join(judging.fills, ", "));
  return fmt::format("judged on {} fill{} of inputs{}, {}{}{}", count, count == 1 ? "" : "s", names,
                     relations, judging.rows.empty() ? "" : ", on ", judging.rows);
}

}  // namespace attest::reports
