// Prints choices for a terminal, and as JSON for a program that picks an implementation.
#pragma once
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "reports/choice/choice.hpp"

namespace attest::reports {

/// The answer for one problem.
struct Answer {
  ProblemRecords problem;
  Choice choice;
};

/// Says which implementation to take, or which one misses the limits by the least. Then each has a
/// line with its reason. Below those that may be used it says if they were judged in part; below
/// the others it has the command that shows it. Last come the implementations that have no record
/// of the problem, with the commands that measure them.
std::string print_choice(const Answer& answer, const ChoiceLimits& limits, bool colour);

/// The answers, and for each of the families a grid: the answer at each power of two of tokens.
/// reports/README.md describes the document.
nlohmann::ordered_json choices_json(const std::vector<Answer>& answers,
                                    const std::vector<ProblemRecords>& families,
                                    const ChoiceLimits& limits);

}  // namespace attest::reports
