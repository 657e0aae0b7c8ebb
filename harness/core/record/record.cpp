#include "core/record/record.hpp"

#include <fmt/format.h>

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "core/tensor/error.hpp"

namespace attest::core {

using nlohmann::json;

json number(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  return value;
}

double number_from_json(const json& value) {
  if (!value.is_string()) return value.get<double>();
  const auto text = value.get<std::string>();
  if (text == "nan") return std::numeric_limits<double>::quiet_NaN();
  if (text == "inf" || text == "-inf")
    return text[0] == '-' ? -std::numeric_limits<double>::infinity()
                          : std::numeric_limits<double>::infinity();
  throw Error(fmt::format("'{}' is not a number", text));
}

double Record::gflops() const { return time && time->median_ns > 0 ? flops / time->median_ns : 0; }

namespace {

// One description of each struct serves both directions.
template <class Visit>
void walk(Mismatch& m, Visit&& visit) {
  visit("tensor", m.tensor), visit("index", m.index), visit("expected", m.expected),
      visit("got", m.got), visit("sigma", m.sigma), visit("ratio", m.ratio);
}
// Among the fields of what the outcome is of. The verdict is written for readers; the code says it.
template <class Visit>
void walk(Outcome& outcome, Visit&& visit) {
  visit("code", outcome.code), visit("reason", outcome.reason);
}
template <class Visit>
void walk(Judgement& j, Visit&& visit) {
  walk(j.outcome, visit);
  visit("max_ratio", j.max_ratio), visit("rms_ratio", j.rms_ratio);
  visit("worst", j.worst), visit("exact_elements", j.exact_elements),
      visit("swept_elements", j.swept_elements), visit("method", j.method),
      visit("golden_device", j.golden_device);
}
template <class Visit>
void walk(FillRecord& f, Visit&& visit) {
  visit("fill", f.fill), visit("seed", f.seed), visit("inputs_hash", f.inputs_hash),
      visit("outputs_hash", f.outputs_hash);
  visit("judgement", f.judgement), visit("run_ns", f.run_ns), visit("golden_ns", f.golden_ns);
}
template <class Visit>
void walk(RelationRecord& r, Visit&& visit) {
  visit("relation", r.relation), visit("judgement", r.judgement), visit("run_ns", r.run_ns);
}
template <class Visit>
void walk(DeviceTimeRecord& d, Visit&& visit) {
  visit("replayed_runs", d.replayed_runs), visit("discarded_samples", d.discarded_samples),
      visit("launch_ns", d.launch_ns), visit("clock_mhz", d.clock_mhz);
  visit("before", d.before), visit("after", d.after);
}
template <class Visit>
void walk(TimeRecord& t, Visit&& visit) {
  visit("median_ns", t.median_ns), visit("median_low_ns", t.median_low_ns),
      visit("median_high_ns", t.median_high_ns), visit("coverage", t.coverage);
  visit("q1_ns", t.q1_ns), visit("q3_ns", t.q3_ns), visit("min_ns", t.min_ns),
      visit("max_ns", t.max_ns), visit("cold_median_ns", t.cold_median_ns);
  visit("warmup_ns", t.warmup_ns), visit("create_ns", t.create_ns),
      visit("iterations_per_sample", t.iterations_per_sample);
  visit("samples_ns", t.samples_ns), visit("cold_samples_ns", t.cold_samples_ns);
  visit("audited_runs", t.audited_runs), visit("audits_ns", t.audits_ns),
      visit("audit_seed", t.audit_seed);
  visit("device", t.device);
}
template <class Visit>
void walk(MemoryRecord& m, Visit&& visit) {
  visit("workspace_bytes", m.workspace_bytes), visit("peak_bytes", m.peak_bytes);
  visit("pool_peak_bytes", m.pool_peak_bytes), visit("unseen", m.unseen),
      visit("tensor_bytes", m.tensor_bytes);
}
template <class Visit>
void walk(Record& r, Visit&& visit) {
  visit("suite", r.suite), visit("case", r.case_name), visit("spec", r.spec),
      visit("inputs", r.inputs), visit("source", r.source);
  visit("impl", r.impl), visit("impl_version", r.impl_version), visit("plugin", r.plugin),
      visit("plugin_hash", r.plugin_hash);
  visit("libraries_hash", r.libraries_hash);
  visit("operation", r.operation), visit("dtype", r.dtype), visit("features", r.features),
      visit("device", r.device), visit("threads", r.threads);
  walk(r.outcome, visit);
  visit("arithmetic", r.arithmetic);
  visit("max_ratio", r.max_ratio), visit("rms_ratio", r.rms_ratio), visit("fills", r.fills),
      visit("relations", r.relations), visit("time", r.time), visit("memory", r.memory);
  visit("flops", r.flops), visit("min_bytes", r.min_bytes), visit("estimated_ns", r.estimated_ns),
      visit("estimated_bytes", r.estimated_bytes);
  visit("notes", r.notes), visit("repro", r.repro);
}

// Puts fields into a json.
struct Writer {
  json& out;
  void operator()(const char* key, double& value) { out[key] = number(value); }
  void operator()(const char* key, std::string& value) { out[key] = value; }
  void operator()(const char* key, int32_t& value) { out[key] = value; }
  void operator()(const char* key, int64_t& value) { out[key] = value; }
  void operator()(const char* key, uint64_t& value) { out[key] = value; }
  void operator()(const char* key, ReasonCode& code) {
    out["verdict"] = name(verdict_of(code));
    out[key] = name(code);
  }
  void operator()(const char* key, std::map<std::string, std::string>& values) {
    out[key] = values;
  }
  void operator()(const char* key, std::vector<double>& values) {
    json list = json::array();
    for (const double value : values) list.push_back(number(value));
    out[key] = std::move(list);
  }
  template <class T>
  void operator()(const char* key, std::vector<T>& values) {
    json list = json::array();
    for (T& value : values) list.push_back(nested(value));
    out[key] = std::move(list);
  }
  template <class T>
  void operator()(const char* key, std::optional<T>& value) {
    if (value) out[key] = nested(*value);
  }
  template <class T>
  void operator()(const char* key, T& value) {
    out[key] = nested(value);
  }
  template <class T>
  static json nested(T& value) {
    if constexpr (std::is_arithmetic_v<T> || std::is_same_v<T, std::string>) {
      return value;
    } else {
      json object = json::object();
      walk(value, Writer{object});
      return object;
    }
  }
};

// Takes fields out of a json.
struct Reader {
  const json& in;
  const json& at(const char* key) const {
    if (!in.is_object() || !in.contains(key))
      throw Error(fmt::format("record: key '{}' is missing", key));
    return in[key];
  }
  void operator()(const char* key, double& value) { value = number_from_json(at(key)); }
  // A file says the verdict and the code that it follows from.
  void operator()(const char* key, ReasonCode& code) {
    const auto text = at(key).get<std::string>(), verdict = at("verdict").get<std::string>();
    const Reason* const reason = find_reason(text);
    if (!reason)
      throw Error(fmt::format("record: '{}' is not a reason code that this attest knows", text));
    if (verdict != name(verdict_of(reason->code)))
      throw Error(fmt::format("record: verdict '{}' with reason code '{}'", verdict, text));
    code = reason->code;
  }
  void operator()(const char* key, std::map<std::string, std::string>& values) {
    values = at(key).get<std::map<std::string, std::string>>();
  }
  void operator()(const char* key, std::vector<double>& values) {
    for (const json& value : at(key)) values.push_back(number_from_json(value));
  }
  template <class T>
  void operator()(const char* key, std::vector<T>& values) {
    if (key == std::string_view("relations") && !in.contains(key))
      return;  // files of this schema that are older than it lack it
    for (const json& value : at(key)) read(value, values.emplace_back());
  }
  template <class T>
  void operator()(const char* key, std::optional<T>& value) {
    if (in.contains(key)) read(in[key], value.emplace());
  }
  template <class T>
  void operator()(const char* key, T& value) {
    read(at(key), value);
  }
  template <class T>
  static void read(const json& from, T& value) {
    if constexpr (std::is_arithmetic_v<T> || std::is_same_v<T, std::string>)
      value = from.get<T>();
    else
      walk(value, Reader{from});
  }
};

}  // namespace

json to_json(const Record& record) {
  Record copy = record;
  json line = Writer::nested(copy);
  line["type"] = "result";
  if (record.time) line["gflops"] = number(record.gflops());
  return line;
}

json to_json(const Header& header) {
  return {{"type", "header"},
          {"schema", kSchemaVersion},
          {"command", header.command},
          {"started", header.started},
          {"environment", header.environment}};
}

Closing Closing::of(const std::vector<Record>& records, std::string finished) {
  Closing closing{std::move(finished), records.size(), {}, {}};
  for (const Record& record : records)
    ++closing.verdicts[std::string(name(record.outcome.verdict()))];
  return closing;
}

json to_json(const Closing& closing) {
  json line{{"type", "end"},
            {"finished", closing.finished},
            {"results", closing.results},
            {"verdicts", closing.verdicts}};
  if (!closing.never_judged.empty()) line["never_judged"] = closing.never_judged;
  return line;
}

Record record_from_json(const json& line) {
  Record record;
  try {
    walk(record, Reader{line});
  } catch (const json::exception& error) {
    throw Error(fmt::format("record: {}", error.what()));
  }
  return record;
}

}  // namespace attest::core
