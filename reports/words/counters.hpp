// Figures from what the processor counted during the samples of a record.
#pragma once
#include <optional>
#include <string>

#include "core/record/record.hpp"

namespace attest::reports {

struct CounterFigures {
  std::optional<double> instructions_per_cycle;
  /// Misses of the last level of cache in one run, by the tokens of batch x length with padding.
  std::optional<double> misses_per_token;
  double counted_share = 1;  // below 1, the figures are scaled: counters took turns
};

/// Returns nothing if the record has no counts of the processor.
std::optional<CounterFigures> counter_figures(const core::Record& record);

/// Returns the figures in words: "2.31 instructions a cycle, 0.42 cache misses a token". The words
/// say so if the figures are scaled. The text is empty if the record has no counts.
std::string counter_line(const core::Record& record);

}  // namespace attest::reports
