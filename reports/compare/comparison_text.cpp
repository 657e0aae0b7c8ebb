#include "reports/compare/comparison_text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "core/tensor/walk.hpp"
#include "reports/words/units.hpp"

namespace attest::reports {
namespace {

using core::Change;
using core::Changed;

constexpr int kChanges = 5;  // core::Change
constexpr const char* kTimeWords[kChanges] = {"SAME", "FASTER", "SLOWER", "INCONCLUSIVE",
                                              "INVALID"};
constexpr const char* kMemoryWords[kChanges] = {"SAME", "SMALLER", "BIGGER", "INCONCLUSIVE",
                                                "INVALID"};
constexpr const char* kErrorWords[kChanges] = {"SAME", "MORE ACCURATE", "LESS ACCURATE",
                                               "INCONCLUSIVE", "INVALID"};
constexpr const char* kVerdictWords[] = {"same", "regressed", "fixed", "skipped"};

constexpr const char* kRatios = "x: after / before, with its interval";
constexpr const char* kFastest =
    "(fast): x is of the time that a tenth of the runs beat, which varies less; times, and the "
    "other x, are medians";

struct Meaning {
  const char* code;
  const char* text;
};
constexpr Meaning kMeanings[] = {
    {"no-floor",
     "these launches do not show how much times vary: state it with --floor, or run eight launches "
     "of each build that take turns"},
    {"wide", "the interval reaches across the edge of what matters"},
    {"within-floor",
     "launches of one build differ by as much: a change is not shown, and not excluded"},
    {"not-confirmed", "it was slower at first, but no second measurement confirms it"},
    {"one-sample", "a launch has one sample, which does not show how much times vary"},
    {"bad-times", "a measured time is not above zero: the clock or the file is wrong"},
    {"clocks", "the clock changed: in cycles it is another answer"},
    {"resolution", "the timer does not tell such times apart"},
    {"many-cases", "among so many cases one like that is to be expected: more launches would tell"},
    {"median-alone",
     "the medians differ, but the fastest tenth of the runs does not: more launches would tell"},
    {"two-ways", "the fastest runs and the medians changed in opposite directions"},
    {"other-machine", "times of different machines are not compared, unless by --across-machines"},
    {"other-power-mode",
     "times of different power modes of a board are never compared: sudo nvpmodel -m ID sets one"},
    {"other-build",
     "times of different kinds of build are not compared, unless by --across-machines"},
    {"other-threads",
     "times of different numbers of threads are not compared, unless by --across-machines"},
    {"other-problem", "the case is another problem now, or has other inputs"},
    {"other-inputs", "errors on different inputs, or in other rows of them, are not compared"},
    {"other-arithmetic", "declares other arithmetic, so errors are shares of another gate"},
    {"timed-once", "one side has no time"},
    {"no-peer", "what --relative-to names has no time there"},
    {"not-measured", "one side has no measured peak"},
};

std::string with_ratio(const char* word, const Changed& changed, bool interval) {
  if (changed.change == Change::kInvalid) return fmt::format("{} ({})", word, changed.code);
  std::string text = word;
  if (changed.change != Change::kSame || interval) text += fmt::format(" x{:.3f}", changed.ratio);
  if (interval) text += fmt::format(" [{:.3f} {:.3f}]", changed.low, changed.high);
  if (changed.of_fastest) text += " (fast)";
  if (changed.change == Change::kInconclusive) text += fmt::format(" ({})", changed.code);
  return text;
}

std::string cell(const char* const* words, const Changed& changed, bool interval) {
  return nothing_to_tell(changed) ? "" : with_ratio(words[int(changed.change)], changed, interval);
}

std::string title_of(const Compared& one) {
  return one.suite + (one.suite.empty() ? "" : "/") + one.case_name;
}

std::string verdict(const Compared& one) {
  return one.before == one.after ? std::string(name(one.after))
                                 : fmt::format("{} -> {}", name(one.before), name(one.after));
}

std::string times(const Compared& one) {
  return one.before_ns > 0 && one.after_ns > 0
             ? fmt::format("{} -> {}", print_time(one.before_ns), print_time(one.after_ns))
             : "";
}

bool of_the_machine(const Compared& one) {
  return one.same_everything &&
         (one.time.change == Change::kWorse || one.time.change == Change::kBetter);
}

std::string time_cell(const Compared& one) {
  return cell(kTimeWords, one.time, true) + (of_the_machine(one) ? " (machine)" : "");
}

std::string line(const Compared& one, size_t width, bool colour) {
  const bool red = colour && worse(one);
  std::string text = fmt::format(
      "  {:<{}}  {:<16} {:<22} {:<42} {:<24} {}", one.impl, width, verdict(one), times(one),
      time_cell(one), cell(kMemoryWords, one.memory, false), cell(kErrorWords, one.error, false));
  text.erase(text.find_last_not_of(' ') + 1);
  return (red ? "\033[1;31m" : "") + text + (red ? "\033[0m" : "") +
         (one.same_binary ? "  (same binary)\n" : "\n");
}

/// Whether its row has a ratio that is not of medians.
bool has_fastest(const Compared& one) {
  return one.time.of_fastest && one.time.change != Change::kInvalid;
}

/// What the codes that occur mean.
std::string meanings(const Comparison& comparison) {
  std::set<std::string> codes;
  for (const Compared& one : comparison.cases)
    for (const Changed* changed : {&one.time, &one.memory, &one.error}) codes.insert(changed->code);
  std::string text = print_meanings(codes);
  if (std::ranges::any_of(comparison.cases, has_fastest)) text += std::string(kFastest) + "\n";
  if (std::ranges::any_of(comparison.cases, of_the_machine))
    text +=
        "machine: implementation, attest, libraries and environment are the same on both sides: "
        "only this machine differed\n";
  return text;
}

std::string list(const char* title, const std::vector<std::string>& names) {
  return names.empty() ? "" : fmt::format("{}:\n  {}\n", title, fmt::join(names, "\n  "));
}

/// How many cases each word is said of; what nothing is told about counts as none.
std::map<std::string, size_t> totals(const Comparison& comparison,
                                     const Changed Compared::* quantity, const char* const* words) {
  std::map<std::string, size_t> counts;
  for (int change = 0; change < kChanges; ++change) counts[words[change]] = 0;
  for (const Compared& one : comparison.cases)
    if (!nothing_to_tell(one.*quantity)) ++counts[words[int((one.*quantity).change)]];
  return counts;
}
std::map<std::string, size_t> verdict_totals(const Comparison& comparison) {
  std::map<std::string, size_t> counts;
  for (const char* word : kVerdictWords) counts[word] = 0;
  for (const Compared& one : comparison.cases) ++counts[kVerdictWords[int(one.verdict)]];
  return counts;
}

std::string counts(const Comparison& comparison) {
  const auto verdicts = verdict_totals(comparison),
             time = totals(comparison, &Compared::time, kTimeWords),
             memory = totals(comparison, &Compared::memory, kMemoryWords),
             error = totals(comparison, &Compared::error, kErrorWords);
  return fmt::format(
      "{} compared: {} regressed, {} fixed, {} skipped; {} slower, {} faster, {} as fast, {} "
      "inconclusive, {} not comparable; "
      "{} bigger, {} smaller; {} less accurate, {} more accurate; {} only before, {} only after",
      comparison.cases.size(), verdicts.at("regressed"), verdicts.at("fixed"),
      verdicts.at("skipped"), time.at("SLOWER"), time.at("FASTER"), time.at("SAME"),
      time.at("INCONCLUSIVE"), time.at("INVALID"), memory.at("BIGGER"), memory.at("SMALLER"),
      error.at("LESS ACCURATE"), error.at("MORE ACCURATE"), comparison.only_before.size(),
      comparison.only_after.size());
}

nlohmann::json to_json(const Changed& changed, const char* const* words) {
  return {{"change", words[int(changed.change)]},
          {"code", changed.code},
          {"ratio", core::number(changed.ratio)},
          {"low", core::number(changed.low)},
          {"high", core::number(changed.high)},
          {"band", changed.band},
          {"launches_before", changed.launches_before},
          {"launches_after", changed.launches_after},
          {"paired", changed.paired},
          {"of_fastest", changed.of_fastest}};
}

nlohmann::json to_json(const Compared& one) {
  return {{"suite", one.suite},
          {"case", one.case_name},
          {"dtype", one.dtype},
          {"impl", one.impl},
          {"verdict_before", name(one.before)},
          {"verdict_after", name(one.after)},
          {"verdict", kVerdictWords[int(one.verdict)]},
          {"before_ns", one.before_ns},
          {"after_ns", one.after_ns},
          {"same_binary", one.same_binary},
          {"same_everything", one.same_everything},
          {"time", to_json(one.time, kTimeWords)},
          {"memory", to_json(one.memory, kMemoryWords)},
          {"error", to_json(one.error, kErrorWords)}};
}

}  // namespace

std::string print_comparison(const Comparison& comparison, const PrintOptions& options) {
  size_t width = 14;
  for (const Compared& one : comparison.cases) width = std::max(width, one.impl.size());
  std::string text = fmt::format("  {:<{}}  {:<16} {:<22} {:<42} {:<24} {}\n", "", width, "verdict",
                                 "time", "", "memory", "error");
  std::string block;
  size_t left_out = 0;
  for (const Compared& one : comparison.cases) {
    if (options.changed_only && unchanged(one)) {
      ++left_out;
      continue;
    }
    const std::string title = title_of(one) + " " + one.dtype;
    if (title != block) {
      text += block = title;
      text += "\n";
    }
    text += line(one, width, options.colour);
  }
  if (left_out > 0)
    text += fmt::format("{} of {} did not change\n", left_out, comparison.cases.size());
  text += "\n" + list("only before", comparison.only_before) +
          list("only after", comparison.only_after);
  for (const std::string& note : comparison.notes) text += note + "\n";
  return text + meanings(comparison) + counts(comparison) + "\n" + kRatios + "\n";
}

std::string comparison_title(const Comparison& comparison) {
  const auto count =
      std::ranges::count_if(comparison.cases, [](const Compared& one) { return worse(one); });
  return fmt::format("Comparison with an earlier build: {} of {} cases got worse", count,
                     comparison.cases.size());
}

std::vector<std::string> comparison_columns() {
  return {"case", "dtype", "implementation", "verdict", "time", "change", "memory", "error"};
}

std::vector<std::string> comparison_cells(const Compared& one) {
  return {title_of(one),
          one.dtype,
          one.impl + (one.same_binary ? " (same binary)" : ""),
          verdict(one),
          times(one),
          time_cell(one),
          cell(kMemoryWords, one.memory, false),
          cell(kErrorWords, one.error, false)};
}

std::vector<std::string> comparison_remarks(const Comparison& comparison) {
  std::vector<std::string> sentences{counts(comparison)};
  sentences.insert(sentences.end(), comparison.notes.begin(), comparison.notes.end());
  sentences.push_back(kRatios);
  std::istringstream lines(meanings(comparison));
  for (std::string one; std::getline(lines, one);) sentences.push_back(one);
  return sentences;
}

std::string print_meanings(const std::set<std::string>& codes) {
  std::string text;
  for (const auto& [code, meaning] : kMeanings)
    if (codes.contains(code)) text += fmt::format("{}: {}\n", code, meaning);
  return text;
}

nlohmann::json to_json(const Comparison& comparison) {
  nlohmann::json cases = nlohmann::json::array();
  for (const Compared& one : comparison.cases) cases.push_back(to_json(one));
  return {{"type", "comparison"},
          {"totals",
           {{"verdict", verdict_totals(comparison)},
            {"time", totals(comparison, &Compared::time, kTimeWords)},
            {"memory", totals(comparison, &Compared::memory, kMemoryWords)},
            {"error", totals(comparison, &Compared::error, kErrorWords)}}},
          {"cases", std::move(cases)},
          {"only_before", comparison.only_before},
          {"only_after", comparison.only_after},
          {"notes", comparison.notes}};
}

}  // namespace attest::reports
