// How far projected times are off, from two machines that were both measured: the times of the one
// are projected to the other and compared with those that were measured there.
#pragma once
#include <cstddef>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/record/results.hpp"

namespace attest::reports {

/// Of projections that one kind of limit decides.
struct Spread {
  static constexpr double kLevel = 0.9;
  std::vector<double> ratios;  // measured / projected, in ascending order
  /// In nine of ten cases a measured time is within this factor of the projected one, if the next
  /// case is like these (Vovk, Gammerman and Shafer, "Algorithmic Learning in a Random World",
  /// 2005: split conformal prediction). Nothing: fewer than nine cases cannot say that.
  std::optional<double> factor() const;
};

/// What binds, and where: times on cores say nothing of times on a GPU.
struct LimitKind {
  std::string device;  // Record::device: "cpu", "cuda"
  bool reads = false;  // reading binds; else arithmetic

  std::string name() const { return device + (reads ? " reads" : " arithmetic"); }
  auto operator<=>(const LimitKind&) const = default;
};

struct Calibration {
  std::string from, to;  // the machines
  std::map<LimitKind, Spread> spreads;
  size_t other_limits = 0;  // cases whose limits are of other kinds on the two machines

  /// Nothing: too few cases have such a limit on both machines.
  std::optional<double> factor(const LimitKind& kind) const;
};

/// Of the records that both files have: the same case, dtype, problem, inputs and implementation.
/// Throws Error if both are of one machine, or have no such record.
Calibration calibrate(const core::Results& from, const core::Results& to);

/// Rates of one implementation on one thread of each of two processors, in f32.
struct RatedCase {
  const char *shape, *impl;
  double from_gflops, to_gflops;
};
struct RatedPair {
  const char *from, *to;
  double from_peak_gflops, to_peak_gflops;  // of f32 multiply-adds of one core, by attest probe
  std::span<const RatedCase> cases;
};
/// Zen 5 and Zen 4, both measured: flash_cpu, PyTorch and ONNX Runtime at eight shapes. There are
/// no results files of it; measured_pair.cpp has the source of each figure.
const RatedPair& measured_pair();
/// How far times of the one processor, projected to the other, are off. It is of arithmetic on
/// cores alone.
const Calibration& calibration_of_cores();

}  // namespace attest::reports
