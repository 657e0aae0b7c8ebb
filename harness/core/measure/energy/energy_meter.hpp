// Measures energy: polls sensors on a thread of its own, and says what was used between two
// moments.
//
//   EnergyMeter meter(find_energy_sensors());
//   const auto begin = Clock::now();
//   work();  // longer than the sensors' own period: a second or more
//   for (const EnergyUse& use : meter.between(begin, Clock::now()))
//     fmt::print("{}: {} J\n", use.sensor, use.joules);
#pragma once
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/measure/energy/energy_sensors.hpp"
#include "core/tensor/stopwatch.hpp"

namespace attest::core {

/// What a sensor showed at a moment.
struct EnergyPoint {
  double at_s = 0;   // by one clock; the origin does not matter
  double value = 0;  // joules of a counter, or watts
};

/// The energy between two moments by a counter's points, in order of time. Interpolates between
/// points; adds `wraps_joules` where the counter began again. Null if the points do not reach from
/// `begin_s` to `end_s`, or if the counter fell and does not wrap.
std::optional<double> counted_joules(const std::vector<EnergyPoint>& points, double begin_s,
                                     double end_s, double wraps_joules);

/// The integral of power between two moments, linear between points. Null if the points do not
/// reach that far.
std::optional<double> integrated_joules(const std::vector<EnergyPoint>& points, double begin_s,
                                        double end_s);

/// What one sensor says of the time between two moments.
struct EnergyUse {
  std::string sensor, covers;            // of EnergySensor
  std::optional<double> counted_joules;  // by its counter
  std::optional<double> polled_joules;   // by its power, polled
  std::string refusal;                   // why there is neither

  /// By the counter where there is one, else by power.
  std::optional<double> joules() const { return counted_joules ? counted_joules : polled_joules; }
};

class EnergyMeter {
 public:
  /// Polls `sensors` each `period_s` from now on. Returns when each was read once.
  explicit EnergyMeter(std::vector<EnergySensor> sensors, double period_s = 0.02);
  EnergyMeter(const EnergyMeter&) = delete;
  EnergyMeter& operator=(const EnergyMeter&) = delete;
  ~EnergyMeter();

  /// One for each sensor, in their order. Reads all sensors once more if `end` is later than the
  /// last reading. `begin` must be later than the construction of this.
  std::vector<EnergyUse> between(Clock::time_point begin, Clock::time_point end);

 private:
  struct Polling;
  std::unique_ptr<Polling> polling_;
};

}  // namespace attest::core
