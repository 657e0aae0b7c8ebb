// How implementations scale, as tables of text for the formats that have tables.
#pragma once
#include <string>
#include <vector>

#include "core/record/results.hpp"

namespace attest::reports {

struct ScalingTable {
  std::string title;
  std::vector<std::string> columns;
  std::vector<std::vector<std::string>> rows;  // as many cells as columns
};

/// For each sweep of the run the exponents and largest sizes of its implementations; then
/// crossovers, scaling over threads, and findings, where there are any. No tables if no record is
/// of a sweep.
std::vector<ScalingTable> scaling_tables(const core::Results& run);

}  // namespace attest::reports
