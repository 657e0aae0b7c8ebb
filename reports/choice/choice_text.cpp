#include "reports/choice/choice_text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "core/tensor/walk.hpp"
#include "reports/choice/measuring.hpp"
#include "reports/choice/why.hpp"
#include "reports/table.hpp"
#include "reports/words/escape.hpp"
#include "reports/words/sizes.hpp"

namespace attest::reports {
namespace {

using nlohmann::ordered_json;

constexpr int kSchema = 1;

constexpr const char* kUsableWords[] = {"yes", "cannot tell", "no"};
constexpr const char* kUsableColours[] = {"\033[32m", "\033[33m", "\033[31m"};

/// "flash_cpu"; "flash_cpu, 2 threads" where the choice has it with several numbers of threads.
std::string name_of(const Candidate& candidate, const Choice& choice) {
  const auto same = std::ranges::count(choice.candidates, candidate.impl, &Candidate::impl);
  return same > 1 ? fmt::format("{}, {} thread{}", candidate.impl, candidate.threads,
                                candidate.threads == 1 ? "" : "s")
                  : candidate.impl;
}

/// "; the nearest that was measured is flash_cpu: its median of 1.34 s is 26.8 times the deadline
/// of 50.0 ms". Empty if no miss was measured.
std::string nearest_words(const Choice& choice, const ChoiceLimits& limits) {
  const Candidate* nearest = choice.nearest_miss();
  return nearest
             ? fmt::format("; the nearest that was measured is {}: {}", name_of(*nearest, choice),
                           miss_words(*nearest, choice.tokens, limits))
             : "";
}

std::string verdict_line(const Choice& choice, const ChoiceLimits& limits) {
  const size_t all = choice.candidates.size();
  if (const Candidate* best = choice.best())
    return fmt::format("take {}: {} of {} may be used{}", name_of(*best, choice),
                       choice.usable_count(), all, limits_words(limits));
  const std::string nearest = limits_words(limits) + nearest_words(choice, limits);
  if (choice.usable() == Usable::kNo) return fmt::format("none of {} may be used{}", all, nearest);
  const auto unknown = std::ranges::count(choice.candidates, Usable::kUnknown, &Candidate::usable);
  return fmt::format(
      "INCONCLUSIVE: the records cannot tell for {} of {}, and none of the others may be used{}",
      unknown, all, nearest);
}

/// How the candidate was judged; of several points that in part, if there is one.
Judging least_judging(const Candidate& candidate) {
  for (const core::Record* point : candidate.points)
    if (const Judging judging = judging_of(*point); judging.is_partial()) return judging;
  return judging_of(*candidate.points.front());
}

/// "use", "inconclusive" or "none": for a program, which must not use what is inconclusive.
const char* answer_word(const Choice& choice) {
  constexpr const char* kAnswers[] = {"use", "inconclusive", "none"};
  return kAnswers[size_t(choice.usable())];
}

/// The command that measures an implementation which has no record of the problem.
std::string command_for_other(const Answer& answer, const core::Record& other) {
  return measuring_command(answer.problem, answer.choice.tokens, other);
}

ordered_json optional_json(const std::optional<double>& value) {
  return value ? ordered_json(*value) : ordered_json();
}

ordered_json point_json(const core::Record& record) {
  ordered_json point{{"case", record.case_name}};
  if (const int64_t tokens = tokens_of(record.spec)) point["tokens"] = tokens;
  point["verdict"] = core::name(record.outcome.verdict());
  point["max_error_ratio"] = core::number(record.max_ratio);
  point["memory_bytes"] = optional_json(used_bytes(record.memory));
  const Judging judging = judging_of(record);
  point["judged"] = {
      {"fills", judging.fills}, {"relations", judging.relations}, {"rows", judging.rows}};
  point["repro"] = record.repro;
  return point;
}

ordered_json miss_json(const std::optional<Miss>& miss) {
  return miss ? ordered_json{{"limit", miss->limit}, {"factor", miss->factor}} : ordered_json();
}

ordered_json candidate_json(const Candidate& candidate, const Answer& answer,
                            const ChoiceLimits& limits) {
  const Input& input = *answer.problem.input;
  const core::Record& nearest = *candidate.points.front();
  ordered_json one{{"impl", candidate.impl},
                   {"threads", candidate.threads},
                   {"usable", name(candidate.usable)},
                   {"limit", candidate.limit},
                   {"why", why(candidate, answer.choice.tokens, limits)},
                   {"miss", miss_json(candidate.miss)},
                   {"processor", processor(run_of(input, nearest), nearest)},
                   {"median_ns", optional_json(candidate.median_ns())},
                   {"worst_ns", optional_json(candidate.worst_ns())},
                   {"command", command_of(answer.problem, answer.choice.tokens, candidate)},
                   {"points", ordered_json::array()}};
  for (const core::Record* point : candidate.points) one["points"].push_back(point_json(*point));
  return one;
}

ordered_json best_json(const Choice& choice) {
  ordered_json one{{"answer", answer_word(choice)}, {"best", nullptr}, {"threads", nullptr}};
  if (const Candidate* best = choice.best()) {
    one["best"] = best->impl;
    one["threads"] = best->threads;
  }
  return one;
}

ordered_json problem_json(const ProblemRecords& problem) {
  ordered_json one{{"suite", problem.suite}};
  if (!problem.name.empty()) one["case"] = problem.name;
  one["dtype"] = problem.dtype;
  one["machine"] = problem.machine;
  one["problem"] = problem.spec;
  if (!problem.name.empty()) one["inputs"] = problem.inputs;
  return one;
}

ordered_json answer_json(const Answer& answer, const ChoiceLimits& limits) {
  ordered_json one = problem_json(answer.problem);
  if (answer.choice.tokens) one["tokens"] = *answer.choice.tokens;
  one.update(best_json(answer.choice));
  const Candidate* nearest = answer.choice.nearest_miss();
  one["nearest_miss"] = nearest
                            ? ordered_json{{"impl", nearest->impl}, {"threads", nearest->threads}}
                            : ordered_json();
  one["candidates"] = ordered_json::array();
  for (const Candidate& candidate : answer.choice.candidates)
    one["candidates"].push_back(candidate_json(candidate, answer, limits));
  one["not_measured"] = ordered_json::array();
  for (const core::Record* other : answer.problem.others)
    one["not_measured"].push_back(
        {{"impl", other->impl}, {"command", command_for_other(answer, *other)}});
  return one;
}

ordered_json grid_json(const ProblemRecords& family, const ChoiceLimits& limits) {
  ordered_json one = problem_json(family);
  one["sizes"] = ordered_json::array();
  for (const int64_t tokens : grid(family)) {
    ordered_json size{{"tokens", tokens}};
    size.update(best_json(choose(family, tokens, limits)));
    one["sizes"].push_back(std::move(size));
  }
  return one;
}

}  // namespace

std::string print_choice(const Answer& answer, const ChoiceLimits& limits, bool colour) {
  const Choice& choice = answer.choice;
  std::string text = printable(title(answer.problem));
  if (choice.tokens) text += fmt::format(", {} tokens", *choice.tokens);
  text += fmt::format(", on {}\n  {}\n", printable(answer.problem.machine),
                      printable(verdict_line(choice, limits)));
  size_t width = 0;
  for (const Candidate& candidate : choice.candidates)
    width = std::max(width, name_of(candidate, choice).size());
  const auto add_below = [&](const std::string& words) {
    text += fmt::format("  {:13}{:<{}}  {}\n", "", "", width, printable(words));
  };
  for (const Candidate& candidate : choice.candidates) {
    const auto at = size_t(candidate.usable);
    text += fmt::format("  {}{:<11}{}  {:<{}}  {}\n", colour ? kUsableColours[at] : "",
                        kUsableWords[at], colour ? "\033[0m" : "",
                        printable(name_of(candidate, choice)), width,
                        why(candidate, choice.tokens, limits));
    if (candidate.usable == Usable::kYes) {
      const Judging judging = least_judging(candidate);
      if (judging.is_partial()) add_below("in part: " + judging_words(judging));
    } else if (const std::string command = command_of(answer.problem, choice.tokens, candidate);
               !command.empty()) {
      add_below(command);
    }
  }
  for (const core::Record* other : answer.problem.others)
    text += fmt::format("  not measured here: {}\n  {:13}{}\n", printable(other->impl), "",
                        printable(command_for_other(answer, *other)));
  return text;
}

ordered_json choices_json(const std::vector<Answer>& answers,
                          const std::vector<ProblemRecords>& families, const ChoiceLimits& limits) {
  ordered_json document{{"schema", kSchema},
                        {"limits",
                         {{"deadline_ns", optional_json(limits.deadline_ns)},
                          {"memory_bytes", optional_json(limits.memory_bytes)},
                          {"max_error_ratio", optional_json(limits.max_error_ratio)}}},
                        {"choices", ordered_json::array()},
                        {"grids", ordered_json::array()}};
  for (const Answer& answer : answers) document["choices"].push_back(answer_json(answer, limits));
  for (const ProblemRecords& family : families)
    document["grids"].push_back(grid_json(family, limits));
  return document;
}

}  // namespace attest::reports
