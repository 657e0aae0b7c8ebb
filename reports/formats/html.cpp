// One self-contained page. It opens from disk, loads nothing, and runs under a policy that allows
// only its own style and script, by their hashes.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "core/tensor/walk.hpp"
#include "reports/choice/problems.hpp"
#include "reports/compare/launches.hpp"
#include "reports/counters.hpp"
#include "reports/coverage.hpp"
#include "reports/escape.hpp"
#include "reports/formats/printers.hpp"
#include "reports/html/assets.hpp"
#include "reports/html/charts.hpp"
#include "reports/html/comparison_section.hpp"
#include "reports/html/decide_data.hpp"
#include "reports/html/history_section.hpp"
#include "reports/html/shown.hpp"
#include "reports/pacing.hpp"
#include "reports/scaling/scaling_tables.hpp"
#include "reports/summary.hpp"
#include "reports/table.hpp"

namespace attest::reports {
namespace {

using core::Judgement;
using core::Record;
using core::Results;
using nlohmann::json;

/// A hash of a content security policy: base64 of the digest.
std::string base64_of_hex(std::string_view hex) {
  constexpr std::string_view kDigits =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string bytes, text;
  for (size_t i = 0; i + 1 < hex.size(); i += 2)
    bytes += char(std::strtol(std::string(hex.substr(i, 2)).c_str(), nullptr, 16));
  for (size_t i = 0; i < bytes.size(); i += 3) {
    const size_t left = std::min<size_t>(3, bytes.size() - i);
    uint32_t word = 0;
    for (size_t j = 0; j < 3; ++j) word = word << 8 | (j < left ? uint8_t(bytes[i + j]) : 0u);
    for (size_t j = 0; j < 4; ++j) text += j <= left ? kDigits[word >> (18 - 6 * j) & 63] : '=';
  }
  return text;
}

/// JSON for a script element: nothing in it ends the element or a line of JavaScript.
std::string script_json(const json& data) {
  const std::string text = data.dump(-1, ' ', true, json::error_handler_t::replace);
  std::string safe;
  for (const char c : text) safe += c == '<' ? "\\u003c" : std::string(1, c);
  return safe;
}

json judgement_json(const std::string& name, const Judgement& j) {
  json one{{"name", name},
           {"max_ratio", core::number(j.max_ratio)},
           {"rms_ratio", core::number(j.rms_ratio)},
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
  if (j.location) one["location"] = print_location(*j.location);
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

json time_json(const core::TimeRecord& time) {
  double cold = time.cold_median_ns;
  for (const double sample : time.cold_samples_ns) cold = std::max(cold, sample);
  json all{{"median", time.median_ns},
           {"low", time.median_low_ns},
           {"high", time.median_high_ns},
           {"min", time.min_ns},
           {"max", time.max_ns},
           {"cold", cold},
           {"worst", std::max(time.max_ns, cold)},
           {"create", time.create_ns},
           {"samples", time.samples_ns.size()}};
  const auto is_finite = [](double sample) { return std::isfinite(sample); };
  if (!time.samples_ns.empty() && std::ranges::all_of(time.samples_ns, is_finite))
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
  return json{{"run", most->run_joules}, {"sensors", std::move(sensors)}};
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
  if (r.time) one["time"] = time_json(*r.time);
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

json run_json_of(const Results& run) {
  json tokens = json::object();
  for (const auto& [inputs, picture] : run.tokens) tokens[inputs] = core::to_json(picture);
  return {{"file", file_name(run)},
          {"command", run.header.command},
          {"started", run.header.started},
          {"machine", machine(run, "cpu")},
          {"free_bytes", std::strtod(fact(run, "memory", "available_bytes").c_str(), nullptr)},
          {"commit", fact(run, "build", "commit")},
          {"tokens", std::move(tokens)},
          {"never_judged", run.closing.never_judged},
          {"environment", run.header.environment}};
}

size_t record_count(const Input& input) {
  size_t count = 0;
  for (const Results& run : input.runs) count += run.records.size();
  return count;
}

json page_data(const Input& input) {
  json data{{"runs", json::array()},
            {"records", json::array()},
            {"reasons", json::object()},
            {"charts", html::charts()},
            {"chart_config", html::chart_config()}};
  const std::set<const Record*> shown = html::shown_records(input);
  data["scaling"] = json::array();
  data["axes"] = json::array();
  for (const AxisCoverage& axis : axes_of(input))
    data["axes"].push_back({{"operation", axis.operation},
                            {"axis", axis.axis},
                            {"state", name(axis.state)},
                            {"values", axis.values}});
  std::map<std::string, size_t> series, families;
  for (const Results& run : input.runs) {
    for (const Record& record : run.records) {
      if (!shown.contains(&record)) continue;
      json one = record_json(record, data["runs"].size());
      html::add_decide_data(run, record, one);
      if (run.tokens.contains(record.inputs)) one["inputs"] = record.inputs;
      const bool smallest = record.sweep && record.sweep->over.empty();  // for the launch cost
      const std::string rest = fmt::format("{} {} {} {}", data["runs"].size(), record.suite,
                                           smallest, without_tokens(record.spec));
      one["series"] = series.try_emplace(rest, series.size()).first->second;
      if (const std::string family = family_of(record); !family.empty()) {
        const std::string key = fmt::format("{}\n{}\n{}\n{}", machine(run, record, "cpu"),
                                            record.suite, record.dtype, family);
        one["family"] = families.try_emplace(key, families.size()).first->second;
      }
      data["records"].push_back(std::move(one));
      const core::Reason& reason = core::reason_of(record.outcome.code);
      if (!reason.name.empty()) data["reasons"][std::string(reason.name)] = reason.meaning;
    }
    for (const ScalingTable& table : scaling_tables(run))
      data["scaling"].push_back({{"run", data["runs"].size()},
                                 {"title", table.title},
                                 {"columns", table.columns},
                                 {"rows", table.rows}});
    data["runs"].push_back(run_json_of(run));
  }
  data["left_out"] = record_count(input) - shown.size();
  return data;
}

/// A page whose data are larger than this says so: a browser may be slow with it.
constexpr size_t kLargeBytes = size_t{10} << 20;

/// The warnings of the runs, and what a reader has to know of a large page: which records it lacks,
/// and that a browser may be slow.
std::vector<std::string> page_warnings(const Input& input, size_t left_out, size_t data_bytes) {
  std::vector<std::string> warnings = input.warnings;
  const size_t all = record_count(input);
  if (left_out > 0)
    warnings.push_back(fmt::format(
        "this page holds {} of {} records: whole cases, those with bad records first; the verdict "
        "above counts all. attest choose and attest report -f csv read all, and a report of fewer "
        "results files leaves out less",
        all - left_out, all));
  if (data_bytes > kLargeBytes)
    warnings.push_back(fmt::format(
        "this page holds {} of data, and a browser may be slow with it; a report of fewer results "
        "files is smaller",
        print_bytes(double(data_bytes))));
  return warnings;
}

/// What a reader has to know first. It is there without the script.
std::string page_head(const Input& input, size_t left_out, size_t data_bytes) {
  const Summary summary = summary_of(input);
  const bool good = summary.all.judged() > 0 && summary.all.bad() == 0;
  std::string text = fmt::format("<h1 class=\"{}\">{} {}</h1>\n", good ? "good" : "bad",
                                 good ? "&#10003;" : "&#10007;", xml(summary.sentence));
  const std::vector<std::string> warnings = page_warnings(input, left_out, data_bytes);
  if (!warnings.empty()) text += "<ul class=\"warnings\">\n";
  for (const std::string& warning : warnings)
    text += fmt::format("<li><span class=\"warn\">Warning:</span> {}</li>\n", xml(warning));
  if (!warnings.empty()) text += "</ul>\n";
  for (const Results& run : input.runs) {
    std::set<std::string> hashes;
    for (const Record& r : run.records)
      if (!r.plugin_hash.empty()) hashes.insert(r.plugin + " " + r.plugin_hash);
    text += fmt::format(
        "<p>{}: {}, {} threads; {}; attest {}, commit {}</p>\n<details><summary>Plugins and "
        "their hashes</summary><p class=\"soft\">{}</p></details>\n",
        xml(file_name(run)), xml(machine(run, "cpu")), xml(fact(run, "cpu", "threads")),
        xml(run.header.started), xml(fact(run, "build", "version")),
        xml(fact(run, "build", "commit")), xml(fmt::format("{}", fmt::join(hashes, ", "))));
  }
  return text;
}

/// The parts of the page; comparison and history stand where body.html has its place for them.
std::string body_of(const Input& input) {
  constexpr std::string_view kPlace = "<!-- comparison and history -->\n";
  std::string body(html::kBody), made;
  if (input.comparison) made = html::comparison_section(*input.comparison);
  made += html::history_section(input.histories);
  return body.replace(body.find(kPlace), kPlace.size(), made);
}

}  // namespace

std::string print_html(const Input& input, const Style& style) {
  const html::Bundle vega = style.charts ? html::kVega : html::Bundle{};
  std::string policy =
      fmt::format("default-src 'none'; style-src 'sha256-{}'; script-src 'sha256-{}'",
                  base64_of_hex(html::kStyleSha256), base64_of_hex(html::kScriptSha256));
  std::string licences, vega_script;
  if (!vega.script.empty()) {
    policy += fmt::format(" 'sha256-{}'", base64_of_hex(vega.sha256));
    vega_script = fmt::format("<script id=\"vega\">{}</script>\n", vega.script);
    licences = fmt::format(
        "<details id=\"licences\"><summary>Licences of what draws the charts</summary>\n"
        "<pre>{}</pre></details>\n",
        xml(vega.licences));
  }
  const json all = page_data(input);
  const size_t left_out = all["left_out"];
  const std::string data = script_json(all);
  return fmt::format(
      "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
      "<meta http-equiv=\"Content-Security-Policy\" content=\"{}\">\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
      "<title>attest report</title>\n<style>{}</style>\n</head>\n<body>\n<main>\n{}{}{}</main>\n"
      "<script type=\"application/json\" id=\"data\">{}</script>\n{}<script>{}</script>\n"
      "</body>\n</html>\n",
      policy, html::kStyle, page_head(input, left_out, data.size()), body_of(input), licences, data,
      vega_script, html::kScript);
}

}  // namespace attest::reports
