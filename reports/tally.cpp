#include "reports/tally.hpp"

#include <algorithm>
#include <numeric>

namespace attest::reports {

size_t Tally::all() const { return std::accumulate(verdicts.begin(), verdicts.end(), size_t(0)); }

size_t Tally::bad() const {
  size_t count = 0;
  for (size_t i = 0; i < verdicts.size(); ++i)
    if (core::is_bad(core::Verdict(i))) count += verdicts[i];
  return count;
}

size_t Tally::judged() const { return of(core::Verdict::kPass) + bad(); }

void Tallies::add(const core::Record& record) {
  const core::Verdict verdict = record.outcome.verdict();
  all.add(verdict);
  auto at = std::ranges::find(impls, record.impl, &std::pair<std::string, Tally>::first);
  if (at == impls.end()) at = impls.insert(at, {record.impl, {}});
  at->second.add(verdict);
}

}  // namespace attest::reports
