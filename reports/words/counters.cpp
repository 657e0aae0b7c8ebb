#include "reports/words/counters.hpp"

#include <fmt/format.h>

#include "reports/words/sizes.hpp"

namespace attest::reports {
namespace {

std::string three_digits_of(double value) {
  return value < 1000 ? fmt::format("{:#.3g}", value) : fmt::format("{:.0f}", value);
}

}  // namespace

std::optional<CounterFigures> counter_figures(const core::Record& record) {
  if (!record.time || !record.time->usage || !record.time->usage->counters) return {};
  const core::HardwareCounts& counts = *record.time->usage->counters;
  CounterFigures figures{.counted_share = counts.counted_share};
  if (counts.cycles.value_or(0) > 0 && counts.instructions)
    figures.instructions_per_cycle = *counts.instructions / *counts.cycles;
  const double tokens = double(record.time->samples_ns.size()) *
                        double(record.time->iterations_per_sample) *
                        double(all_tokens_of(record.spec));
  if (counts.cache_misses && tokens > 0) figures.misses_per_token = *counts.cache_misses / tokens;
  return figures;
}

std::string counter_line(const core::Record& record) {
  const std::optional<CounterFigures> figures = counter_figures(record);
  if (!figures) return {};
  std::string text;
  if (figures->instructions_per_cycle)
    text = three_digits_of(*figures->instructions_per_cycle) + " instructions a cycle";
  if (figures->misses_per_token)
    text += fmt::format("{}{} cache misses a token", text.empty() ? "" : ", ",
                        three_digits_of(*figures->misses_per_token));
  if (!text.empty() && figures->counted_share < 1)
    text += fmt::format(" (scaled: counted in {:.0f} % of the time)", 100 * figures->counted_share);
  return text;
}

}  // namespace attest::reports
