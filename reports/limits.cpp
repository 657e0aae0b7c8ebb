#include "reports/limits.hpp"

#include <fmt/format.h>

#include "reports/table.hpp"

namespace attest::reports {

using core::Record;

std::string roofline_share(const Record& record) {
  if (!record.roofline) return {};
  const double share = record.roofline->share;
  return fmt::format("{:.0f}%{}", share * 100, share > 1 ? "(!)" : "");
}

std::string print_excess(const std::vector<Record>& records) {
  size_t count = 0;
  const Record* most = nullptr;
  for (const Record& record : records) {
    if (!record.roofline || record.roofline->share <= 1) continue;
    ++count;
    if (!most || record.roofline->share > most->roofline->share) most = &record;
  }
  if (!most) return {};
  return fmt::format(
      "{} record{} faster than the roofline allows, at most {} of {} in {:.0f} % of the least time "
      "({}): attest measured too low a peak, as on a busy "
      "machine, or counts too many operations or bytes",
      count, count == 1 ? " is" : "s are", most->impl, case_title(*most),
      100 / most->roofline->share, most->roofline->limit);
}

}  // namespace attest::reports
