#include "reports/choice/choice_text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "core/tensor/walk.hpp"
#include "reports/escape.hpp"
#include "reports/table.hpp"

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

std::string verdict_line(const Choice& choice) {
  const size_t all = choice.candidates.size();
  if (const Candidate* best = choice.best())
    return fmt::format("take {}: {} of {} may be used", name_of(*best, choice),
                       choice.usable_count(), all);
  if (choice.usable() == Usable::kNo) return fmt::format("none of {} may be used", all);
  const auto unknown = std::ranges::count(choice.candidates, Usable::kUnknown, &Candidate::usable);
  return fmt::format(
      "INCONCLUSIVE: the records cannot tell for {} of {}, and none of the others may be used",
      unknown, all);
}

/// "use", "inconclusive" or "none": for a program, which must not use what is inconclusive.
const char* answer_word(const Choice& choice) {
  constexpr const char* kAnswers[] = {"use", "inconclusive", "none"};
  return kAnswers[size_t(choice.usable())];
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
  point["repro"] = record.repro;
  return point;
}

ordered_json candidate_json(const Candidate& candidate, const Choice& choice,
                            const ChoiceLimits& limits) {
  ordered_json one{{"impl", candidate.impl},
                   {"threads", candidate.threads},
                   {"usable", name(candidate.usable)},
                   {"limit", candidate.limit},
                   {"why", why(candidate, choice.tokens, limits)},
                   {"median_ns", optional_json(candidate.median_ns())},
                   {"worst_ns", optional_json(candidate.worst_ns())},
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
  return one;
}

ordered_json answer_json(const Answer& answer, const ChoiceLimits& limits) {
  ordered_json one = problem_json(answer.problem);
  if (answer.choice.tokens) one["tokens"] = *answer.choice.tokens;
  one.update(best_json(answer.choice));
  one["candidates"] = ordered_json::array();
  for (const Candidate& candidate : answer.choice.candidates)
    one["candidates"].push_back(candidate_json(candidate, answer.choice, limits));
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
  text += fmt::format(", on {}\n  {}\n", printable(answer.problem.machine), verdict_line(choice));
  size_t width = 0;
  for (const Candidate& candidate : choice.candidates)
    width = std::max(width, name_of(candidate, choice).size());
  for (const Candidate& candidate : choice.candidates) {
    const auto at = size_t(candidate.usable);
    text += fmt::format("  {}{:<11}{}  {:<{}}  {}\n", colour ? kUsableColours[at] : "",
                        kUsableWords[at], colour ? "\033[0m" : "",
                        printable(name_of(candidate, choice)), width,
                        why(candidate, choice.tokens, limits));
    const std::string& repro = candidate.points.front()->repro;
    if (candidate.usable != Usable::kYes && !repro.empty())
      text += fmt::format("  {:13}{:<{}}  {}\n", "", "", width, printable(repro));
  }
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
