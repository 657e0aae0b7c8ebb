#include "reports/gate/gate_text.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "reports/compare/comparison_text.hpp"

namespace attest::reports {
namespace {

constexpr size_t kWithCommand = 5, kNamed = 3;

std::string line(const GateFinding& finding) {
  return fmt::format("  {}: {}: {}", finding.key.name(), finding.group, finding.what);
}

std::string broken_lines(const std::vector<GateFinding>& broken, bool colour) {
  std::string text = broken.empty() ? "" : "broken limits, the worst first:\n";
  for (size_t i = 0; i < broken.size(); ++i) {
    text += fmt::format("{}{}{}\n", colour ? "\033[1;31m" : "", line(broken[i]),
                        colour ? "\033[0m" : "");
    if (i < kWithCommand && !broken[i].repro.empty())
      text += fmt::format("      {}\n", broken[i].repro);
  }
  return text;
}

/// Findings of which the same is said: frames or energy that no record has.
using Alike = std::vector<const GateFinding*>;

/// In the order of the first of each.
std::vector<Alike> fold(const std::vector<GateFinding>& findings) {
  std::vector<Alike> all;
  for (const GateFinding& finding : findings) {
    auto at = std::ranges::find_if(all, [&](const Alike& alike) {
      return alike.front()->group == finding.group && alike.front()->what == finding.what;
    });
    if (at == all.end()) at = all.insert(at, Alike{});
    at->push_back(&finding);
  }
  return all;
}

/// "  energy: no sensor measured it (no-energy); rule 1 allows 2: 9 records (a, b, c and 6 more)".
std::string line(const Alike& alike) {
  const GateFinding& first = *alike.front();
  if (alike.size() == 1) return line(first);
  std::vector<std::string> names;
  for (const GateFinding* finding : alike)
    if (names.size() < kNamed) names.push_back(finding->key.name());
  return fmt::format(
      "  {}: {}: {} records ({}{})", first.group, first.what, alike.size(), fmt::join(names, ", "),
      alike.size() > kNamed ? fmt::format(" and {} more", alike.size() - kNamed) : "");
}

std::string undecided_lines(const std::vector<GateFinding>& findings) {
  std::string text = findings.empty() ? "" : "undecided:\n";
  std::set<std::string> codes;
  for (const Alike& alike : fold(findings)) text += line(alike) + "\n";
  for (const GateFinding& finding : findings) codes.insert(finding.code);
  text += print_meanings(codes);
  if (codes.contains("not-passed"))
    text += "not-passed: it did not pass, and no rule limits its verdict\n";
  if (codes.contains("not-timed")) text += "not-timed: neither side has a time\n";
  if (codes.contains("no-frames")) text += "no-frames: attest run --paced releases frames\n";
  if (codes.contains("no-energy")) text += "no-energy: attest run --energy measures it\n";
  return text;
}

std::string waived_lines(const std::vector<GateFinding>& findings) {
  std::string text = findings.empty() ? "" : "waived:\n";
  for (const GateFinding& finding : findings)
    text += fmt::format("{}; {}\n", line(finding), finding.waiver);
  return text;
}

std::string listed(const char* title, const std::vector<std::string>& names) {
  return names.empty() ? "" : fmt::format("{}:\n  {}\n", title, fmt::join(names, "\n  "));
}

/// " (1 verdict, 2 time)"; empty: none is broken.
std::string by_group(const std::vector<GateFinding>& broken) {
  std::vector<std::pair<std::string, size_t>> counts;
  for (const GateFinding& finding : broken) {
    auto at = std::ranges::find(counts, finding.group, &std::pair<std::string, size_t>::first);
    if (at == counts.end()) at = counts.insert(at, {finding.group, 0});
    ++at->second;
  }
  std::vector<std::string> words;
  for (const auto& [group, count] : counts) words.push_back(fmt::format("{} {}", count, group));
  return words.empty() ? "" : fmt::format(" ({})", fmt::join(words, ", "));
}

std::string counts(const Gated& gated) {
  return fmt::format(
      "{} limits of {} cases: {} broken{}, {} waived, {} undecided; {} missing, {} new\n",
      gated.limits, gated.cases, gated.broken.size(), by_group(gated.broken), gated.waived.size(),
      gated.undecided.size(), gated.missing.size(), gated.added.size());
}

nlohmann::json to_json(const std::vector<GateFinding>& findings) {
  nlohmann::json all = nlohmann::json::array();
  for (const GateFinding& finding : findings)
    all.push_back({{"suite", finding.key.suite},
                   {"case", finding.key.case_name},
                   {"dtype", finding.key.dtype},
                   {"impl", finding.key.impl},
                   {"limit", finding.group},
                   {"what", finding.what},
                   {"code", finding.code},
                   {"waiver", finding.waiver},
                   {"repro", finding.repro}});
  return all;
}

}  // namespace

nlohmann::json to_json(const Gated& gated) {
  return {{"type", "gate"},
          {"cases", gated.cases},
          {"limits", gated.limits},
          {"broken", to_json(gated.broken)},
          {"waived", to_json(gated.waived)},
          {"undecided", to_json(gated.undecided)},
          {"missing", gated.missing},
          {"new", gated.added},
          {"unmatched", gated.unmatched},
          {"notes", gated.notes},
          {"unable", gated.unable}};
}

std::string print_gate(const Gated& gated, bool colour) {
  std::string text = broken_lines(gated.broken, colour) + waived_lines(gated.waived) +
                     undecided_lines(gated.undecided) +
                     listed("in the baseline, but not in the results", gated.missing) +
                     listed("not in the baseline", gated.added) +
                     listed("rules that match no case", gated.unmatched);
  for (const std::string& note : gated.notes) text += note + "\n";
  return text + counts(gated);
}

}  // namespace attest::reports
