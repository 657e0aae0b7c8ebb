// The times of whole results files, projected to one board.
#pragma once
#include <cstddef>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "core/record/results.hpp"
#include "reports/projection/boards.hpp"
#include "reports/projection/calibration.hpp"
#include "reports/projection/projection.hpp"

namespace attest::reports {

/// The board, and the calibration if one was given. Without one, calibration_of_cores() gives times
/// on cores their intervals.
struct ProjectionTarget {
  const BoardMode* board = nullptr;
  std::optional<Calibration> calibration = {};
};

/// The projections of one results file.
struct ProjectedFile {
  const core::Results* file = nullptr;
  std::vector<Projection> projections;
};

struct Projected {
  const ProjectionTarget* target = nullptr;
  const Calibration* calibration = nullptr;  // that of the target, or of cores; null: none was used
  std::vector<ProjectedFile> files;

  /// How many times were projected; the others were refused.
  size_t count() const;
};

/// Projects the records of the files, those for which `is_wanted` holds if it is given. What an
/// implementation does not take (unsupported) is left out: it would not take it on the board
/// either. What is returned points into the files and to the target.
Projected project_all(std::span<const core::Results> files, const ProjectionTarget& target,
                      const std::function<bool(const core::Record&)>& is_wanted = {});

}  // namespace attest::reports
