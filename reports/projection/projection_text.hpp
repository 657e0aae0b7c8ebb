// Projections as text, as Markdown, as rows for tables and as JSON. Each of them says PROJECTION,
// each time too. A calibration as text has no projected time, and does not say it.
#pragma once
#include <cstddef>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "reports/projection/projected.hpp"

namespace attest::reports {

/// The board with the sources of its figures, then the projected times by case, then what was
/// refused and why.
std::string print_projected(const Projected& projected);
std::string projected_markdown(const Projected& projected);
/// Returns what reports/projection.schema.json describes.
nlohmann::ordered_json projected_json(const Projected& projected);

/// Returns "PROJECTION to orin-agx64-maxn: Jetson AGX Orin 64GB, power mode MAXN".
std::string projected_title(const Projected& projected);
/// Above a table of a board's figures.
inline constexpr const char* kFiguresTitle = "Figures of the board and their sources";
/// Return the names of the columns of a table, and the cells of a projection, refused or not. A
/// cell of kProjectedColumn says PROJECTION, or that it was refused. That of kIntervalColumn may be
/// empty.
inline constexpr size_t kProjectedColumn = 3, kIntervalColumn = 4;
std::vector<std::string> projected_columns();
std::vector<std::string> projected_cells(const Projection& projection);
/// Returns sentences for above a table: what a projection is, and where its interval comes from.
std::vector<std::string> projected_remarks(const Projected& projected);

/// "measured / projected from A to B: ...", by kind of limit.
std::string print_calibration(const Calibration& calibration);
/// Returns the document of a calibration alone that reports/projection.schema.json describes.
nlohmann::ordered_json calibration_json(const Calibration& calibration);

}  // namespace attest::reports
