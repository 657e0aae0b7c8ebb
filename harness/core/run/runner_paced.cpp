// Frames that a clock releases, alone and beside neighbours, and the energy of runs.
#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <future>
#include <thread>

#include "core/measure/energy/energy_meter.hpp"
#include "core/run/phase.hpp"
#include "core/run/runner.hpp"
#include "core/tensor/random.hpp"
#include "core/tensor/stopwatch.hpp"

namespace attest::core {
namespace {

// Runs for energy follow one another for so long, and the machine idles half of it before and
// after. Sensors of devices form a mean over up to a tenth of a second.
constexpr double kEnergyWindow_ns = 1.5e9;
constexpr auto kIdle = std::chrono::milliseconds(750);

}  // namespace

/// The implementation itself as its own neighbours, each in a process of its own. They work until
/// they are stopped.
class CaseRunner::SameNeighbours {
 public:
  SameNeighbours(const CaseRunner& runner, const Trial& trial, const PreparedInputs& inputs,
                 const std::vector<NeighbourSpec>& specs) {
    for (const NeighbourSpec& spec : specs) {
      if (spec.kind != NeighbourKind::kSame) continue;
      name_ = spec.print();
      for (int i = 0; i < spec.count; ++i) workers_.push_back(start(runner, trial, inputs));
    }
  }
  SameNeighbours(const SameNeighbours&) = delete;
  SameNeighbours& operator=(const SameNeighbours&) = delete;
  ~SameNeighbours() { stopped_ = true; }  // the futures wait for their ends

  /// Waits for them to end. Empty: there are none. `needed_until_ns`: the end of the last frame, by
  /// the steady clock.
  std::vector<NeighbourRecord> stop(double needed_until_ns) {
    stopped_ = true;
    if (workers_.empty()) return {};
    NeighbourRecord record{.name = name_, .rate = 0, .unit = "runs/s"};
    for (std::future<PacedResult>& worker : workers_) {
      const PacedResult result = worker.get();
      if (result.failure || result.ends_ns.empty()) {
        record.remark = result.failure ? "a process ended: " + result.failure->reason
                                       : "a process had no time for a run";
        continue;
      }
      if (result.first_ns + result.ends_ns.back() < needed_until_ns && record.remark.empty())
        record.remark = "a process ended its work before the last frame";
      record.rate += double(result.runs) / (result.ends_ns.back() * 1e-9);
    }
    workers_.clear();
    return {record};
  }

 private:
  std::future<PacedResult> start(const CaseRunner& runner, const Trial& trial,
                                 const PreparedInputs& inputs) {
    auto plugin = std::make_shared<Plugin>(trial.plugin.path(), trial.plugin.options());
    plugin->implementations();  // it has loaded
    return std::async(std::launch::async, [this, &runner, &trial, &inputs, plugin] {
      SharedTensors outputs(runner.problem_, ATTEST_WRITE, trial.workspace_bytes),
          differing(runner.problem_, ATTEST_WRITE);
      outputs.poison();
      differing.poison();
      return plugin->pace(trial.implementation, runner.problem_,
                          {.inputs = inputs.shared(), .outputs = outputs, .differing = differing},
                          {.expected_ns = trial.fills.back().run_ns, .stopped = &stopped_});
    });
  }

  std::string name_;
  std::atomic<bool> stopped_ = false;
  std::vector<std::future<PacedResult>> workers_;
};

// Runs that a clock releases, or that follow one another; the outputs of some of them are judged.
PacedResult CaseRunner::run_paced(Trial& trial, double period_ns, double window_ns,
                                  uint64_t frames) {
  const AuditSet set(*this, trial);
  std::optional<Stopwatch> watch(std::in_place, pacing_s_);
  PacedResult paced = trial.plugin.pace(trial.implementation, problem_, set.tensors(),
                                        {.expected_ns = trial.fills.back().run_ns,
                                         .period_ns = period_ns,
                                         .window_ns = window_ns,
                                         .frames = frames,
                                         .seed = unpredictable_seed()});
  watch.reset();
  if (paced.failure) {
    paced.failure->reason += " (while paced)";
    return paced;
  }
  const Outcome outcome =
      judge_audited(trial, {.inputs_changed = paced.inputs_changed, .stale = paced.stale},
                    set.audited(paced.differs), "paced");
  if (!outcome.passes()) paced.failure = outcome;
  return paced;
}

// One phase of frames. Null: it failed, and `outcome` says why.
std::optional<PhaseRecord> CaseRunner::pace_phase(Trial& trial, bool contended, Outcome& outcome) {
  const PaceOptions& pace = *options_.pace;
  const auto frames = uint64_t(std::max(1.0, std::ceil(pace.window_ns / pace.period_ns)));
  const std::vector<NeighbourSpec> specs =
      contended ? pace.neighbours : std::vector<NeighbourSpec>{};
  const PreparedInputs& first = inputs(fills_.front());
  std::optional<Stopwatch> watch(std::in_place, pacing_s_);
  SameNeighbours same(*this, trial, first, specs);
  Neighbours neighbours(specs);
  watch.reset();
  // All frames, unless they queue up for as long again.
  const PacedResult paced = run_paced(trial, pace.period_ns, 2 * pace.window_ns, frames);
  watch.emplace(pacing_s_);
  std::vector<NeighbourRecord> works;
  for (const NeighbourWork& work : neighbours.stop())
    works.push_back({work.name, work.rate, work.unit});
  const double last_end_ns =
      paced.ends_ns.empty() ? 0 : paced.first_ns + paced.clock_held_ns + paced.ends_ns.back();
  for (NeighbourRecord& work : same.stop(last_end_ns)) works.push_back(std::move(work));
  watch.reset();
  if (paced.failure) {
    outcome = *paced.failure;
    return std::nullopt;
  }
  PhaseRecord phase = phase_record(paced.starts_ns, paced.ends_ns, pace.period_ns, int64_t(frames));
  phase.neighbours = std::move(works);
  phase.clock_held_ns = paced.clock_held_ns;
  return phase;
}

Outcome CaseRunner::pace(Trial& trial) {
  PacedRecord record{.period_ns = options_.pace->period_ns};
  Outcome outcome;
  std::optional<PhaseRecord> alone = pace_phase(trial, false, outcome);
  if (!alone) return outcome;
  record.alone = std::move(*alone);
  if (!options_.pace->neighbours.empty()) {
    record.contended = pace_phase(trial, true, outcome);
    if (!record.contended) return outcome;
    set_slowdown(record);
  }
  trial.record.paced = std::move(record);
  return {};
}

namespace {

/// What a sensor says of a time in which the machine idles.
struct Idle {
  EnergyUse use;
  double seconds = 0;

  double watts() const { return *use.joules() / seconds; }
};

// `busy` between two idle times; it has a refusal where a sensor has not answered in all three.
EnergyRecord energy_record(const Idle& before, const EnergyUse& busy, const Idle& after,
                           const PacedReply& runs) {
  EnergyRecord record{.sensor = busy.sensor, .covers = busy.covers, .refusal = busy.refusal};
  record.runs = int64_t(runs.runs);
  record.window_ns = runs.ends_ns.back() - runs.starts_ns.front();
  if (!busy.joules() || !before.use.joules() || !after.use.joules()) {
    if (record.refusal.empty()) record.refusal = "it was not read while the machine was idle";
    return record;
  }
  record.method = busy.counted_joules ? "counter" : "power";
  record.joules = *busy.joules();
  record.run_joules = record.joules / double(record.runs);
  record.idle_watts_before = before.watts();
  record.idle_watts_after = after.watts();
  const double idle_watts = (record.idle_watts_before + record.idle_watts_after) / 2;
  record.net_run_joules =
      (record.joules - idle_watts * record.window_ns * 1e-9) / double(record.runs);
  if (busy.counted_joules) record.polled_joules = busy.polled_joules;
  return record;
}

}  // namespace

// Idle, runs that follow one another, idle: all by each sensor of the machine. Without a sensor
// there is nothing to wait for.
Outcome CaseRunner::measure_energy(Trial& trial) {
  std::vector<EnergyRecord>& records = trial.record.energy.emplace();
  std::vector<EnergySensor> sensors = find_energy_sensors();
  if (sensors.empty()) return {};
  EnergyMeter meter(std::move(sensors));
  const auto idle = [this] {
    const Stopwatch watch(pacing_s_);
    std::this_thread::sleep_for(kIdle);
  };
  const auto before = Clock::now();
  idle();
  const auto idle_end = Clock::now();
  const PacedResult runs = run_paced(trial, 0, kEnergyWindow_ns, 0);
  if (runs.failure) return *runs.failure;
  const auto after = Clock::now();
  idle();
  const auto end = Clock::now();

  const auto moment = [&](double ns) {
    return Clock::time_point(std::chrono::duration_cast<Clock::duration>(
        std::chrono::duration<double, std::nano>(runs.first_ns + ns)));
  };
  const std::vector<EnergyUse> idle_before = meter.between(before, idle_end),
                               busy = meter.between(moment(runs.starts_ns.front()),
                                                    moment(runs.ends_ns.back())),
                               idle_after = meter.between(after, end);
  // A sleep takes longer than it was asked to.
  const std::chrono::duration<double> before_s = idle_end - before, after_s = end - after;
  for (size_t i = 0; i < busy.size(); ++i)
    records.push_back(energy_record({idle_before[i], before_s.count()}, busy[i],
                                    {idle_after[i], after_s.count()}, runs));
  return {};
}

}  // namespace attest::core
