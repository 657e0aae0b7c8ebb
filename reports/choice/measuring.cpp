#include "reports/choice/measuring.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "reports/sizes.hpp"

namespace attest::reports {
namespace {

using core::ReasonCode;
using core::Record;

constexpr const char* kRun = "attest run ";
constexpr const char* kRepro = "attest repro ";
constexpr const char* kOutput = " --output more.jsonl";

/// A case is skipped where so many runs are estimated to take longer than its limit.
constexpr double kLeastRuns = 4;
/// By how much the limits are above what is estimated.
constexpr double kRoom = 2;
constexpr double kUsualTimeout_s = 60;

/// The words of a command line as they are written, with their quotes.
std::vector<std::string> words_of(const std::string& line) {
  std::vector<std::string> words(1);
  bool quoted = false;
  for (size_t i = 0; i < line.size(); ++i) {
    if (line[i] == '\'') quoted = !quoted;
    if (line[i] == ' ' && !quoted) {
      words.emplace_back();
      continue;
    }
    words.back() += line[i];
    if (line[i] == '\\' && !quoted && i + 1 < line.size()) words.back() += line[++i];
  }
  std::erase(words, "");
  return words;
}

/// Removes an option with its value.
void drop(std::vector<std::string>& words, const char* option) {
  const auto at = std::ranges::find(words, option);
  if (at != words.end()) words.erase(at, at + std::min<ptrdiff_t>(2, words.end() - at));
}

/// One word of a command line: names come from suites and plugins, and may hold anything.
std::string shell_word(const std::string& text) {
  if (!text.empty() &&
      text.find_first_not_of("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                             "_./=-") == text.npos)
    return text;
  std::string word = "'";
  for (const char c : text) word += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return word + "'";
}

/// The suite as the run's command names it, which may be a file; else its name.
std::string suite_of(const core::Results& run, const std::string& suite) {
  for (const std::string& word : words_of(run.header.command))
    if (word == suite + ".json" || word.ends_with("/" + suite + ".json"))
      // A suite that comes with attest is known by its name everywhere.
      return word.find("share/attest/suites/") == word.npos ? word : suite;
  return suite;
}

/// The record whose problem is measured: of a case the last, of a family that with the most similar
/// number of tokens.
const Record& problem_to_measure(const ProblemRecords& problem, std::optional<int64_t> tokens) {
  if (!tokens) return *problem.records.back();
  return **std::ranges::min_element(
      problem.records, {}, [&](const Record* record) { return distance(*record, *tokens); });
}

/// Runs what `subject` says as the implementation of the record was run.
std::string command(const std::string& subject, const Record& implementation) {
  return kRun + subject + " " + options_of(implementation) + kOutput;
}

}  // namespace

std::string subject_of(const core::Results& run, const Record& record) {
  if (record.repro.starts_with(kRun)) {  // of vectors, and of cases without inputs
    const size_t from = std::string_view(kRun).size();
    return record.repro.substr(from, record.repro.find(" --impl ") - from);
  }
  if (record.suite.empty() || record.sweep) return shell_word(record.spec);
  return fmt::format("{} --case {} --dtype {}", shell_word(suite_of(run, record.suite)),
                     shell_word(record.case_name), shell_word(record.dtype));
}

std::string options_of(const Record& record) {
  std::vector<std::string> words = words_of(record.repro);
  const auto impl = std::ranges::find(words, "--impl");
  words.erase(words.begin(), impl);
  drop(words, "--impl");
  if (record.repro.starts_with(kRepro)) {
    drop(words, "--inputs");
    drop(words, "--repeat");
    if (!words.empty()) words.pop_back();  // the problem
  }
  if (record.outcome.code == ReasonCode::kSkippedFill) drop(words, "--fill");
  if (record.outcome.code == ReasonCode::kSkippedTime) {
    drop(words, "--timeout");
    drop(words, "--case-limit");
    const double run_s = kRoom * record.estimated_ns * 1e-9;
    if (run_s > kUsualTimeout_s)
      words.push_back(fmt::format("--timeout {:.0f}s", std::ceil(run_s)));
    words.push_back(fmt::format("--case-limit {:.0f}s", std::ceil(kLeastRuns * run_s)));
  }
  words.insert(words.begin(), "--impl " + shell_word(record.impl));
  return fmt::format("{}", fmt::join(words, " "));
}

std::string measuring_command(const ProblemRecords& problem, std::optional<int64_t> tokens,
                              const Record& implementation) {
  const Record& nearest = problem_to_measure(problem, tokens);
  const bool is_there = !tokens || tokens_of(nearest.spec) == *tokens;
  return command(is_there ? subject_of(run_of(*problem.input, nearest), nearest)
                          : shell_word(with_tokens(nearest.spec, *tokens)),
                 implementation);
}

std::string command_of(const ProblemRecords& problem, std::optional<int64_t> tokens,
                       const Candidate& candidate) {
  const Record& nearest = *candidate.points.front();
  if (candidate.limit == "range" || candidate.limit == "alignment")
    return measuring_command(problem, tokens, nearest);
  return nearest.outcome.verdict() == core::Verdict::kSkipped
             ? command(subject_of(run_of(*problem.input, nearest), nearest), nearest)
             : nearest.repro;
}

}  // namespace attest::reports
