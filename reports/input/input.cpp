#include "reports/input/input.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "core/record/case_key.hpp"
#include "core/record/races.hpp"
#include "core/tensor/error.hpp"
#include "reports/words/limits.hpp"
#include "reports/words/machine.hpp"

namespace attest::reports {
namespace {

using core::Record;
using core::Results;

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

void warn_of_run(const Results& run, const LeftOut::OfRun& left_out,
                 std::vector<std::string>& warnings) {
  const std::string file = file_name(run);
  if (!run.complete)
    warnings.push_back(fmt::format("{}: the run did not end; it has {} records and may lack more",
                                   file, run.records.size() + left_out.records));
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
  Excess excess = left_out.excess;
  for (const Record& record : run.records) excess.add(record);
  if (excess.records > 0) warnings.push_back(fmt::format("{}: {}", file, excess.print()));
  if (number_of(run, "state", "throttling_now") > 0)  // of files that an older attest wrote
    warnings.push_back(fmt::format("{}: the CPU was throttled when the run began", file));
  warn_of_board(run, warnings);
}

void warn_of_newer_codes(const Results& run, const LeftOut::OfRun& left_out,
                         std::vector<std::string>& warnings) {
  std::set<std::string> codes = left_out.newer_codes;
  for (const Record& record : run.records)
    if (is_newer(record.outcome.code)) codes.emplace(name(record.outcome.code));
  if (!codes.empty())
    warnings.push_back(fmt::format(
        "{}: a newer attest wrote {}, which this one cannot explain; the verdicts count",
        file_name(run), fmt::join(codes, ", ")));
}

void warn_of_noise(const std::vector<Results>& runs, Noise noise,
                   std::vector<std::string>& warnings) {
  for (const Results& run : runs) noise.add(run.records);
  if (noise.noisy > 0) warnings.push_back(noise.print() + " " + noise.names());
}

}  // namespace

std::string file_name(const Results& run) {
  return run.path.empty() ? "this run" : run.path.substr(run.path.rfind('/') + 1);
}

std::vector<std::string> warnings_of(const std::vector<Results>& runs, const LeftOut& left_out) {
  std::vector<std::string> warnings;
  const std::vector<std::string> devices = devices_of(runs, left_out.devices());
  std::set<std::string> machines;
  for (size_t i = 0; i < runs.size(); ++i) {
    warn_of_run(runs[i], left_out.of_run(i), warnings);
    warn_of_newer_codes(runs[i], left_out.of_run(i), warnings);
    machines.insert(machine(runs[i], devices));
  }
  if (machines.size() > 1)
    warnings.push_back(
        fmt::format("the runs are from {} machines: {}; times of different machines "
                    "are never compared",
                    machines.size(), fmt::join(machines, "; ")));
  warn_of_noise(runs, left_out.noise, warnings);
  return warnings;
}

Input make_input(std::vector<Results> files, LeftOut left_out) {
  Input input{.left_out = std::move(left_out)};
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
  std::ranges::move(warnings_of(input.runs, input.left_out), std::back_inserter(input.warnings));
  return input;
}

}  // namespace attest::reports
