#include "reports/table.hpp"
#include "reports/words/titles.hpp"
#include "reports/words/units.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <functional>
#include <map>

#include "core/record/races.hpp"
#include "reports/findings.hpp"
#include "reports/patterns.hpp"
#include "reports/words/counters.hpp"
#include "reports/words/escape.hpp"
#include "reports/words/pacing.hpp"

namespace attest::reports {
namespace {

using core::Record;
using core::Verdict;

const char* colour_of(Verdict verdict) {
  if (verdict == Verdict::kPass) return "\033[32m";
  return core::is_bad(verdict) ? "\033[1;31m" : "\033[33m";
}

std::string share(double ratio) {
  return ratio < 9.995 ? fmt::format("{:.2f}", ratio) : fmt::format("{:.2g}", ratio);
}

std::string line(const Record& r, size_t width, bool colour) {
  std::string text = fmt::format("  {:<{}}  {}", printable(r.impl), width,
                                 verdict_column(r.outcome.verdict(), colour));
  const std::optional<Errors> errors = errors_of_verdict(r);
  text += fmt::format(" {:>6} {:>6}", errors ? share(errors->largest) : "",
                      errors ? share(errors->rms) : "");
  if (r.time && !is_overruled(r)) {
    const double spread =
        r.time->median_ns > 0 ? (r.time->q3_ns - r.time->q1_ns) / r.time->median_ns * 100 : 0;
    text += fmt::format(" {:>9} {:>4.0f}% {:>9} {:>7}", print_time(r.time->median_ns), spread,
                        r.time->cold_median_ns > 0 ? print_time(r.time->cold_median_ns) : "",
                        three_digits(r.gflops()));
    text +=
        fmt::format(" {:>9}", r.memory.peak_bytes ? print_bytes(double(*r.memory.peak_bytes)) : "");
  } else if (!r.outcome.reason.empty()) {
    text += "  " + printable(r.outcome.reason);
  }
  while (!text.empty() && text.back() == ' ') text.pop_back();
  return text + "\n";
}

std::string lines(const std::vector<std::string>& texts) {
  std::string all;
  for (const std::string& text : texts) all += printable(text) + "\n";
  return all;
}

// A line, or nothing where there is no text.
std::string line_of(const std::string& text) { return text.empty() ? "" : printable(text) + "\n"; }

// "does not support GRID (7), does not support PAGES (3), and 2 more reasons (5)"
std::string most_frequent(const std::map<std::string, int>& reasons) {
  constexpr size_t kShown = 3;
  std::vector<std::pair<std::string, int>> sorted(reasons.begin(), reasons.end());
  std::ranges::stable_sort(sorted, std::greater{}, &std::pair<std::string, int>::second);
  std::string text;
  int others = 0;
  for (size_t i = 0; i < sorted.size(); ++i) {
    const auto& [reason, times] = sorted[i];
    if (i < kShown)
      text += fmt::format("{}{} ({})", i == 0 ? "" : ", ", reason, times);
    else
      others += times;
  }
  if (others > 0) text += fmt::format(", and {} more reasons ({})", sorted.size() - kShown, others);
  return text;
}

}  // namespace

std::optional<double> used_bytes(const core::MemoryRecord& memory) {
  if (memory.pool_peak_bytes) return double(*memory.pool_peak_bytes + memory.workspace_bytes);
  return memory.peak_bytes ? std::optional(double(*memory.peak_bytes)) : std::nullopt;
}

std::string verdict_column(Verdict verdict, bool colour) {
  return fmt::format("{}{:<11}{}", colour ? colour_of(verdict) : "", name(verdict),
                     colour ? "\033[0m" : "");
}

std::string print_hints(const Record& r, size_t width) {
  if (!r.outcome.is_bad()) return {};
  std::string text;
  std::vector<std::string> hints = findings(r);
  if (!r.repro.empty()) hints.push_back(r.repro);
  for (const std::string& one : hints)
    text += fmt::format("  {:{}}  {}\n", "", width, printable(one));
  return text;
}

void UnsupportedCounts::add(const Record& record) { ++counts_[record.impl][record.outcome.reason]; }

std::string UnsupportedCounts::print() const {
  std::string text = counts_.empty() ? "" : "\nunsupported:\n";
  size_t width = 0;
  for (const auto& [impl, reasons] : counts_) width = std::max(width, impl.size());
  for (const auto& [impl, reasons] : counts_) {
    int all = 0;
    for (const auto& [reason, times] : reasons) all += times;
    text += printable(fmt::format("  {:<{}} {:>4}: {}", impl, width, all, most_frequent(reasons))) +
            "\n";
  }
  return text;
}

std::string print_verdicts(const std::map<Verdict, int>& counts) {
  std::string text;
  for (const auto& [verdict, times] : counts)
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", times, name(verdict));
  return text;
}

std::string cut_short(const core::Results& results) {
  return results.complete
             ? ""
             : "The run was not completed: it was stopped, or goes on. Some cases have "
               "no record.\n";
}

TableWriter::TableWriter(const std::vector<std::string>& impls, bool colour) : colour_(colour) {
  for (const std::string& impl : impls) width_ = std::max(width_, impl.size());
}

std::string TableWriter::heading() const {
  return fmt::format("  {:<{}}  {:<11} {:>6} {:>6} {:>9} {:>5} {:>9} {:>7} {:>9}\n", "", width_,
                     "verdict", "worst", "rms", "time", "+-", "cold", "GFLOP/s", "memory");
}

std::string TableWriter::add(const Record& record) {
  if (record.outcome.verdict() == Verdict::kUnsupported) return {};
  std::string text;
  if (std::string title = case_title(record); title != title_) {
    text = fmt::format("{}{}{}\n", colour_ ? "\033[1m" : "", case_heading(record),
                       colour_ ? "\033[0m" : "");
    title_ = std::move(title);
  }
  text += line(record, width_, colour_) + print_hints(record, width_);
  if (const std::string counted = counter_line(record); !counted.empty())
    text += fmt::format("  {:{}}  {}\n", "", width_, counted);
  for (const std::string& more : short_pacing_lines(record))
    text += fmt::format("  {:{}}  {}\n", "", width_, more);
  return text;
}

std::string TableWriter::ending(const std::vector<Record>& records) const {
  UnsupportedCounts unsupported;
  std::map<Verdict, int> counts;
  for (const Record& record : records) {
    ++counts[record.outcome.verdict()];
    if (record.outcome.verdict() == Verdict::kUnsupported) unsupported.add(record);
  }
  FrameCounts frames;
  frames.add(records);
  return unsupported.print() + "\n" + print_verdicts(counts) + "\n" + line_of(frames.print()) +
         line_of(frames.print_unmeasured()) + lines(patterns(records)) +
         "worst, rms: error as a share of its gate, <= 1 passes; +-: interquartile range; "
         "memory: peak beyond the tensors\n"
         "after a case: batch x heads x tokens x channels; a/b: a of queries, b of keys or "
         "values\n" +
         (frames.print().empty()
              ? ""
              : "frames: latencies are of the first policy, from the arrival; attest report -f md "
                "has every percentile\n");
}

std::vector<std::vector<const Record*>> by_case(const std::vector<Record>& records) {
  std::vector<std::vector<const Record*>> blocks;
  std::map<std::string, size_t> block_of;
  for (const Record& record : records) {
    const auto [at, fresh] = block_of.try_emplace(case_title(record), blocks.size());
    if (fresh) blocks.emplace_back();
    blocks[at->second].push_back(&record);
  }
  return blocks;
}

std::string print_table(const std::vector<Record>& records, bool colour) {
  std::vector<std::string> impls;
  for (const Record& record : records)
    if (record.outcome.verdict() != Verdict::kUnsupported) impls.push_back(record.impl);
  TableWriter writer(impls, colour);
  std::string text = writer.heading();
  for (const std::vector<const Record*>& block : by_case(records))
    for (const Record* record : block) text += writer.add(*record);
  return text + writer.ending(records);
}

}  // namespace attest::reports
