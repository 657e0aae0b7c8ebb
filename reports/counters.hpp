// What the processor counted during the samples of a record, in words.
#pragma once
#include <optional>
#include <string>

#include "core/record/record.hpp"

namespace attest::reports {

struct CounterFigures {
  std::optional<double> instructions_per_cycle;
  std::optional<double> misses_per_token;  // of the last level of cache, in one run
  double counted_share = 1;                // below 1: scaled, since counters took turns
};

/// Nothing if the record has no counts of the processor.
std::optional<CounterFigures> counter_figures(const core::Record& record);

/// "2.31 instructions a cycle, 0.42 cache misses a token". If counters took turns, it says so.
/// Empty without counts.
std::string counter_line(const core::Record& record);

}  // namespace attest::reports
