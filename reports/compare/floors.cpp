#include "reports/compare/floors.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "core/statistics/change.hpp"
#include "core/statistics/deadline.hpp"
#include "core/tensor/error.hpp"
#include "reports/compare/launches.hpp"
#include "reports/words/units.hpp"

namespace attest::reports {
namespace {

using core::Results;

constexpr double kConfidence = 0.95;

/// One member of an object; `where` names the object.
template <class T>
T member(const nlohmann::json& object, const std::string& where, const char* key) {
  const auto at = object.find(key);
  if (at == object.end()) throw core::Error(fmt::format("{}: has no '{}'", where, key));
  try {
    return at->get<T>();
  } catch (const nlohmann::json::exception&) {
    throw core::Error(fmt::format("{}: '{}' is of the wrong type", where, key));
  }
}

double share_member(const nlohmann::json& object, const std::string& where, const char* key) {
  const auto value = member<double>(object, where, key);
  if (!(value >= 0 && std::isfinite(value)))
    throw core::Error(fmt::format("{}: '{}' is {}; must be 0 or more", where, key, value));
  return value;
}

std::string circumstances(const std::string& machine, const std::string& build, int32_t threads) {
  return fmt::format("{}, {}, {} threads", machine, build, threads);
}

}  // namespace

double Floors::most_alarms() const {
  if (comparisons == 0) return 1;
  double low = double(slower + faster) / double(comparisons), high = 1;
  for (int i = 0; i < 60; ++i) {
    const double middle = (low + high) / 2;
    const bool possible = core::binomial_at_most(int64_t(comparisons), middle,
                                                 int64_t(slower + faster)) > 1 - kConfidence;
    (possible ? low : high) = middle;
  }
  return high;
}

nlohmann::json to_json(const Floors& floors) {
  nlohmann::json cases = nlohmann::json::array();
  for (const auto& [key, floor] : floors.cases)
    cases.push_back({{"suite", key.suite},
                     {"case", key.case_name},
                     {"dtype", key.dtype},
                     {"impl", key.impl},
                     {"spread", floor.spread},
                     {"paired", floor.paired},
                     {"fast", floor.fast},
                     {"median", floor.median_ns},
                     {"launches", floor.launches},
                     {"alarms", floor.alarms},
                     {"machine", floor.machine},
                     {"build", floor.build},
                     {"threads", floor.threads}});
  return {{"type", "floors"},
          {"measured", floors.measured},
          {"relative_to", floors.relative_to},
          {"comparisons", floors.comparisons},
          {"slower", floors.slower},
          {"faster", floors.faster},
          {"inconclusive", floors.inconclusive},
          {"most_alarms", floors.most_alarms()},
          {"cases", std::move(cases)}};
}

Floors floors_from_json(const nlohmann::json& json) {
  if (!json.is_object() || json.value("type", nlohmann::json()) != "floors")
    throw core::Error("holds no floors; attest ab --self-check writes them");
  Floors floors{.measured = member<std::string>(json, "floors", "measured"),
                .relative_to = member<std::string>(json, "floors", "relative_to"),
                .comparisons = member<size_t>(json, "floors", "comparisons"),
                .slower = member<size_t>(json, "floors", "slower"),
                .faster = member<size_t>(json, "floors", "faster"),
                .inconclusive = member<size_t>(json, "floors", "inconclusive")};
  const auto cases = member<nlohmann::json>(json, "floors", "cases");
  if (!cases.is_array()) throw core::Error("floors: 'cases' is of the wrong type");
  for (size_t i = 0; i < cases.size(); ++i) {
    const std::string where = fmt::format("cases[{}]", i);
    const nlohmann::json& one = cases[i];
    if (!one.is_object()) throw core::Error(where + ": is no object");
    floors.cases[{.suite = member<std::string>(one, where, "suite"),
                  .case_name = member<std::string>(one, where, "case"),
                  .dtype = member<std::string>(one, where, "dtype"),
                  .impl = member<std::string>(one, where, "impl")}] = {
        .spread = share_member(one, where, "spread"),
        .paired = share_member(one, where, "paired"),
        .fast = share_member(one, where, one.contains("fast") ? "fast" : "paired"),
        .median_ns = share_member(one, where, "median"),
        .launches = member<size_t>(one, where, "launches"),
        .alarms = member<size_t>(one, where, "alarms"),
        .machine = member<std::string>(one, where, "machine"),
        .build = member<std::string>(one, where, "build"),
        .threads = member<int32_t>(one, where, "threads")};
  }
  return floors;
}

void require_floors_of(const Floors& floors, const std::vector<Results>& results,
                       const std::string& relative_to) {
  if (floors.relative_to != relative_to)
    throw core::Error(fmt::format(
        "floors of times {}; these are {}",
        floors.relative_to.empty() ? "in nanoseconds" : "relative to " + floors.relative_to,
        relative_to.empty() ? "in nanoseconds" : "relative to " + relative_to));
  std::string of_floors, of_results;
  for (const Results& file : results)
    for (const core::Record& record : file.records) {
      const auto at = floors.cases.find(question_of(record));
      if (at == floors.cases.end()) continue;
      const Floor& floor = at->second;
      of_floors = circumstances(floor.machine, floor.build, floor.threads);
      of_results = circumstances(machine(file, record), build(file), record.threads);
      if (of_floors == of_results) return;
    }
  throw core::Error(of_floors.empty() ? "has no floor of any case of these results"
                                      : fmt::format("floors of {}; these results are of {}",
                                                    of_floors, of_results));
}

std::string print_floors(const Floors& floors) {
  size_t width = 4;
  for (const auto& [key, floor] : floors.cases) width = std::max(width, key.name().size());
  std::string text = fmt::format("  {:<{}}  {:>8}  {:>8}  {:>8}  {:>8}  {}\n", "case", width,
                                 "median", "launches", "pairs", "fastest", "false alarms");
  for (const auto& [key, floor] : floors.cases)
    text += fmt::format("  {:<{}}  {:>8}  {:>7.1f}%  {:>7.2f}%  {:>7.2f}%  {}\n", key.name(), width,
                        floors.relative_to.empty() ? print_time(floor.median_ns)
                                                   : fmt::format("x{:.3f}", floor.median_ns),
                        100 * floor.spread, 100 * floor.paired, 100 * floor.fast, floor.alarms);
  text +=
      "launches: by how much they differ; pairs, fastest: by how much the medians and the fastest "
      "tenth of the runs of eight pairs are off\n";
  if (floors.comparisons == 0)
    return text + fmt::format("fewer than {} rounds: no comparison\n", core::kLeastLaunches);
  return text + fmt::format(
                    "A/A: {} comparison{} of identical builds: {} slower, {} faster, {} "
                    "inconclusive; at most {:.1f} % are false alarms, at 95 % confidence\n",
                    floors.comparisons, floors.comparisons == 1 ? "" : "s", floors.slower,
                    floors.faster, floors.inconclusive, 100 * floors.most_alarms());
}

}  // namespace attest::reports
