#include "reports/summary.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <numeric>

#include "core/record/case_key.hpp"
#include "reports/words/pacing.hpp"

namespace attest::reports {
namespace {

using core::Record;
using core::Verdict;

constexpr size_t kNamedImpls = 3;

std::string plural(size_t count, const char* what) {
  return fmt::format("{} {}{}", count, what, count == 1 ? "" : "s");
}

/// "3 fail, 1 crash": the bad verdicts that occur.
std::string kinds(const Tally& tally) {
  std::vector<std::string> parts;
  for (size_t i = 0; i < tally.verdicts.size(); ++i)
    if (core::is_bad(Verdict(i)) && tally.verdicts[i] > 0)
      parts.push_back(fmt::format("{} {}", tally.verdicts[i], core::kVerdictNames[i]));
  return fmt::format("{}", fmt::join(parts, ", "));
}

std::string count_of(const Tally& tally, Verdict verdict) {
  return fmt::format("{} {}", tally.of(verdict), tally.of(verdict) == 1 ? "is" : "are");
}

/// The records that say nothing about right or wrong.
std::string not_judged(const Tally& tally) {
  std::vector<std::string> parts;
  for (const Verdict verdict : {Verdict::kUnsupported, Verdict::kSkipped})
    if (tally.of(verdict) > 0)
      parts.push_back(fmt::format("{} {}", tally.of(verdict), name(verdict)));
  if (parts.empty()) return "";
  const size_t count = tally.all() - tally.judged();
  return fmt::format("; {} more {} not judged ({})", count, count == 1 ? "was" : "were",
                     fmt::join(parts, ", "));
}

std::string sentence(const Summary& summary) {
  const Tally& all = summary.all;
  if (all.all() == 0) return "There are no records.";
  if (all.judged() == 0)
    return fmt::format("Nothing was judged: of {}, {} unsupported and {} skipped.",
                       plural(all.all(), "record"), count_of(all, Verdict::kUnsupported),
                       all.of(Verdict::kSkipped));
  if (all.bad() == 0)
    return fmt::format("{}{}.",
                       all.judged() == 1 ? "The one judged record passes"
                                         : fmt::format("All {} judged records pass", all.judged()),
                       not_judged(all));
  std::vector<std::string> names;
  size_t bad_impls = 0, judged_impls = 0;
  for (const auto& [impl, tally] : summary.impls) {
    judged_impls += tally.judged() > 0;
    if (tally.bad() == 0) continue;
    if (++bad_impls <= kNamedImpls) names.push_back(impl);
  }
  const std::string more =
      bad_impls > names.size() ? fmt::format(" and {} more", bad_impls - names.size()) : "";
  return fmt::format("{} of {} not pass ({}{}): {} of {} are bad ({}){}.", bad_impls,
                     fmt::format("{} do{}", plural(judged_impls, "judged implementation"),
                                 bad_impls == 1 ? "es" : ""),
                     fmt::join(names, ", "), more, all.bad(), plural(all.judged(), "judged record"),
                     kinds(all), not_judged(all));
}

/// " 2 of 9 paced records missed frames ...": a sentence that follows another; or nothing.
std::string as_sentence(std::string text) {
  if (text.empty()) return text;
  text.front() = char(std::toupper(static_cast<unsigned char>(text.front())));
  return " " + text + ".";
}

/// Larger is worse; an error that is no number is as bad as can be.
double badness(const Record& record) {
  return std::isnan(record.max_ratio) ? INFINITY : record.max_ratio;
}

bool is_worse(const Placed& a, const Placed& b) {
  const Verdict first = a.record->outcome.verdict(), second = b.record->outcome.verdict();
  return first != second ? first < second : badness(*a.record) > badness(*b.record);
}

}  // namespace

Summary summary_of(const Input& input) {
  Summary summary{input.left_out.tallies, {}, {}};
  FrameCounts frames;
  for (const core::Results& run : input.runs)
    for (const Record& record : run.records) {
      summary.add(record);
      frames.add(record);
      if (record.outcome.is_bad()) summary.bad.push_back({&run, &record});
    }
  std::ranges::stable_sort(summary.bad, is_worse);
  summary.sentence = sentence(summary) + as_sentence(frames.print());
  return summary;
}

std::string title(const Record& record) { return question_of(record).name(); }

double spent_ns(const Record& record) {
  double sum = 0;
  for (const core::FillRecord& fill : record.fills) sum += fill.run_ns;
  for (const core::RelationRecord& relation : record.relations) sum += relation.run_ns;
  if (!record.time) return sum;
  const core::TimeRecord& time = *record.time;
  const auto runs = double(std::max<int64_t>(1, time.iterations_per_sample));
  sum += std::accumulate(time.samples_ns.begin(), time.samples_ns.end(), 0.0) * runs;
  sum += std::accumulate(time.cold_samples_ns.begin(), time.cold_samples_ns.end(), 0.0);
  return sum + time.create_ns + time.warmup_ns;
}

}  // namespace attest::reports
