#include "reports/html/page_data.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "core/tensor/walk.hpp"
#include "reports/choice/choice.hpp"
#include "reports/coverage.hpp"
#include "reports/html/charts.hpp"
#include "reports/html/decide_data.hpp"
#include "reports/input/shown.hpp"
#include "reports/scaling/scaling_tables.hpp"
#include "reports/table.hpp"
#include "reports/words/counters.hpp"
#include "reports/words/machine.hpp"
#include "reports/words/noise.hpp"
#include "reports/words/pacing.hpp"
#include "reports/words/sizes.hpp"

namespace attest::reports::html {
namespace {

using core::Judgement;
using core::Record;
using core::Results;
using nlohmann::json;

/// The fields of records whose texts stand once in the page, because many records share them.
constexpr const char* kShared[] = {"machine", "own_machine", "processor", "inputs",    "subject",
                                   "options", "plugin",      "hash",      "arithmetic"};

/// Texts that many records share. Records have their places in `all`.
class SharedTexts {
 public:
  size_t place_of(const std::string& text) {
    const auto [at, fresh] = places_.try_emplace(text, places_.size());
    if (fresh) all_.push_back(text);
    return at->second;
  }
  const json& all() const { return all_; }

 private:
  std::map<std::string, size_t> places_;
  json all_ = json::array();
};

/// With six digits, which is more than a reader is shown.
json rounded(double value) {
  return std::isfinite(value) ? json(std::strtod(fmt::format("{:.6g}", value).c_str(), nullptr))
                              : core::number(value);
}

json judgement_json(const std::string& name, const Judgement& j) {
  json one{{"name", name},
           {"max_ratio", rounded(j.max_ratio)},
           {"rms_ratio", rounded(j.rms_ratio)},
           {"exact", j.exact_elements},
           {"swept", j.swept_elements},
           {"method", j.method}};
  if (!j.outcome.passes()) {
    one["code"] = core::name(j.outcome.code);
    one["reason"] = j.outcome.reason;
  }
  if (j.worst)
    one["worst"] = {{"tensor", j.worst->tensor},
                    {"index", j.worst->index},
                    {"expected", core::number(j.worst->expected)},
                    {"got", core::number(j.worst->got)},
                    {"ratio", core::number(j.worst->ratio)}};
  for (const core::Location& location : locations(j))
    one["locations"].push_back(print_location(location));
  if (j.location && j.location->map) one["map"] = core::to_json(*j.location->map);
  if (j.guess) one["guess"] = *j.guess;
  return one;
}

json memory_json(const core::MemoryRecord& memory) {
  json all{{"workspace", memory.workspace_bytes}, {"tensors", memory.tensor_bytes}};
  if (memory.peak_bytes) all["peak"] = *memory.peak_bytes;
  if (memory.pool_peak_bytes) all["pool"] = *memory.pool_peak_bytes;
  if (const std::optional<double> used = used_bytes(memory)) all["used"] = *used;
  if (memory.unseen) all["unseen"] = *memory.unseen;
  return all;
}

/// How many samples lie in each of 64 equal intervals from the least to the greatest. The samples
/// themselves stay in the results.
json histogram(const std::vector<double>& samples) {
  constexpr size_t kBins = 64;
  std::vector<size_t> counts(kBins);
  const auto [least, greatest] = std::ranges::minmax(samples);
  const double width = (greatest - least) / kBins;
  for (const double sample : samples)
    ++counts[width > 0 ? std::min(kBins - 1, size_t((sample - least) / width)) : 0];
  return {{"from", least}, {"to", greatest}, {"counts", counts}};
}

json time_json(const Record& r) {
  const core::TimeRecord& time = *r.time;
  json all{{"median", core::number(time.median_ns)},    {"low", core::number(time.median_low_ns)},
           {"high", core::number(time.median_high_ns)}, {"min", core::number(time.min_ns)},
           {"max", core::number(time.max_ns)},          {"cold", core::number(worst_cold_of(time))},
           {"worst", core::number(worst_of(r))},        {"create", core::number(time.create_ns)},
           {"samples", time.samples_ns.size()}};
  if (r.paced) {
    all["frames"] = r.paced->alone.processing_time_ns.size();
    all["frame"] = core::number(worst_frame_of(r));
  }
  const auto is_finite = [](double sample) { return std::isfinite(sample); };
  if (time.samples_ns.empty() || !std::ranges::all_of(time.samples_ns, is_finite)) return all;
  constexpr size_t kFew = 8;  // from here on a distribution has a form
  if (time.samples_ns.size() < kFew)
    all["few"] = time.samples_ns;
  else
    all["histogram"] = histogram(time.samples_ns);
  return all;
}

/// The energy of a run by each sensor that could be read. The chart shows `run`, of the sensor that
/// saw the most beside idle power: sensors overlap, and most do not cover all that works.
std::optional<json> energy_json(const Record& r) {
  json sensors = json::array();
  const core::EnergyRecord* most = nullptr;
  for (const core::EnergyRecord& energy : r.energy.value_or(std::vector<core::EnergyRecord>())) {
    if (!energy.refusal.empty()) continue;
    json& one = sensors.emplace_back(json{{"sensor", energy.sensor},
                                          {"covers", energy.covers},
                                          {"run", energy.run_joules},
                                          {"net", energy.net_run_joules}});
    if (const int64_t tokens = all_tokens_of(r.spec))
      one["token"] = energy.run_joules / double(tokens);
    if (!most || energy.net_run_joules > most->net_run_joules) most = &energy;
  }
  if (!most) return {};
  json energy{{"run", most->run_joules}, {"sensors", std::move(sensors)}};
  return std::optional<json>(std::in_place, std::move(energy));
}

json record_json(const Record& r, size_t run) {
  json one{{"run", run},
           {"suite", r.suite},
           {"name", r.case_name},
           {"dtype", r.dtype},
           {"impl", r.impl},
           {"verdict", name(r.outcome.verdict())},
           {"code", name(r.outcome.code)},
           {"reason", r.outcome.reason},
           {"max_ratio", core::number(r.max_ratio)},
           {"rms_ratio", core::number(r.rms_ratio)},
           {"spec", r.spec},
           {"features", r.features},
           {"device", r.device},
           {"threads", r.threads},
           {"plugin", r.plugin},
           {"hash", r.plugin_hash},
           {"arithmetic", r.arithmetic},
           {"memory", memory_json(r.memory)},
           {"flops", r.flops},
           {"min_bytes", r.min_bytes},
           {"repro", r.repro}};
  if (const int64_t tokens = tokens_of(r.spec)) one["tokens"] = tokens;
  if (r.time) one["time"] = time_json(r);
  if (const std::vector<std::string> noise = noise_of(r); !noise.empty()) one["noise"] = noise;
  if (r.softmax_distance) one["softmax_distance"] = *r.softmax_distance;
  if (r.roofline) {
    one["roofline"] = {{"share", r.roofline->share}, {"limit", r.roofline->limit}};
    if (r.roofline->flops_per_byte) one["roofline"]["intensity"] = *r.roofline->flops_per_byte;
  }
  if (const std::optional<json> energy = energy_json(r)) one["energy"] = *energy;
  if (const std::optional<CounterFigures> figures = counter_figures(r)) {
    one["counters"] = {{"share", figures->counted_share}};
    if (figures->instructions_per_cycle) one["counters"]["ipc"] = *figures->instructions_per_cycle;
    if (figures->misses_per_token) one["counters"]["misses"] = *figures->misses_per_token;
  }
  bool has_map = false;
  const auto with_one_map = [&](json judged) {  // one picture a record is enough
    if (has_map) judged.erase("map");
    has_map = has_map || judged.contains("map");
    return judged;
  };
  for (const core::FillRecord& fill : r.fills) {
    json judged = with_one_map(judgement_json(fill.fill, fill.judgement));
    judged["outputs"] = fill.outputs_hash;
    one["fills"].push_back(std::move(judged));
  }
  for (const core::RelationRecord& relation : r.relations)
    one["relations"].push_back(with_one_map(judgement_json(relation.relation, relation.judgement)));
  if (!r.notes.empty()) one["notes"] = r.notes;
  if (!r.unknown.empty()) one["unknown"] = r.unknown;
  if (const auto lines = pacing_lines(r); !lines.empty()) one["lines"] = lines;
  return one;
}

json run_json_of(const Results& run, const LeftOut::OfRun& left_out) {
  json tokens = json::object();
  for (const auto& [inputs, picture] : run.tokens) tokens[inputs] = core::to_json(picture);
  return {{"file", file_name(run)},
          {"command", run.header.command},
          {"started", run.header.started},
          {"machine", machine(run, devices_of({&run, 1}, left_out.devices))},
          {"free_bytes", std::strtod(fact(run, "memory", "available_bytes").c_str(), nullptr)},
          {"commit", fact(run, "build", "commit")},
          {"tokens", std::move(tokens)},
          {"complete", run.complete},
          {"never_judged", run.closing.never_judged},
          {"environment", run.header.environment}};
}

json axes_json(const Input& input) {
  json all = json::array();
  for (const AxisCoverage& axis : axes_of(input)) {
    json& one = all.emplace_back(json{{"operation", axis.operation},
                                      {"axis", axis.axis},
                                      {"state", name(axis.state)},
                                      {"values", axis.values}});
    if (!axis.in_suites) continue;
    one["in_suites"] = name(*axis.in_suites);
    one["only_in_suites"] = axis.only_in_suites;
  }
  return all;
}

}  // namespace

json page_data(const Input& input) {
  json data{{"runs", json::array()},
            {"records", json::array()},
            {"reasons", json::object()},
            {"charts", charts()},
            {"chart_config", chart_config()}};
  const std::set<const Record*> shown = shown_records(input);
  data["scaling"] = json::array();
  data["axes"] = axes_json(input);
  data["other_operations"] = operations_of_suites_alone(input);
  const std::vector<std::string> devices = devices_of(input.runs, input.left_out.devices());
  SharedTexts series, families, texts;
  for (const Results& run : input.runs) {
    for (const Record& record : run.records) {
      if (!shown.contains(&record)) continue;
      json one = record_json(record, data["runs"].size());
      add_decide_data(run, record, one);
      one["inputs"] = record.inputs;
      const bool smallest = record.sweep && record.sweep->over.empty();  // for the launch cost
      const std::string rest = fmt::format("{} {} {} {}", data["runs"].size(), record.suite,
                                           smallest, without_tokens(record.spec));
      one["series"] = series.place_of(rest);
      const std::string whole = machine(run, record, devices);
      one["machine"] = whole;
      one["own_machine"] = machine(run, record);
      if (const std::string family = family_of(record); !family.empty())
        one["family"] = families.place_of(
            fmt::format("{}\n{}\n{}\n{}", whole, record.suite, record.dtype, family));
      for (const char* key : kShared) one[key] = texts.place_of(one[key]);
      data["records"].push_back(std::move(one));
      const core::Reason& reason = core::reason_of(record.outcome.code);
      if (!reason.name.empty()) data["reasons"][std::string(reason.name)] = reason.meaning;
    }
    for (const ScalingTable& table : scaling_tables(run))
      data["scaling"].push_back({{"run", data["runs"].size()},
                                 {"title", table.title},
                                 {"columns", table.columns},
                                 {"rows", table.rows}});
    data["runs"].push_back(run_json_of(run, input.left_out.of_run(data["runs"].size())));
  }
  data["shared"] = kShared;
  data["texts"] = texts.all();
  size_t records = input.left_out.records();
  for (const Results& run : input.runs) records += run.records.size();
  data["left_out"] = records - shown.size();
  return data;
}

}  // namespace attest::reports::html
