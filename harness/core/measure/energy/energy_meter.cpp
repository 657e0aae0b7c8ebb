#include "core/measure/energy/energy_meter.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <utility>

namespace attest::core {
namespace {

// Of the readings of a power sensor, the share that may be missing between others.
constexpr double kMostRefused = 0.1;

// The value at a moment between the first and the last point.
double value_at(const std::vector<EnergyPoint>& points, double at_s) {
  const auto after = std::ranges::lower_bound(points, at_s, {}, &EnergyPoint::at_s);
  if (after == points.begin() || after->at_s == at_s) return after->value;
  const auto before = after - 1;
  const double share = (at_s - before->at_s) / (after->at_s - before->at_s);
  return before->value + share * (after->value - before->value);
}

bool reach(const std::vector<EnergyPoint>& points, double begin_s, double end_s) {
  return !points.empty() && points.front().at_s <= begin_s && points.back().at_s >= end_s &&
         begin_s <= end_s;
}

double in_seconds_of(Clock::time_point time) {
  return std::chrono::duration<double>(time.time_since_epoch()).count();
}

}  // namespace

std::optional<double> counted_joules(const std::vector<EnergyPoint>& points, double begin_s,
                                     double end_s, double wraps_joules) {
  if (!reach(points, begin_s, end_s)) return std::nullopt;
  std::vector<EnergyPoint> rising = points;
  double added = 0;
  for (size_t i = 1; i < points.size(); ++i) {
    if (points[i].value < points[i - 1].value) {
      if (wraps_joules <= 0) return std::nullopt;
      added += wraps_joules;
    }
    rising[i].value += added;
  }
  return value_at(rising, end_s) - value_at(rising, begin_s);
}

std::optional<double> integrated_joules(const std::vector<EnergyPoint>& points, double begin_s,
                                        double end_s) {
  if (!reach(points, begin_s, end_s)) return std::nullopt;
  std::vector<EnergyPoint> inside = {{begin_s, value_at(points, begin_s)}};
  for (const EnergyPoint& point : points)
    if (point.at_s > begin_s && point.at_s < end_s) inside.push_back(point);
  inside.push_back({end_s, value_at(points, end_s)});
  double joules = 0;
  for (size_t i = 1; i < inside.size(); ++i)
    joules += (inside[i].at_s - inside[i - 1].at_s) * (inside[i].value + inside[i - 1].value) / 2;
  return joules;
}

struct EnergyMeter::Polling {
  struct Trace {
    std::vector<EnergyPoint> joules, watts;
    std::vector<double> refused_at_s;
    std::string refusal;  // the last one

    // Why the power between two moments is not known though it is before and after: a sensor whose
    // rail is off refuses. "": it is known.
    std::string gaps(double begin_s, double end_s) const {
      const auto is_inside = [&](double at_s) { return at_s > begin_s && at_s < end_s; };
      const auto refused = std::ranges::count_if(refused_at_s, is_inside),
                 answered = std::ranges::count_if(watts, is_inside, &EnergyPoint::at_s);
      if (watts.empty() || double(refused) <= kMostRefused * double(refused + answered)) return {};
      return fmt::format("it refused {} of {} readings: {}", refused, refused + answered, refusal);
    }
  };
  std::vector<EnergySensor> sensors;
  std::vector<Trace> traces;  // of each sensor
  std::mutex mutex;           // guards traces and `stopped`
  std::condition_variable stop;
  bool stopped = false;
  std::thread thread;

  // A reading is of the middle of the call that made it.
  void read_all() {
    for (size_t i = 0; i < sensors.size(); ++i) {
      const double before_s = in_seconds_of(Clock::now());
      EnergyReading reading = sensors[i].read();
      const double at_s = (before_s + in_seconds_of(Clock::now())) / 2;
      if (reading.joules) traces[i].joules.push_back({at_s, *reading.joules});
      if (reading.watts) traces[i].watts.push_back({at_s, *reading.watts});
      if (reading.refusal.empty()) continue;
      traces[i].refused_at_s.push_back(at_s);
      traces[i].refusal = std::move(reading.refusal);
    }
  }

  void poll(double period_s) {
    std::unique_lock lock(mutex);
    const std::chrono::duration<double> period(period_s);
    while (!stop.wait_for(lock, period, [this] { return stopped; })) read_all();
  }
};

EnergyMeter::EnergyMeter(std::vector<EnergySensor> sensors, double period_s)
    : polling_(std::make_unique<Polling>()) {
  polling_->sensors = std::move(sensors);
  polling_->traces.resize(polling_->sensors.size());
  polling_->read_all();
  if (!polling_->sensors.empty())
    polling_->thread = std::thread([this, period_s] { polling_->poll(period_s); });
}

EnergyMeter::~EnergyMeter() {
  {
    const std::lock_guard lock(polling_->mutex);
    polling_->stopped = true;
  }
  polling_->stop.notify_all();
  if (polling_->thread.joinable()) polling_->thread.join();
}

std::vector<EnergyUse> EnergyMeter::between(Clock::time_point begin, Clock::time_point end) {
  const std::lock_guard lock(polling_->mutex);
  polling_->read_all();
  const double begin_s = in_seconds_of(begin), end_s = in_seconds_of(end);
  std::vector<EnergyUse> uses;
  for (size_t i = 0; i < polling_->sensors.size(); ++i) {
    const EnergySensor& sensor = polling_->sensors[i];
    const Polling::Trace& trace = polling_->traces[i];
    EnergyUse use{
        .sensor = sensor.name,
        .covers = sensor.covers,
        .counted_joules = counted_joules(trace.joules, begin_s, end_s, sensor.wraps_joules),
        .polled_joules = integrated_joules(trace.watts, begin_s, end_s),
        .refusal = {}};
    const std::string gaps = trace.gaps(begin_s, end_s);
    if (!gaps.empty()) use.polled_joules.reset();
    if (!use.joules())
      use.refusal = !gaps.empty()            ? gaps
                    : !trace.refusal.empty() ? trace.refusal
                    : trace.joules.empty()   ? "it was not read often enough"
                                             : "its counter went back";
    uses.push_back(std::move(use));
  }
  return uses;
}

}  // namespace attest::core
