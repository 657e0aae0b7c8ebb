#include "reports/input.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "core/record/case_key.hpp"
#include "core/record/races.hpp"
#include "core/tensor/error.hpp"
#include "reports/compare/launches.hpp"
#include "reports/limits.hpp"

namespace attest::reports {
namespace {

using core::Record;
using core::Results;

constexpr double kNoisy = 0.1;       // interquartile range / median
constexpr double kBusyPercent = 10;  // of the time, something waited for a CPU

// A race may have been seen after one of two files was copied.
bool contradict(const Record& a, const Record& b) {
  return !is_overruled(a) && !is_overruled(b) && to_json(a) != to_json(b);
}

/// Adds the records of `again`, another file of the same run. Says what it left out.
std::string join(Results& run, Results again) {
  std::map<core::CaseKey, const Record*> known;
  for (const Record& record : run.records) known.emplace(key_of(record), &record);
  std::vector<Record> fresh;
  size_t different = 0;
  for (Record& record : again.records) {
    const auto at = known.find(key_of(record));
    if (at == known.end())
      fresh.push_back(std::move(record));
    else
      different += contradict(*at->second, record);
  }
  std::string text = fmt::format("{} and {} hold the same run, of {}; it counts once",
                                 file_name(run), file_name(again), run.header.started);
  if (different > 0)
    text += fmt::format(". {} of its records differ between the files; those of {} are shown",
                        different, file_name(run));
  std::ranges::move(fresh, std::back_inserter(run.records));
  core::overrule_races(run.records);
  if (again.complete && !run.complete) run.closing = std::move(again.closing);
  run.complete |= again.complete;
  return text;
}

double number_of(const Results& run, const char* group, const char* name) {
  const std::string text = fact(run, group, name);
  char* end = nullptr;
  const double value = std::strtod(text.c_str(), &end);
  return end == text.c_str() ? 0 : value;
}

void warn_of_board(const Results& run, std::vector<std::string>& warnings) {
  const auto board = run.header.environment.find("board");
  if (board == run.header.environment.end()) return;
  for (const auto& [key, value] : board->second)
    if (key.starts_with("throttling_") && value == "yes")
      warnings.push_back(
          fmt::format("{}: the board was throttled when the run began: {}", file_name(run), key));
  const auto locked = [&](const char* clock) { return fact(run, "board", clock) != "no"; };
  if (!locked("gpu_locked") || !locked("memory_locked") || !locked("cpu_locked"))
    warnings.push_back(
        fmt::format("{}: the board's clocks were not locked, so its times may not be had again: "
                    "sudo jetson_clocks",
                    file_name(run)));
}

void warn_of_run(const Results& run, std::vector<std::string>& warnings) {
  const std::string file = file_name(run);
  if (!run.complete)
    warnings.push_back(fmt::format("{}: the run did not end; it has {} records and may lack more",
                                   file, run.records.size()));
  if (const std::string tools = fact(run, "build", "sanitizers"); !tools.empty())
    warnings.push_back(
        fmt::format("{}: attest was built with sanitizers ({}), so its times are "
                    "not those of a release build",
                    file, tools));
  else if (fact(run, "build", "build_type") == "Debug")
    warnings.push_back(
        fmt::format("{}: attest was built without optimisation, so its times are too long", file));
  if (fact(run, "run", "machine") == "made up")
    warnings.push_back(
        fmt::format("{}: the state of its machine is made up: ATTEST_MACHINE_ROOT was set", file));
  if (const double busy = number_of(run, "state", "cpu_pressure_percent"); busy > kBusyPercent)
    warnings.push_back(
        fmt::format("{}: the machine was busy with something else: programs waited "
                    "for a CPU {:.0f} % of the time before the run",
                    file, std::min(busy, 100.0)));
  if (const std::string excess = print_excess(run.records); !excess.empty())
    warnings.push_back(fmt::format("{}: {}", file, excess));
  if (number_of(run, "state", "throttling_now") > 0)  // of files that an older attest wrote
    warnings.push_back(fmt::format("{}: the CPU was throttled when the run began", file));
  warn_of_board(run, warnings);
}

void warn_of_newer_codes(const Results& run, std::vector<std::string>& warnings) {
  std::set<std::string_view> codes;
  for (const Record& record : run.records)
    if (is_newer(record.outcome.code)) codes.insert(name(record.outcome.code));
  if (!codes.empty())
    warnings.push_back(fmt::format(
        "{}: a newer attest wrote {}, which this one cannot explain; the verdicts count",
        file_name(run), fmt::join(codes, ", ")));
}

void warn_of_noise(const std::vector<Results>& runs, std::vector<std::string>& warnings) {
  Noise noise;
  for (const Results& run : runs) noise.add(run.records);
  if (noise.noisy > 0) warnings.push_back(noise.print());
}

}  // namespace

void Noise::add(const std::vector<Record>& records) {
  for (const Record& record : records) {
    if (!record.time) continue;
    const bool spreads = record.time->q3_ns - record.time->q1_ns > kNoisy * record.time->median_ns;
    ++timed;
    noisy += spreads || record.noisy;
    spread += spreads;
    disturbed += record.noisy.has_value();
    if (record.noisy)
      for (const std::string& reason : *record.noisy) ++reasons[reason];
  }
}

std::string Noise::print() const {
  if (noisy == 0) return "";
  std::vector<std::string> why;
  if (spread == noisy)
    why.push_back(fmt::format("half of their samples spread over more than {:.0f} % of the median",
                              kNoisy * 100));
  else if (spread > 0)
    why.push_back(
        fmt::format("half of the samples of {} spread over more than {:.0f} % of the "
                    "median",
                    spread, kNoisy * 100));
  if (disturbed > 0) {
    const auto most =
        std::ranges::max_element(reasons, {}, [](const auto& reason) { return reason.second; });
    why.push_back(fmt::format("something happened to the machine during {}, as notes say: {}{}",
                              disturbed == noisy ? "them" : fmt::to_string(disturbed), most->first,
                              reasons.size() > 1 ? " ..." : ""));
  }
  return fmt::format("{} of {} times are noisy: {}", noisy, timed, fmt::join(why, "; "));
}

std::string file_name(const Results& run) {
  return run.path.empty() ? "this run" : run.path.substr(run.path.rfind('/') + 1);
}

std::vector<std::string> warnings_of(const std::vector<Results>& runs) {
  std::vector<std::string> warnings;
  std::set<std::string> machines;
  for (const Results& run : runs) {
    warn_of_run(run, warnings);
    warn_of_newer_codes(run, warnings);
    machines.insert(machine(run, "cpu"));
  }
  if (machines.size() > 1)
    warnings.push_back(
        fmt::format("the runs are from {} machines: {}; times of different machines "
                    "are never compared",
                    machines.size(), fmt::join(machines, "; ")));
  warn_of_noise(runs, warnings);
  return warnings;
}

Input make_input(std::vector<Results> files) {
  Input input;
  std::map<std::string, size_t> run_of;  // by header
  for (Results& file : files) {
    if (!file.begun)
      throw core::Error(
          fmt::format("{}: holds no results: it is empty or was cut in its first line", file.path));
    const auto [at, fresh] = run_of.try_emplace(
        to_json(file.header).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace),
        input.runs.size());
    if (fresh)
      input.runs.push_back(std::move(file));
    else
      input.warnings.push_back(join(input.runs[at->second], std::move(file)));
  }
  std::ranges::move(warnings_of(input.runs), std::back_inserter(input.warnings));
  return input;
}

}  // namespace attest::reports
