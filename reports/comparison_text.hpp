// A comparison for a terminal, and as JSON.
#pragma once
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "reports/comparison.hpp"

namespace attest::reports {

struct PrintOptions {
  bool colour = false;        // ANSI colours
  bool changed_only = false;  // no lines of cases in which nothing changed, nor was left open
};

/// One block a case and dtype, one line an implementation: verdicts, then what time, memory and
/// error did, each with after / before. Below: what is on one side alone, notes, what the codes
/// mean, counts.
std::string print_comparison(const Comparison& comparison, const PrintOptions& options);

nlohmann::json to_json(const Comparison& comparison);

}  // namespace attest::reports
