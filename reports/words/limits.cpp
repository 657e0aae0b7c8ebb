#include "reports/words/limits.hpp"

#include <fmt/format.h>

#include "reports/words/titles.hpp"

namespace attest::reports {

using core::Record;

std::string roofline_share(const Record& record) {
  if (!record.roofline) return {};
  const double share = record.roofline->share;
  return fmt::format("{:.0f}%{}", share * 100, share > 1 ? "(!)" : "");
}

void Excess::add(const Record& record) {
  if (!record.roofline || record.roofline->share <= 1) return;
  ++records;
  if (record.roofline->share <= share) return;
  share = record.roofline->share;
  impl = record.impl;
  title = case_title(record);
  limit = record.roofline->limit;
}

std::string Excess::print() const {
  if (records == 0) return {};
  return fmt::format(
      "{} record{} faster than the roofline allows, at most {} of {} in {:.0f} % of the least time "
      "({}): attest measured too low a peak, as on a busy "
      "machine, or counts too many operations or bytes",
      records, records == 1 ? " is" : "s are", impl, title, 100 / share, limit);
}

std::string print_excess(const std::vector<Record>& records) {
  Excess excess;
  for (const Record& record : records) excess.add(record);
  return excess.print();
}

}  // namespace attest::reports
