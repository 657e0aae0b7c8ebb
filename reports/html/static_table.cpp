#include "reports/html/static_table.hpp"

#include <fmt/format.h>

#include <string_view>

#include "reports/words/escape.hpp"

namespace attest::reports::html {

std::string table_row(const std::vector<std::string>& cells, const char* tag) {
  const char* scope = std::string_view(tag) == "th" ? " scope=\"col\"" : "";
  std::string text = "<tr>";
  for (const std::string& cell : cells)
    text += fmt::format("<{0}{1}>{2}</{0}>", tag, scope, xml(cell));
  return text + "</tr>\n";
}

std::string static_table(const std::string& caption, const std::vector<std::string>& head,
                         const std::string& rows) {
  return fmt::format(
      "<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"{0}\"><table>"
      "<caption>{0}</caption>\n<thead>{1}</thead>\n<tbody>\n{2}</tbody></table></div>\n",
      xml(caption), table_row(head, "th"), rows);
}

std::string opened(const std::string& title, const std::string& content) {
  return fmt::format("<details><summary>{}</summary>\n{}</details>\n", xml(title), content);
}

}  // namespace attest::reports::html
