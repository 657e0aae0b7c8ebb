// Prints a comparison for a terminal, or as JSON.
#pragma once
#include <nlohmann/json_fwd.hpp>
#include <set>
#include <string>

#include "reports/compare/comparison.hpp"

namespace attest::reports {

struct PrintOptions {
  bool colour = false;        // ANSI colours
  bool changed_only = false;  // leaves out cases in which nothing changed and nothing is undecided
};

/// A block for each case and dtype, with a line for each implementation: the verdicts, then the
/// changes in time, memory and error, each with the ratio after / before. Below: records of one
/// side only, notes, the meaning of the codes, counts.
std::string print_comparison(const Comparison& comparison, const PrintOptions& options);

/// What codes of Changed mean, a line for each: "wide: the interval ...". Codes without a meaning
/// are left out.
std::string print_meanings(const std::set<std::string>& codes);

nlohmann::json to_json(const Comparison& comparison);

}  // namespace attest::reports
