#include "reports/html/comparison_section.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "reports/compare/comparison_text.hpp"
#include "reports/html/static_table.hpp"
#include "reports/words/escape.hpp"

namespace attest::reports::html {
namespace {

std::string table_of(const std::string& caption, const std::vector<const Compared*>& cases) {
  std::string rows;
  const size_t shown = std::min(cases.size(), kMostComparisonRows);
  for (size_t i = 0; i < shown; ++i) rows += table_row(comparison_cells(*cases[i]));
  const std::string left_out =
      shown < cases.size() ? fmt::format(", of which the first {} are listed", shown) : "";
  return static_table(fmt::format("{}: {}{}", caption, cases.size(), left_out),
                      comparison_columns(), rows);
}

std::string list(const std::string& title, const std::vector<std::string>& names) {
  if (names.empty()) return {};
  std::string items;
  for (const std::string& name : names) items += fmt::format("<li>{}</li>\n", xml(name));
  return opened(fmt::format("{}: {}", title, names.size()), "<ul>\n" + items + "</ul>\n");
}

}  // namespace

std::string comparison_section(const Comparison& comparison) {
  std::vector<const Compared*> changed, same;
  for (const Compared& one : comparison.cases) (unchanged(one) ? same : changed).push_back(&one);
  std::ranges::stable_partition(changed, [](const Compared* one) { return worse(*one); });
  std::string text = fmt::format(
      "<section id=\"comparison\" aria-labelledby=\"comparison-title\">\n"
      "<h2 id=\"comparison-title\">{}</h2>\n",
      xml(comparison_title(comparison)));
  for (const std::string& sentence : comparison_remarks(comparison))
    text += fmt::format("<p class=\"soft\">{}</p>\n", xml(sentence));
  if (!changed.empty()) text += table_of("Changed or undecided", changed);
  if (!same.empty())
    text += opened(fmt::format("Did not change: {}", same.size()), table_of("Unchanged", same));
  return text + list("Only before", comparison.only_before) +
         list("Only after", comparison.only_after) + "</section>\n";
}

}  // namespace attest::reports::html
