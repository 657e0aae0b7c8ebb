#include "reports/findings.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <optional>
#include <span>

#include "core/record/mistake.hpp"
#include "core/record/races.hpp"
#include "reports/words/fill_words.hpp"

namespace attest::reports {
namespace {

using core::Record;

// What reruns of fills and of relations showed, unless it is that nothing changes.
std::vector<std::string> rerun_words(const Record& record) {
  std::vector<std::string> words;
  const auto add = [&](const std::optional<core::RerunRecord>& reruns) {
    if (reruns && (reruns->workspace || reruns->differing() > 0))
      words.push_back(print_reruns(*reruns));
  };
  for (const core::FillRecord& fill : record.fills) add(fill.reruns);
  for (const core::RelationRecord& relation : record.relations) add(relation.reruns);
  return words;
}

// A fill or relation whose judgement says more than that it failed.
struct Explained {
  std::string check;
  const core::Judgement* judgement = nullptr;
  std::span<const core::FillRecord> before;  // the fills before it; none before a relation
};

std::optional<Explained> first_explained(const Record& record) {
  const auto explains = [](const auto& check) {
    return check.judgement.location.has_value() || check.judgement.guess.has_value();
  };
  if (const auto fill = std::ranges::find_if(record.fills, explains); fill != record.fills.end())
    return Explained{fill->fill, &fill->judgement, {record.fills.begin(), fill}};
  if (const auto relation = std::ranges::find_if(record.relations, explains);
      relation != record.relations.end())
    return Explained{relation->relation, &relation->judgement, {}};
  return std::nullopt;
}

// "passes on random, codebook; huge has logits near 30,000 ...: it shows ...". It is empty if
// nothing passed before, or if the fill belongs to an operation of somebody else.
std::string what_differs(const Explained& failed) {
  const FillWords* const words = fill_words(failed.check);
  std::vector<std::string> passed;
  for (const core::FillRecord& fill : failed.before)
    if (fill.judgement.outcome.passes()) passed.push_back(fill.fill);
  if (!words || passed.empty()) return {};
  return fmt::format("passes on {}; {} has {}: it shows {}", fmt::join(passed, ", "), failed.check,
                     words->inputs, words->shows);
}

}  // namespace

std::optional<Errors> errors_of_verdict(const Record& record) {
  const auto was_compared = [](const auto& check) { return check.judgement.exact_elements > 0; };
  const auto is_bad = [](const auto& check) { return check.judgement.outcome.is_bad(); };
  if (std::ranges::none_of(record.fills, was_compared)) return std::nullopt;
  const auto relation = std::ranges::find_if(record.relations, is_bad);
  if (relation == record.relations.end() || std::ranges::any_of(record.fills, is_bad))
    return Errors{record.max_ratio, record.rms_ratio};
  if (relation->judgement.max_ratio <= 1) return std::nullopt;
  return Errors{relation->judgement.max_ratio, relation->judgement.rms_ratio};
}

std::vector<std::string> findings(const Record& record) {
  std::vector<std::string> found = rerun_words(record);
  const std::optional<Explained> first = first_explained(record);
  if (!first) return found;
  const core::Judgement& judgement = *first->judgement;
  for (const core::Location& location : locations(judgement))
    found.push_back(fmt::format("on {}: {}", first->check, print_location(location)));
  // An output that changes from run to run is not that of a mistake in the formula.
  if (core::shows_race(record)) return found;
  if (judgement.guess) found.push_back(*judgement.guess);
  if (std::string differs = what_differs(*first); !differs.empty())
    found.push_back(std::move(differs));
  return found;
}

std::string mistake(const Record& record) {
  if (core::shows_race(record)) return {};
  const auto knows = [](const auto& check) { return core::names_mistake(check.judgement); };
  if (const auto fill = std::ranges::find_if(record.fills, knows); fill != record.fills.end())
    return *fill->judgement.guess;
  const auto relation = std::ranges::find_if(record.relations, knows);
  return relation == record.relations.end() ? "" : *relation->judgement.guess;
}

}  // namespace attest::reports
