// How implementations scale: fits, crossovers and largest sizes, from the records of sweeps.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "core/record/record.hpp"
#include "core/statistics/crossing.hpp"
#include "core/statistics/power_law.hpp"

namespace attest::reports {

/// One implementation at one size.
struct ScalingPoint {
  int64_t value = 0;
  core::Verdict verdict = core::Verdict::kError;
  std::string reason;                      // why there is no time
  std::optional<core::Sized> time_ns;      // median with its interval
  std::optional<double> own_memory_bytes;  // measured, tensors excluded; of a device: workspace and
                                           // pool together
  double tensor_bytes = 0, workspace_bytes = 0;
};

/// The quantities that are fitted.
struct ScalingLaws {
  core::PowerLaw time;        // above ten times the launch cost
  core::PowerLaw memory;      // tensors and measured peak together
  core::PowerLaw own_memory;  // the measured peak, without tensors
  core::PowerLaw workspace;   // as declared
};

/// One implementation in one sweep.
struct ScalingSeries {
  std::string impl;
  std::vector<ScalingPoint> points;       // by size
  std::optional<double> launch_ns;        // time of the smallest problem; nothing: not measured
  std::optional<double> fixed_bytes;      // tensors and measured peak of the smallest problem
  std::optional<double> fixed_own_bytes;  // measured peak of the smallest problem
  ScalingLaws laws;
  core::LargestSize within_deadline, within_memory;  // kUnknown: no budget, or nothing measured
  std::string finding;  // declared workspace and measured memory grow differently; empty: they do
                        // not

  /// The points that have a time, in nanoseconds.
  std::vector<core::Sized> times() const;
};

/// The records of one sweep with one dtype and one number of threads.
struct ScalingSweep {
  std::string suite, sweep, over, dtype;
  int32_t threads = 1;
  std::optional<double> deadline_ns;
  std::optional<uint64_t> memory_bytes;
  std::vector<ScalingSeries> series;

  /// "lidar/dense f32 over seq_len_q, 2 threads".
  std::string title() const;
  /// All sizes at which some implementation was tried, in ascending order.
  std::vector<int64_t> values() const;
};

/// Two implementations in sweeps over the same field, with the same dtype and number of threads.
struct ScalingPair {
  std::string first, second;  // "flash_cpu"; "window/window_cpu" if they are of different sweeps
  size_t first_sweep = 0, second_sweep = 0;  // numbers in Scaling::sweeps
  core::Crossings found;
};

/// One implementation at one size with different numbers of threads.
struct StrongScaling {
  struct Step {
    int32_t threads = 1;
    core::Sized time_ns;
    double speedup = 1;                                              // against the fewest threads
    double efficiency = 1, efficiency_low = 1, efficiency_high = 1;  // speedup / threads
  };
  std::string suite, sweep, over, dtype, impl;
  int64_t value = 0;
  std::vector<Step> steps;  // by number of threads
};

struct Scaling {
  std::vector<ScalingSweep> sweeps;
  std::vector<ScalingPair> pairs;
  std::vector<StrongScaling> strong;  // the largest size that all numbers of threads have
};

/// Times within this share of one another are no difference: they come from one launch.
inline constexpr double kScalingTie = 0.05;
/// Nor are times within so many standard deviations: those by which the times of both
/// implementations scatter around their laws, which tells how launches differ.
inline constexpr double kScalingDeviations = 3;
/// An exponent whose interval is wider than plus and minus this is loose.
inline constexpr double kLooseExponent = 0.05;

/// Records that are of no sweep are left out.
Scaling scaling_of(const std::vector<core::Record>& records);

/// Two neighbouring sizes of a sweep between which a measurement would tell more: a loose fit or a
/// crossover lies there.
struct Gap {
  size_t sweep = 0;  // number in Scaling::sweeps
  int64_t low = 0, high = 0;
};
/// Only sizes that are at least a factor of `least_ratio` apart, and that an implementation which
/// needs more points has reached.
std::vector<Gap> gaps(const Scaling& scaling, double least_ratio);

}  // namespace attest::reports
