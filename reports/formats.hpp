// The formats of a report. A format prints runs and needs nothing else. To add one, write a file in
// formats/, and enter it in formats.cpp.
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "reports/input/input.hpp"
#include "reports/style.hpp"

namespace attest::reports {

struct Format {
  std::string_view name;        // "markdown"
  std::string_view short_name;  // "md"; may be empty
  std::string_view extension;   // ".md": files that end so are of this format
  std::string_view summary;     // for --help
  std::string (*print)(const Input& input, const Style& style);
  bool has_parts = false;  // shows histories, comparisons and projections where there are any
  bool has_axes = false;   // shows coverage: what records and attest's own suites vary
  size_t most_records = SIZE_MAX;  // that it shows; of the others it takes what input.left_out has
};

std::span<const Format> formats();
/// By name or short name. Throws Error if there is no such format; the message lists all.
const Format& find_format(std::string_view name);
/// The format whose extension the file's name has; null: there is none.
const Format* format_of_file(std::string_view path);

}  // namespace attest::reports
