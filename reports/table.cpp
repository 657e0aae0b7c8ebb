#include "table.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

namespace attest::reports {
namespace {

using core::Record;
using core::Verdict;

// Three significant digits without an exponent.
std::string digits(double value) {
  if (!std::isfinite(value)) return fmt::format("{}", value);
  const int decimals = value >= 100 ? 0 : value >= 10 ? 1 : 2;
  return fmt::format("{:.{}f}", value, decimals);
}

std::string scaled(double value, double step, std::initializer_list<const char*> units) {
  auto unit = units.begin();
  while (value >= step * 0.9995 && unit + 1 != units.end()) value /= step, ++unit;
  return digits(value) + " " + *unit;
}

const char* colour_of(Verdict verdict) {
  if (verdict == Verdict::kPass) return "\033[32m";
  return core::is_bad(verdict) ? "\033[1;31m" : "\033[33m";
}

std::string share(double ratio) {
  return ratio < 9.995 ? fmt::format("{:.2f}", ratio) : fmt::format("{:.2g}", ratio);
}

std::string line(const Record& r, size_t width, bool colour) {
  const std::string verdict = fmt::format("{:<11}", name(r.verdict));
  std::string text =
      fmt::format("  {:<{}}  {}{}{}", r.impl, width, colour ? colour_of(r.verdict) : "", verdict,
                  colour ? "\033[0m" : "");
  const bool judged = !r.fills.empty() && r.fills.front().judgement.exact_elements > 0;
  text += fmt::format(" {:>6} {:>6}", judged ? share(r.max_ratio) : "",
                      judged ? share(r.rms_ratio) : "");
  if (r.time) {
    const double spread =
        r.time->median_ns > 0 ? (r.time->q3_ns - r.time->q1_ns) / r.time->median_ns * 100 : 0;
    text += fmt::format(" {:>9} {:>4.0f}% {:>9} {:>7}", print_time(r.time->median_ns), spread,
                        r.time->cold_median_ns > 0 ? print_time(r.time->cold_median_ns) : "",
                        digits(r.gflops()));
    text +=
        fmt::format(" {:>9}", r.memory.peak_bytes ? print_bytes(double(*r.memory.peak_bytes)) : "");
  } else if (!r.reason.empty()) {
    text += "  " + r.reason;
  }
  while (!text.empty() && text.back() == ' ') text.pop_back();
  return text + "\n";
}

}  // namespace

std::string print_time(double ns) { return scaled(ns, 1000, {"ns", "us", "ms", "s"}); }
std::string print_bytes(double bytes) {
  return bytes < 1      ? "0"
         : bytes < 1024 ? fmt::format("{:.0f} B", bytes)
                        : scaled(bytes / 1024, 1024, {"KiB", "MiB", "GiB", "TiB"});
}

std::string print_table(const std::vector<Record>& records, bool colour) {
  size_t width = 14;
  for (const Record& r : records)
    if (r.verdict != Verdict::kUnsupported) width = std::max(width, r.impl.size());
  std::string text =
      fmt::format("  {:<{}}  {:<11} {:>6} {:>6} {:>9} {:>5} {:>9} {:>7} {:>9}\n", "", width,
                  "verdict", "worst", "rms", "time", "+-", "cold", "GFLOP/s", "memory");

  // Blocks in the order in which their first record came.
  std::vector<std::pair<std::string, std::vector<const Record*>>> blocks;
  std::map<std::string, size_t> block_of;
  std::map<std::string, int> unsupported;
  std::map<Verdict, int> count;
  for (const Record& r : records) {
    ++count[r.verdict];
    if (r.verdict == Verdict::kUnsupported) {
      ++unsupported[fmt::format("{}: {}", r.impl, r.reason)];
      continue;
    }
    const std::string title =
        fmt::format("{}{}{} {}", r.suite, r.suite.empty() ? "" : "/", r.case_name, r.dtype);
    const auto [at, fresh] = block_of.try_emplace(title, blocks.size());
    if (fresh) blocks.push_back({title, {}});
    blocks[at->second].second.push_back(&r);
  }
  for (const auto& [title, lines] : blocks) {
    text += fmt::format("{}{}{}\n", colour ? "\033[1m" : "", title, colour ? "\033[0m" : "");
    for (const Record* r : lines) text += line(*r, width, colour);
  }
  if (!unsupported.empty()) text += "\nunsupported, by implementation and reason:\n";
  for (const auto& [reason, times] : unsupported)
    text += fmt::format("  {:>4} x {}\n", times, reason);
  text += "\n";
  std::string sum;
  for (const auto& [verdict, times] : count)
    sum += fmt::format("{}{} {}", sum.empty() ? "" : ", ", times, name(verdict));
  return text + sum +
         "\nworst, rms: error as a share of its gate, <= 1 passes; +-: interquartile range; "
         "memory: peak beyond the tensors\n";
}

}  // namespace attest::reports
