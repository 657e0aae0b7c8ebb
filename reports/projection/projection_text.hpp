// Projections as text, as Markdown and as JSON. Each of them says PROJECTION, each time too.
#pragma once
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "reports/projection/projection.hpp"

namespace attest::reports {

/// The projections of one results file.
struct ProjectedFile {
  const core::Results* file = nullptr;
  std::vector<Projection> projections;
};

struct Projected {
  const BoardMode* board = nullptr;
  const Calibration* calibration = nullptr;  // null: there is none
  std::vector<ProjectedFile> files;

  /// How many times were projected.
  size_t count() const;
};

/// The board with the sources of its figures, then the projected times by case, then what was
/// refused and why.
std::string print_projected(const Projected& projected);
std::string projected_markdown(const Projected& projected);
nlohmann::ordered_json projected_json(const Projected& projected);

/// "measured / projected from A to B: ...", by kind of limit.
std::string print_calibration(const Calibration& calibration);
nlohmann::ordered_json calibration_json(const Calibration& calibration);

}  // namespace attest::reports
