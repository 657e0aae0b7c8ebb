// Small readers of what reports print, so that tests judge it as other programs would.
#pragma once
#include <string>
#include <vector>

namespace attest::testing {

/// The rows of a CSV file as RFC 4180 has them.
std::vector<std::vector<std::string>> csv_rows(const std::string& text);

/// What keeps `text` from being JUnit XML as Jenkins' xUnit plugin takes it, one line each:
/// elements that are not closed or not allowed there, attributes that are missing or not known,
/// counts that do not match.
std::string junit_errors(const std::string& text);

}  // namespace attest::testing
