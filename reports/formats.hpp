// The formats of a report. Each takes what a results file holds and nothing else, whether it was
// read from a file or is in memory still; a new format is one file here and one line in
// formats.cpp.
#pragma once
#include <span>
#include <string>
#include <string_view>

#include "core/record/results.hpp"

namespace attest::reports {

struct Style {
  bool colour = false;  // ANSI colours, where the format has any
};

struct Format {
  std::string_view name;     // "markdown"
  std::string_view summary;  // for --help
  std::string (*print)(const core::Results& results, const Style& style);
};

std::span<const Format> formats();
/// Throws Error naming those that there are.
const Format& find_format(std::string_view name);

}  // namespace attest::reports
