#include "core/record/record.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "core/tensor/error.hpp"
#include "core/tensor/walk.hpp"

namespace attest::core {

using nlohmann::json;

double Record::gflops() const { return time && time->median_ns > 0 ? flops / time->median_ns : 0; }

// As tensor/walk.hpp says. Names in JSON are those of reports/results.schema.json.
template <class Visit>
void walk(Mismatch& m, Visit&& visit) {
  visit("tensor", m.tensor);
  visit("index", m.index);
  visit("expected", m.expected);
  visit("got", m.got);
  visit("sigma", m.sigma);
  visit("ratio", m.ratio);
}

template <class Visit>
void walk(Location::Part& p, Visit&& visit) {
  visit("dim", p.dim);
  visit("indices", p.indices);
}

template <class Visit>
void walk(ErrorMap& m, Visit&& visit) {
  visit("across", m.across);
  visit("down", m.down);
  visit("columns", m.columns);
  visit("lines", m.lines);
  visit("cells", m.cells);
}

template <class Visit>
void walk(Location& l, Visit&& visit) {
  visit("tensor", l.tensor);
  visit("elements", l.elements);
  visit("wrong_elements", l.wrong_elements);
  visit("rows", l.rows);
  visit("wrong_rows", l.wrong_rows);
  visit("exact_rows", l.exact_rows);
  visit("first", l.first);
  visit("last", l.last);
  visit("parts", l.parts);
  visit("map", l.map);
}

template <class Visit>
void walk(Judgement& j, Visit&& visit) {
  walk(j.outcome, visit);
  visit("max_ratio", j.max_ratio);
  visit("rms_ratio", j.rms_ratio);
  visit("worst", j.worst);
  visit("location", j.location);
  visit("more_locations", j.more_locations);
  visit("guess", j.guess);
  visit("exact_elements", j.exact_elements);
  visit("swept_elements", j.swept_elements);
  visit("method", j.method);
  visit("golden_device", j.golden_device);
}

template <class Visit>
void walk(RerunRecord::Other& o, Visit&& visit) {
  visit("outputs_hash", o.outputs_hash);
  visit("runs", o.runs);
  walk(o.outcome, visit);
  visit("max_ratio", o.max_ratio);
  visit("rms_ratio", o.rms_ratio);
}

template <class Visit>
void walk(RerunRecord& r, Visit&& visit) {
  visit("runs", r.runs);
  visit("others", r.others);
  visit("unjudged", r.unjudged);
  visit("apart", r.apart);
  visit("differs_with_one_thread", r.differs_with_one_thread);
  visit("workspace", r.workspace);
  visit("run_ns", r.run_ns);
}

template <class Visit>
void walk(FillRecord& f, Visit&& visit) {
  visit("fill", f.fill);
  visit("seed", f.seed);
  visit("inputs_hash", f.inputs_hash);
  visit("outputs_hash", f.outputs_hash);
  visit("judgement", f.judgement);
  visit("run_ns", f.run_ns);
  visit("golden_ns", f.golden_ns);
  visit("reruns", f.reruns);
}

template <class Visit>
void walk(RelationRecord& r, Visit&& visit) {
  visit("relation", r.relation);
  visit("judgement", r.judgement);
  visit("run_ns", r.run_ns);
  visit("reruns", r.reruns);
}

template <class Visit>
void walk(DeviceTimeRecord& d, Visit&& visit) {
  walk(static_cast<DeviceTimes&>(d), visit);
  visit("before", d.before);
  visit("after", d.after);
}

template <class Visit>
void walk(TimeRecord& t, Visit&& visit) {
  visit("median_ns", t.median_ns);
  visit("median_low_ns", t.median_low_ns);
  visit("median_high_ns", t.median_high_ns);
  visit("coverage", t.coverage);
  visit("q1_ns", t.q1_ns);
  visit("q3_ns", t.q3_ns);
  visit("min_ns", t.min_ns);
  visit("max_ns", t.max_ns);
  visit("cold_median_ns", t.cold_median_ns);
  visit("warmup_ns", t.warmup_ns);
  visit("create_ns", t.create_ns);
  visit("iterations_per_sample", t.iterations_per_sample);
  visit("samples_ns", t.samples_ns);
  visit("cold_samples_ns", t.cold_samples_ns);
  visit("audited_runs", t.audited_runs);
  visit("audits_ns", t.audits_ns);
  visit("audit_seed", t.audit_seed);
  visit("device", t.device);
  visit("usage", t.usage);
}

template <class Visit>
void walk(PercentileRecord& p, Visit&& visit) {
  visit("share", p.share);
  visit("value_ns", p.value_ns);
  visit("low_ns", p.low_ns);
  visit("high_ns", p.high_ns);
  visit("coverage", p.coverage);
  visit("claimed_ns", p.claimed_ns);
  visit("needed", p.needed);
  visit("value_at_least", LaterField{p.value_at_least});
  visit("high_at_least", LaterField{p.high_at_least});
}

template <class Visit>
void walk(PolicyRecord& p, Visit&& visit) {
  visit("policy", p.policy);
  visit("frames", p.frames);
  visit("dropped", p.dropped);
  visit("never_ran", LaterField{p.never_ran});
  visit("missed", p.missed);
  visit("max_latency_ns", p.max_latency_ns);
  visit("max_age_ns", p.max_age_ns);
  visit("percentiles", p.percentiles);
}

template <class Visit>
void walk(NeighbourRecord& n, Visit&& visit) {
  visit("name", n.name);
  visit("rate", n.rate);
  visit("unit", n.unit);
  visit("remark", n.remark);
}

template <class Visit>
void walk(PhaseRecord& p, Visit&& visit) {
  visit("processing_time_ns", p.processing_time_ns);
  visit("latency_ns", p.latency_ns);
  visit("policies", p.policies);
  visit("missed_by_hz", p.missed_by_hz);
  visit("neighbours", p.neighbours);
  visit("clock_held_ns", LaterField{p.clock_held_ns});
}

template <class Visit>
void walk(PacedRecord& p, Visit&& visit) {
  visit("period_ns", p.period_ns);
  visit("alone", p.alone);
  visit("contended", p.contended);
  visit("slowdown", p.slowdown);
  visit("slowdown_share", p.slowdown_share);
  visit("slowdown_low", p.slowdown_low);
  visit("slowdown_high", p.slowdown_high);
  visit("slowdown_refusal", LaterField{p.slowdown_refusal});
}

template <class Visit>
void walk(EnergyRecord& e, Visit&& visit) {
  visit("sensor", e.sensor);
  visit("covers", e.covers);
  visit("refusal", e.refusal);
  visit("method", e.method);
  visit("window_ns", e.window_ns);
  visit("runs", e.runs);
  visit("joules", e.joules);
  visit("run_joules", e.run_joules);
  visit("idle_watts_before", e.idle_watts_before);
  visit("idle_watts_after", e.idle_watts_after);
  visit("net_run_joules", e.net_run_joules);
  visit("polled_joules", e.polled_joules);
}

template <class Visit>
void walk(MemoryRecord& m, Visit&& visit) {
  visit("workspace_bytes", m.workspace_bytes);
  visit("peak_bytes", m.peak_bytes);
  visit("pool_peak_bytes", m.pool_peak_bytes);
  visit("unseen", m.unseen);
  visit("tensor_bytes", m.tensor_bytes);
}

template <class Visit>
void walk(RooflineRecord& r, Visit&& visit) {
  visit("share", r.share);
  visit("limit", r.limit);
  visit("least_ns", r.least_ns);
  visit("flops_per_byte", r.flops_per_byte);
}

template <class Visit>
void walk(SweepPoint& s, Visit&& visit) {
  visit("sweep", s.sweep);
  visit("over", s.over);
  visit("value", s.value);
  visit("deadline_ns", s.deadline_ns);
  visit("memory_bytes", s.memory_bytes);
}

template <class Visit>
void walk(BoardRecord& b, Visit&& visit) {
  visit("before", b.before);
  visit("after", b.after);
  visit("missing", b.missing);
  visit("over_current", b.over_current);
}

template <class Visit>
void walk(Record& r, Visit&& visit) {
  visit("suite", r.suite);
  visit("case", r.case_name);
  visit("spec", r.spec);
  visit("inputs", r.inputs);
  visit("source", r.source);
  visit("impl", r.impl);
  visit("impl_version", r.impl_version);
  visit("plugin", r.plugin);
  visit("plugin_hash", r.plugin_hash);
  visit("libraries_hash", r.libraries_hash);
  visit("operation", r.operation);
  visit("dtype", r.dtype);
  visit("features", r.features);
  visit("device", r.device);
  visit("threads", r.threads);
  visit("launch", r.launch);
  visit("sweep", r.sweep);
  walk(r.outcome, visit);
  visit("arithmetic", r.arithmetic);
  visit("max_ratio", r.max_ratio);
  visit("rms_ratio", r.rms_ratio);
  visit("softmax_distance", r.softmax_distance);
  visit("fills", r.fills);
  visit("relations", LaterField{r.relations});
  visit("time", r.time);
  visit("roofline", r.roofline);
  visit("paced", r.paced);
  visit("energy", r.energy);
  visit("board", r.board);
  visit("noisy", r.noisy);
  visit("memory", r.memory);
  visit("flops", r.flops);
  visit("min_bytes", r.min_bytes);
  visit("estimated_ns", r.estimated_ns);
  visit("estimated_bytes", r.estimated_bytes);
  visit("notes", r.notes);
  visit("repro", r.repro);
}

// Collects the keys of a struct.
struct KeyCollector {
  static constexpr bool kReads = false;
  std::set<std::string>& keys;
  template <class T>
  void operator()(const char* key, const T&) {
    keys.insert(key);
  }
};

// The keys of a record's line.
const std::set<std::string>& record_keys() {
  static const std::set<std::string> kKeys = [] {
    std::set<std::string> keys{"type", "gflops"};
    Record record;
    walk(record, KeyCollector{keys});
    return keys;
  }();
  return kKeys;
}

json to_json(const Record& record) {
  json line = write_json(record);
  for (const auto& [key, value] : record.unknown) line[key] = json::parse(value);
  line["type"] = "result";
  if (record.time) line["gflops"] = number(record.gflops());
  return line;
}

json to_json(const ErrorMap& map) { return write_json(map); }

json to_json(const Header& header) {
  return {{"type", "header"},
          {"schema", kSchemaVersion},
          {"command", header.command},
          {"started", header.started},
          {"environment", header.environment}};
}

Header header_from_json(const json& line) {
  if (line.value("type", "") != "header" || !line.contains("schema"))
    throw Error("is no header of results");
  const json& schema = line["schema"];
  if (schema.is_number_integer() && schema < 1)
    throw Error(
        fmt::format("is of schema {}, which no attest has written: schemas are numbered from 1 on. "
                    "The line is damaged, or another program wrote it",
                    schema.dump()));
  if (!schema.is_number_integer() || schema > kSchemaVersion)
    throw Error(
        fmt::format("is of schema {}; this attest reads schemas up to {}: use the attest that "
                    "wrote the file, or a newer one",
                    schema.dump(), kSchemaVersion));
  return {line.value("command", ""), line.value("started", ""),
          line.at("environment").get<decltype(Header::environment)>()};
}

FillRecord* first_bad_fill(Record& record) {
  const auto bad = std::ranges::find_if(
      record.fills, [](const FillRecord& fill) { return fill.judgement.outcome.is_bad(); });
  return bad == record.fills.end() ? nullptr : &*bad;
}

Closing closing_from_json(const json& line) {
  return {line.value("finished", ""), line.value("results", size_t{0}),
          line.value("verdicts", decltype(Closing::verdicts)()),
          line.value("never_judged", decltype(Closing::never_judged)()),
          line.value("races", decltype(Closing::races)())};
}

Closing Closing::of(const std::vector<Record>& records, std::string finished) {
  Closing closing{std::move(finished), records.size(), {}, {}, {}};
  for (const Record& record : records) {
    ++closing.verdicts[std::string(name(record.outcome.verdict()))];
    if (record.outcome.code == ReasonCode::kSuspectRace)
      closing.races.try_emplace(record.impl, record.outcome.reason);
  }
  return closing;
}

json to_json(const Closing& closing) {
  json line{{"type", "end"},
            {"finished", closing.finished},
            {"results", closing.results},
            {"verdicts", closing.verdicts}};
  if (!closing.never_judged.empty()) line["never_judged"] = closing.never_judged;
  if (!closing.races.empty()) line["races"] = closing.races;
  return line;
}

Record record_from_json(const json& line) {
  try {
    Record record = read_json<Record>(line);
    for (const auto& [key, value] : line.items())
      if (!record_keys().contains(key)) record.unknown[key] = value.dump();
    return record;
  } catch (const Error& error) {
    throw Error(fmt::format("record: {}", error.what()));
  }
}

}  // namespace attest::core
