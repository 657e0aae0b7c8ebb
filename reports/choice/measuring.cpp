#include "reports/choice/measuring.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <string_view>
#include <vector>

#include "reports/words/sizes.hpp"

namespace attest::reports {
namespace {

using core::ReasonCode;
using core::Record;

constexpr const char* kRun = "attest run ";
constexpr const char* kRepro = "attest repro ";

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

/// A word without its quotes, as a shell reads it.
std::string unquoted(const std::string& word) {
  std::string text;
  bool quoted = false;
  for (size_t i = 0; i < word.size(); ++i) {
    if (word[i] == '\'')
      quoted = !quoted;
    else if (word[i] == '\\' && !quoted && i + 1 < word.size())
      text += word[++i];
    else
      text += word[i];
  }
  return text;
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

/// A glob that matches this name. A comma separates globs, so that one is any character.
std::string glob_of(const std::string& name) {
  std::string glob;
  for (const char c : name) {
    if (std::string_view("*?[\\").find(c) != std::string_view::npos) glob += '\\';
    glob += c == ',' ? '?' : c;
  }
  return glob;
}

/// The suite as the run's command names it, which may be a file; else its name.
std::string suite_of(const core::Results& run, const std::string& suite) {
  for (const std::string& quoted : words_of(run.header.command)) {
    const std::string word = unquoted(quoted);
    if (word == suite + ".json" || word.ends_with("/" + suite + ".json"))
      // A suite that comes with attest is known by its name everywhere.
      return word.find("share/attest/suites/") == word.npos ? word : suite;
  }
  return suite;
}

/// The record whose problem is measured: of a case the last, of a family that with the most similar
/// number of tokens.
const Record& problem_to_measure(const ProblemRecords& problem, std::optional<int64_t> tokens) {
  if (!tokens) return *problem.records.back();
  return **std::ranges::min_element(
      problem.records, {}, [&](const Record* record) { return distance(*record, *tokens); });
}

/// A file of its own for each problem and implementation, because attest run replaces none:
/// "more_lidar_full_32768-self_f16_naive_2.jsonl". Cases without a suite may have one name for
/// several problems, so that the problem is in the name of the file too.
std::string output_of(const Record& problem, std::optional<int64_t> tokens,
                      const Record& implementation) {
  const std::string size = tokens ? std::to_string(*tokens) : "";
  const std::string spec = problem.suite.empty() ? problem.spec : "";
  std::string name = "more";
  for (const std::string& part : {problem.suite, problem.case_name, spec, problem.dtype, size,
                                  implementation.impl, std::to_string(implementation.threads)})
    name += part.empty() ? "" : "_" + part;
  std::string file;
  for (const char c : name) {
    const bool is_plain = std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '.';
    if ((c & 0xC0) != 0x80) file += is_plain ? c : '-';  // one '-' for a character of UTF-8
  }
  return file + ".jsonl";
}

/// Runs what `subject` says, the problem of a record or that at so many tokens, as the
/// implementation was run.
std::string command(const std::string& subject, const Record& problem,
                    std::optional<int64_t> tokens, const Record& implementation) {
  return fmt::format("{}{} {} --output {}", kRun, subject, options_of(implementation),
                     output_of(problem, tokens, implementation));
}

}  // namespace

std::string subject_of(const core::Results& run, const Record& record) {
  if (record.repro.starts_with(kRun)) {  // of vectors, and of cases without inputs
    const size_t from = std::string_view(kRun).size();
    return record.repro.substr(from, record.repro.find(" --impl ") - from);
  }
  if (record.suite.empty() || record.sweep) return shell_word(record.spec);
  return fmt::format("{} --case {} --dtype {}", shell_word(suite_of(run, record.suite)),
                     shell_word(glob_of(record.case_name)), shell_word(glob_of(record.dtype)));
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
  if (record.outcome.code == ReasonCode::kSkippedMemory) drop(words, "--memory");
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
  if (is_there)
    return command(subject_of(run_of(*problem.input, nearest), nearest), nearest, {},
                   implementation);
  return command(shell_word(with_tokens(nearest.spec, *tokens)), nearest, tokens, implementation);
}

std::string command_of(const ProblemRecords& problem, std::optional<int64_t> tokens,
                       const Candidate& candidate) {
  const Record& nearest = *candidate.points.front();
  if (candidate.limit == "range" || candidate.limit == "alignment")
    return measuring_command(problem, tokens, nearest);
  return nearest.outcome.verdict() == core::Verdict::kSkipped
             ? command(subject_of(run_of(*problem.input, nearest), nearest), nearest, {}, nearest)
             : nearest.repro;
}

}  // namespace attest::reports
