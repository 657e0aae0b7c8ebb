#include "reports/html/projection_section.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "reports/html/static_table.hpp"
#include "reports/input/input.hpp"
#include "reports/projection/projection_text.hpp"
#include "reports/words/escape.hpp"
#include "reports/words/machine.hpp"

namespace attest::reports::html {
namespace {

std::string row_of(const Projection& projection) {
  const std::vector<std::string> cells = projected_cells(projection);
  std::string text = "<tr>";
  for (size_t i = 0; i < cells.size(); ++i) {
    const bool is_projected = i == kProjectedColumn || i == kIntervalColumn;
    text +=
        fmt::format("<td{}>{}</td>",
                    is_projected && projection.ns > 0 ? " class=\"projected\"" : "", xml(cells[i]));
  }
  return text + "</tr>\n";
}

std::string table_of(const std::string& caption, const std::vector<const Projection*>& all) {
  const size_t shown = std::min(all.size(), kMostProjectedRows);
  std::string rows;
  for (size_t i = 0; i < shown; ++i) rows += row_of(*all[i]);
  const std::string left_out =
      shown < all.size() ? fmt::format(", of which the first {} are listed", shown) : "";
  return static_table(fmt::format("{}: {}{}", caption, all.size(), left_out), projected_columns(),
                      rows);
}

std::string tables_of(const ProjectedFile& one) {
  std::vector<const Projection*> projected, refused;
  for (const Projection& each : one.projections)
    (each.ns > 0 ? projected : refused).push_back(&each);
  const std::string where = fmt::format("{}, {}", file_name(*one.file), machine(*one.file));
  std::string text;
  if (!projected.empty()) text += table_of("Projected from " + where, projected);
  if (!refused.empty())
    text += opened(fmt::format("Not projected, and why: {}", refused.size()),
                   table_of("Not projected from " + where, refused));
  return text;
}

std::string figures_of(const BoardMode& board) {
  std::string rows;
  for (const Figure& figure : figures(board)) rows += table_row({figure.text, figure.source});
  return opened(kFiguresTitle, static_table(fmt::format("{}, {}", board.module->name, board.mode),
                                            {"figure", "source"}, rows));
}

}  // namespace

std::string projection_section(const Projected& projected) {
  std::string text = fmt::format(
      "<section id=\"projection\" aria-labelledby=\"projection-title\">\n"
      "<h2 id=\"projection-title\">{}</h2>\n",
      xml(projected_title(projected)));
  for (const std::string& remark : projected_remarks(projected))
    text += fmt::format("<p class=\"soft\">{}</p>\n", xml(remark));
  text += figures_of(*projected.target->board);
  for (const ProjectedFile& one : projected.files) text += tables_of(one);
  return text + "</section>\n";
}

}  // namespace attest::reports::html
