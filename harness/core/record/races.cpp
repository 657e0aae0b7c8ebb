#include "core/record/races.hpp"

#include <fmt/format.h>

#include "core/record/case_key.hpp"

namespace attest::core {
namespace {

bool is_apart(const std::optional<RerunRecord>& reruns) { return reruns && reruns->apart; }

// "fill random", "repetition": what the reruns were of. Empty: no two runs were apart.
std::string unsteady_check(const Record& record) {
  for (const FillRecord& fill : record.fills)
    if (is_apart(fill.reruns)) return "fill " + fill.fill;
  for (const RelationRecord& relation : record.relations)
    if (is_apart(relation.reruns)) return relation.relation;
  return {};
}

}  // namespace

bool shows_race(const Record& record) { return !unsteady_check(record).empty(); }

void Races::note(const Record& record) {
  const std::string check = unsteady_check(record);
  if (check.empty()) return;
  CaseKey key = question_of(record);
  key.impl.clear();
  why_.try_emplace(build_of(record), fmt::format("a rerun of {}({}) gave other outputs: race or "
                                                 "uninitialised memory",
                                                 key.name(), check));
}

const std::string* Races::why(const Record& record) const { return why(build_of(record)); }

const std::string* Races::why(const Build& build) const {
  const auto found = why_.find(build);
  return found == why_.end() ? nullptr : &found->second;
}

bool Races::overrule(Record& record) const {
  const std::string* const reason = why(record);
  if (!reason || !record.outcome.passes()) return false;
  record.outcome = {ReasonCode::kSuspectRace, "passes, but " + *reason};
  return true;
}

std::map<std::string, Overruled> overrule_races(std::vector<Record>& records) {
  Races races;
  for (const Record& record : records) races.note(record);
  std::map<std::string, Overruled> overruled;
  for (Record& record : records) {
    if (!races.overrule(record)) continue;
    Overruled& of_impl = overruled[record.impl];
    ++of_impl.passes;
    of_impl.why = *races.why(record);
  }
  return overruled;
}

}  // namespace attest::core
