// Tables that need no script, and parts that open on a click.
#pragma once
#include <string>
#include <vector>

namespace attest::reports::html {

/// Returns a row; `tag` is "td", or "th" for the head of columns. It escapes the cells.
std::string table_row(const std::vector<std::string>& cells, const char* tag = "td");

/// Returns a table that scrolls by itself where it is wider than the page. `rows` is markup.
std::string static_table(const std::string& caption, const std::vector<std::string>& head,
                         const std::string& rows);

/// Returns a part that is closed at first. It escapes the title; `content` is markup.
std::string opened(const std::string& title, const std::string& content);

}  // namespace attest::reports::html
