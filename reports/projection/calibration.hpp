// How far projected times are off, from two machines that were both measured: the times of the one
// are projected to the other and compared with those that were measured there.
#pragma once
#include <cstddef>
#include <optional>
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

struct Calibration {
  std::string from, to;  // the machines
  Spread arithmetic, reads;
  size_t other_limits = 0;  // cases whose limits are of other kinds on the two machines

  const Spread& of(bool of_reads) const { return of_reads ? reads : arithmetic; }
};

/// Of the records that both files have: the same case, dtype, problem, inputs and implementation.
/// Throws Error if both are of one machine, or have no such record.
Calibration calibrate(const core::Results& from, const core::Results& to);

}  // namespace attest::reports
