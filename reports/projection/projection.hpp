// Projects measured times to boards that were not measured: a run is taken to come as near to the
// limits of the board as it came to the limits of the device on which it was timed.
//
//   const Basis basis = basis_of(record, file);
//   const Projection projection = project(record, file, *find_board_mode("orin-nx16-maxn"));
//   if (projection.ns > 0) fmt::print("PROJECTION: {}\n", print_time(projection.ns));
//
// A projection is no measurement, and everything that shows one says PROJECTION. What is not known
// is not guessed: Projection::why says it. The interval comes from two machines that were both
// measured (calibration.hpp).
#pragma once
#include <optional>
#include <string>

#include "core/record/results.hpp"
#include "reports/projection/basis.hpp"
#include "reports/projection/boards.hpp"
#include "reports/projection/calibration.hpp"

namespace attest::reports {

/// In every output that has a projected time.
inline constexpr const char* kProjection = "PROJECTION";

/// What a run on cores takes of a board: a core for each of its threads, if there are as many.
struct CoreUse {
  int threads = 0;  // where it was measured
  int cores = 0, all_cores = 0;
};

struct Projection {
  const core::Record* record = nullptr;
  Basis basis;
  std::optional<Bound> bound;             // on the board
  std::optional<CoreUse> cores;           // nothing: it runs on the board's GPU
  double ns = 0;                          // of a run there; 0: refused
  std::optional<double> low_ns, high_ns;  // where the calibration knows this LimitKind
  std::string why;                        // refused; "": not
};

/// Refused where a limit is not known on either side, where the two sides have limits of other
/// kinds, where a launch's own cost decides, and where the run is too far from its limit
/// (kLeastShare).
Projection project(const core::Record& record, const core::Results& file, const BoardMode& board,
                   const Calibration* calibration = nullptr);

}  // namespace attest::reports
