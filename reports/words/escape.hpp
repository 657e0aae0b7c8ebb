// Escapes text of records for the languages of reports. Names, reasons and notes come from plugins,
// suites and files, so they may hold anything: markup, formulas, control characters.
#pragma once
#include <string>
#include <string_view>

namespace attest::reports {

/// The text as valid UTF-8: each byte that does not belong to a character becomes U+FFFD.
std::string valid_utf8(std::string_view text);
/// The text in one line that cannot steer a terminal: control characters become '?'.
std::string printable(std::string_view text);
/// For text and attributes of XML and HTML. Characters that XML lacks become U+FFFD.
std::string xml(std::string_view text);
/// A cell of a CSV file. A spreadsheet does not take it for a formula: where it begins like one, an
/// apostrophe comes first. Numbers do not need this.
std::string csv_text(std::string_view text);
/// For a line of Markdown, inside a table or outside: no markup, link, mention or HTML.
std::string markdown(std::string_view text);
/// A code span of Markdown.
std::string markdown_code(std::string_view text);

}  // namespace attest::reports
