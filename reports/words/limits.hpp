// How near records come to the limits of their machine, in words.
#pragma once
#include <cstddef>
#include <string>
#include <vector>

#include "core/record/record.hpp"

namespace attest::reports {

/// Returns the roofline's time as a share of the median: "83%". A share above 1 is marked:
/// "107%(!)". Returns an empty text if the record has no roofline.
std::string roofline_share(const core::Record& record);

/// Counts the records that are faster than the roofline allows.
struct Excess {
  size_t records = 0;
  // Of the record that exceeds it most:
  double share = 1;  // of the least time in its median
  std::string impl, title, limit;

  void add(const core::Record& record);
  /// A sentence; empty if there are none.
  std::string print() const;
};

/// Returns a sentence about the records that are faster than the roofline allows. The harness is
/// wrong about these. Returns an empty text if there are none.
std::string print_excess(const std::vector<core::Record>& records);

}  // namespace attest::reports
