#include "reports/scaling/scaling_json.hpp"

#include <nlohmann/json.hpp>

#include "core/tensor/walk.hpp"

namespace attest::reports {
namespace {

using core::LargestSize;
using core::PowerLaw;

nlohmann::json law_json(const PowerLaw& law) {
  nlohmann::json object{
      {"code", law.code}, {"points", law.points}, {"from", law.from}, {"to", law.to}};
  if (law.fitted())
    object.update({{"exponent", core::number(law.exponent)},
                   {"low", core::number(law.low)},
                   {"high", core::number(law.high)},
                   {"coverage", law.coverage}});
  return object;
}

nlohmann::json largest_json(const LargestSize& largest) {
  constexpr const char* kHow[] = {"unknown", "below", "between", "extrapolated", "unlimited"};
  return {{"how", kHow[int(largest.how)]},
          {"size", core::number(largest.size)},
          {"low", core::number(largest.low)},
          {"high", core::number(largest.high)}};
}

nlohmann::json series_json(const ScalingSeries& series) {
  nlohmann::json points = nlohmann::json::array();
  for (const ScalingPoint& point : series.points) {
    nlohmann::json object{{"value", point.value},
                          {"verdict", name(point.verdict)},
                          {"tensor_bytes", point.tensor_bytes},
                          {"workspace_bytes", point.workspace_bytes}};
    if (point.time_ns) object["median_ns"] = point.time_ns->value;
    if (point.own_memory_bytes) object["own_memory_bytes"] = *point.own_memory_bytes;
    if (!point.reason.empty()) object["reason"] = point.reason;
    points.push_back(std::move(object));
  }
  nlohmann::json object{{"impl", series.impl},
                        {"points", std::move(points)},
                        {"time", law_json(series.laws.time)},
                        {"memory", law_json(series.laws.memory)},
                        {"own_memory", law_json(series.laws.own_memory)},
                        {"workspace", law_json(series.laws.workspace)}};
  if (series.launch_ns) object["launch_ns"] = *series.launch_ns;
  if (series.within_deadline.how != LargestSize::How::kUnknown)
    object["within_deadline"] = largest_json(series.within_deadline);
  if (series.within_memory.how != LargestSize::How::kUnknown)
    object["within_memory"] = largest_json(series.within_memory);
  if (!series.finding.empty()) object["finding"] = series.finding;
  return object;
}

nlohmann::json sweep_json(const ScalingSweep& sweep) {
  nlohmann::json object{{"suite", sweep.suite},     {"sweep", sweep.sweep},
                        {"over", sweep.over},       {"dtype", sweep.dtype},
                        {"threads", sweep.threads}, {"series", nlohmann::json::array()}};
  if (sweep.deadline_ns) object["deadline_ns"] = *sweep.deadline_ns;
  if (sweep.memory_bytes) object["memory_bytes"] = *sweep.memory_bytes;
  for (const ScalingSeries& series : sweep.series) object["series"].push_back(series_json(series));
  return object;
}

nlohmann::json pair_json(const ScalingPair& pair) {
  nlohmann::json crossings = nlohmann::json::array();
  for (const core::Crossing& crossing : pair.found.crossings)
    crossings.push_back({{"last", crossing.last},
                         {"first", crossing.first},
                         {"faster_before", crossing.first_was_less ? pair.first : pair.second}});
  return {{"first", pair.first},
          {"second", pair.second},
          {"sweeps", {pair.first_sweep, pair.second_sweep}},
          {"sizes", pair.found.sizes},
          {"at_end", pair.found.at_end},
          {"crossings", std::move(crossings)}};
}

nlohmann::json strong_json(const StrongScaling& strong) {
  nlohmann::json steps = nlohmann::json::array();
  for (const StrongScaling::Step& step : strong.steps)
    steps.push_back({{"threads", step.threads},
                     {"median_ns", step.time_ns.value},
                     {"speedup", core::number(step.speedup)},
                     {"efficiency", core::number(step.efficiency)},
                     {"efficiency_low", core::number(step.efficiency_low)},
                     {"efficiency_high", core::number(step.efficiency_high)}});
  return {{"suite", strong.suite},    {"sweep", strong.sweep}, {"over", strong.over},
          {"dtype", strong.dtype},    {"impl", strong.impl},   {"value", strong.value},
          {"steps", std::move(steps)}};
}

}  // namespace

nlohmann::json to_json(const Scaling& scaling) {
  nlohmann::json object{{"type", "scaling"},
                        {"sweeps", nlohmann::json::array()},
                        {"pairs", nlohmann::json::array()},
                        {"strong", nlohmann::json::array()}};
  for (const ScalingSweep& sweep : scaling.sweeps) object["sweeps"].push_back(sweep_json(sweep));
  for (const ScalingPair& pair : scaling.pairs) object["pairs"].push_back(pair_json(pair));
  for (const StrongScaling& strong : scaling.strong)
    object["strong"].push_back(strong_json(strong));
  return object;
}

}  // namespace attest::reports
