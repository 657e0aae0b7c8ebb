// The formats of a report. A format prints the contents of a results file and needs nothing else.
// To add one, write a file here and enter it in formats.cpp.
#pragma once
#include <span>
#include <string>
#include <string_view>

#include "core/record/results.hpp"

namespace attest::reports {

struct Style {
  bool colour = false;  // ANSI colours, if the format has any
};

struct Format {
  std::string_view name;     // "markdown"
  std::string_view summary;  // for --help
  std::string (*print)(const core::Results& results, const Style& style);
};

std::span<const Format> formats();
/// Throws Error if there is no such format; the message lists all.
const Format& find_format(std::string_view name);

}  // namespace attest::reports
