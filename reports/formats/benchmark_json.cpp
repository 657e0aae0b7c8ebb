// Google Benchmark's JSON, with an entry for each record that was timed. Several runs of one case
// are repetitions, so that compare.py can test them against each other. Samples of one run are
// none: they share a machine state.
#include <fmt/format.h>

#include <map>
#include <nlohmann/json.hpp>

#include "reports/formats/printers.hpp"
#include "reports/summary.hpp"
#include "reports/words/json_text.hpp"
#include "reports/words/machine.hpp"

namespace attest::reports {
namespace {

using core::Record;
using core::Results;
using nlohmann::ordered_json;

/// Counters of Google Benchmark are numbers; one that JSON lacks is left out.
void add_counter(ordered_json& entry, const char* name, double value) {
  if (std::isfinite(value)) entry[name] = value;
}

std::string benchmark_name(const Record& record) {
  std::string name = record.suite;
  for (const std::string* part : {&record.case_name, &record.dtype, &record.impl})
    if (!part->empty()) name += (name.empty() ? "" : "/") + *part;
  return name;
}

ordered_json context(const Input& input) {
  ordered_json all;
  if (input.runs.empty()) return ordered_json::object();
  const Results& last = input.runs.back();
  all["date"] = last.header.started;
  all["host_name"] = machine(last);  // no name of a machine is recorded
  all["executable"] = "attest";
  all["num_cpus"] = std::atoi(fact(last, "cpu", "cores").c_str());
  all["mhz_per_cpu"] = std::atoi(fact(last, "state", "max_mhz").c_str());
  all["load_avg"] = {std::atof(fact(last, "state", "load_1min").c_str())};
  all["library_build_type"] = build(last) == "Debug" ? "debug" : "release";
  all["attest_commit"] = fact(last, "build", "commit");
  all["cpu_time"] = "wall time: attest measures no CPU time";
  return all;
}

ordered_json entry_of(const Record& record, int64_t family, size_t repetition, size_t repetitions) {
  const core::TimeRecord& time = *record.time;
  const std::string name = benchmark_name(record);
  ordered_json entry{
      {"name", name},
      {"family_index", family},
      {"per_family_instance_index", 0},
      {"run_name", name},
      {"run_type", "iteration"},
      {"repetitions", repetitions},
      {"repetition_index", repetition},
      {"threads", 1},  // that call it; how many it uses is a counter
      {"iterations", int64_t(time.samples_ns.size()) * time.iterations_per_sample},
      {"real_time", time.median_ns},
      {"cpu_time", time.median_ns},
      {"time_unit", "ns"},
  };
  add_counter(entry, "cold_median_ns", time.cold_median_ns > 0 ? time.cold_median_ns : NAN);
  add_counter(entry, "median_low_ns", time.median_low_ns);
  add_counter(entry, "median_high_ns", time.median_high_ns);
  add_counter(entry, "gflops", record.gflops());
  add_counter(entry, "max_ratio", record.max_ratio);
  add_counter(entry, "peak_bytes",
              record.memory.peak_bytes ? double(*record.memory.peak_bytes) : NAN);
  add_counter(entry, "impl_threads", record.threads);
  return entry;
}

}  // namespace

std::string print_benchmark_json(const Input& input, const Style&) {
  std::map<std::string, size_t> repetitions, seen;
  std::map<std::string, int64_t> family;
  for (const Results& run : input.runs)
    for (const Record& record : run.records)
      if (record.time) {
        const std::string name = benchmark_name(record);
        ++repetitions[name];
        family.try_emplace(name, int64_t(family.size()));
      }
  ordered_json all{{"context", context(input)}, {"benchmarks", ordered_json::array()}};
  for (const Results& run : input.runs)
    for (const Record& record : run.records)
      if (record.time) {
        const std::string name = benchmark_name(record);
        all["benchmarks"].push_back(
            entry_of(record, family[name], seen[name]++, repetitions[name]));
      }
  return json_text(all);
}

}  // namespace attest::reports
