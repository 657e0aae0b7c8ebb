// A comparison as text for a terminal, as rows for tables, and as JSON.
#pragma once
#include <nlohmann/json_fwd.hpp>
#include <set>
#include <string>
#include <vector>

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

/// Returns "Comparison with an earlier build: 2 of 14 cases got worse".
std::string comparison_title(const Comparison& comparison);
/// Return the names of the columns of a table, and the cells of a case.
std::vector<std::string> comparison_columns();
std::vector<std::string> comparison_cells(const Compared& one);
/// Returns sentences for below a table: counts, notes, and what the words in it mean.
std::vector<std::string> comparison_remarks(const Comparison& comparison);

/// What codes of Changed mean, a line for each: "wide: the interval ...". Codes without a meaning
/// are left out.
std::string print_meanings(const std::set<std::string>& codes);

nlohmann::json to_json(const Comparison& comparison);

}  // namespace attest::reports
