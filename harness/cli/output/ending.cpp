#include "cli/output/ending.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>

#include "cli/interrupt.hpp"
#include "cli/options/command_line.hpp"
#include "core/record/races.hpp"
#include "reports/words/escape.hpp"
#include "reports/words/limits.hpp"
#include "reports/words/noise.hpp"

namespace attest::cli {
namespace {

// The reason code of most bad records. It is empty if no record is bad.
std::string most_frequent_code(const std::vector<core::Record>& records) {
  std::map<core::ReasonCode, size_t> counts;
  for (const core::Record& record : records)
    if (record.outcome.is_bad()) ++counts[record.outcome.code];
  const auto most =
      std::ranges::max_element(counts, {}, &std::pair<const core::ReasonCode, size_t>::second);
  return most == counts.end() ? "" : std::string(name(most->first));
}

/// Prints a line that has names and reasons of plugins in it.
void print_line(const std::string& text) { fmt::print("{}\n", reports::printable(text)); }

// A line for each reason, with the names of some vectors: sets of vectors have a hundred of them.
void print_unsupported_vectors(const std::vector<core::Record>& records) {
  constexpr size_t kNames = 3;
  std::map<std::string, std::vector<std::string>> names;  // by reason
  for (const core::Record& record : records)
    if (record.outcome.code == core::ReasonCode::kUnsupportedVector)
      names[record.outcome.reason].push_back(record.suite + "/" + record.case_name);
  if (!names.empty()) fmt::print("\nunsupported vectors:\n");
  for (const auto& [reason, all] : names) {
    const size_t shown = std::min(all.size(), kNames);
    print_line(
        fmt::format("  {:>4} x {} ({}{})", all.size(), reason,
                    fmt::join(all.begin(), all.begin() + ptrdiff_t(shown), ", "),
                    all.size() > shown ? fmt::format(" and {} more", all.size() - shown) : ""));
  }
}

}  // namespace

// What the harness itself took, beside implementations and goldens.
void print_shares(const core::Shares& shares) {
  const std::string pacing =
      shares.pacing_s > 0 ? fmt::format("{:.1f} s in frames and energy, ", shares.pacing_s) : "";
  fmt::print(
      "{:.1f} s: {:.1f} s in implementations, {:.1f} s in goldens and judging, {:.1f} s in inputs, "
      "{}{:.1f} s ({:.1f} %) in the harness\n",
      shares.total_s, shares.implementations_s, shares.judging_s, shares.inputs_s, pacing,
      shares.harness_s(), shares.harness_s() / shares.total_s * 100);
}

void print_overruled(const std::map<std::string, core::Overruled>& overruled) {
  for (const auto& [impl, all] : overruled)
    print_line(fmt::format("{}: {} above {} suspect: {}", impl,
                           all.passes == 1 ? "1 pass" : fmt::format("{} passes", all.passes),
                           all.passes == 1 ? "is" : "are", all.why));
}

void print_noise(const std::vector<core::Record>& records) {
  reports::Noise all;
  all.add(records);
  const std::string noise = all.print();
  if (!noise.empty())
    print_line(fmt::format("{}: do not compare {}; run again on a quiet machine {}", noise,
                           all.noisy == 1 ? "it" : "them", all.names()));
}

void print_excess(const std::vector<core::Record>& records) {
  const std::string excess = reports::print_excess(records);
  if (!excess.empty()) print_line("warning: " + excess);
}

// What can be done next, as commands.
void print_next(const std::vector<core::Record>& records, const JudgingOptions& options) {
  std::vector<std::pair<std::string, std::string>> steps;
  const std::string path = shell_word(options.results_path());
  if (std::ranges::any_of(records, core::shows_race)) {
    steps.emplace_back("attest explain suspect:race", "what it means, and what to do");
  } else if (const std::string code = most_frequent_code(records); !code.empty()) {
    steps.emplace_back("attest explain " + code, "what it means, and what to do");
  }
  if (options.results_path().empty()) {
    steps.emplace_back("-o results.jsonl", "with this option a run keeps its results");
  } else {
    steps.emplace_back(fmt::format("attest report {} -o report.html", path),
                       "the results as a page that opens from disk");
    steps.emplace_back(fmt::format("attest compare {} later.jsonl", path),
                       "in CI: exits with 1 or 2 if a later run is worse");
  }
  if (options.plugins.selection.plugins.empty())
    steps.emplace_back("attest new mine", "writes a kernel of your own to judge");
  size_t width = 0;
  for (const auto& [command, purpose] : steps) width = std::max(width, command.size());
  fmt::print("next:\n");
  for (const auto& [command, purpose] : steps)
    fmt::print("  {:<{}}  # {}\n", command, width, purpose);
}

void print_stop(const JudgingOptions& options) {
  const std::string& path = options.results_path();
  fmt::print(stderr, "attest: {}; {}\n",
             interrupted() ? "interrupted" : "stopped after the first bad record (--fail-fast)",
             path.empty() ? "nothing of it is kept: -o FILE would keep it"
                          : fmt::format("what was measured is kept, and --resume {}{} goes on "
                                        "with it",
                                        path, options.fail_fast ? " without --fail-fast" : ""));
}

void print_counts(const std::vector<core::Record>& records) {
  std::map<std::string, std::map<std::string_view, int>> counts;
  std::vector<std::string> order;
  print_unsupported_vectors(records);
  for (const core::Record& record : records) {
    if (!counts.contains(record.impl)) order.push_back(record.impl);
    ++counts[record.impl][name(record.outcome.verdict())];
  }
  size_t width = 14;
  for (const std::string& impl : order) width = std::max(width, impl.size());
  for (const std::string& impl : order) {
    std::string line;
    for (const std::string_view verdict : core::kVerdictNames)
      if (const auto at = counts[impl].find(verdict); at != counts[impl].end())
        line += fmt::format("{}{} {}", line.empty() ? "" : ", ", at->second, verdict);
    print_line(fmt::format("{:<{}} {}", impl, width, line));
  }
}

}  // namespace attest::cli
