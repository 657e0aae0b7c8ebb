#include "core/inputs/event_ledger.hpp"

#include <algorithm>

#include "core/problem/glob.hpp"

namespace attest::core {

std::vector<std::string> fills_of(const Case& one, const Problem& problem) {
  const bool tokens = one.inputs.from_tokens;
  if (one.fills.empty()) return default_fills(problem, tokens);
  return std::ranges::find(one.fills, kAllFills) != one.fills.end() ? known_fills(problem, tokens)
                                                                    : one.fills;
}

EventLedger::Missed EventLedger::add(const Case& one, const EventSurvey& survey) {
  Missed missed;
  auto used = [&](const Excuse& excuse) -> bool& {
    return used_[one.suite + "/" + one.name + ": " + excuse.glob];
  };
  for (const Excuse& excuse : one.misses) used(excuse);  // noted, used or not
  for (std::string& name : survey.missed()) {
    bool said = false;
    // The case's own come first, and are the reason that is given.
    for (const Excuse& excuse : one.misses) {
      if (!matches(name, {excuse.glob})) continue;
      used(excuse) = true;
      if (!said) missed.excused.emplace_back(name, excuse.why);
      said = true;
    }
    if (!said) missed.unsaid.push_back(std::move(name));
  }
  return missed;
}

std::vector<std::string> EventLedger::stale() const {
  std::vector<std::string> globs;
  for (const auto& [glob, used] : used_)
    if (!used) globs.push_back(glob);
  return globs;
}

}  // namespace attest::core
