#include "reports/formats.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "core/tensor/error.hpp"
#include "reports/bench.hpp"
#include "reports/markdown.hpp"
#include "reports/table.hpp"

namespace attest::reports {
namespace {

std::string print_terminal(const core::Results& results, const Style& style) {
  return print_table(results.records, style.colour) + cut_short(results);
}
std::string print_bench_of(const core::Results& results, const Style& style) {
  return print_bench(results, style.colour);
}
std::string print_plain_markdown(const core::Results& results, const Style&) {
  return print_markdown(results);
}

constexpr Format kFormats[] = {
    {"terminal", "the table that a run ends with", print_terminal},
    {"bench", "for each case the implementations by speed, with shares of the machine's peak",
     print_bench_of},
    {"markdown", "a row for each case, a column for each implementation, then the reasons",
     print_plain_markdown},
};

}  // namespace

std::span<const Format> formats() { return kFormats; }

const Format& find_format(std::string_view name) {
  const auto found = std::ranges::find(kFormats, name, &Format::name);
  if (found != std::end(kFormats)) return *found;
  std::vector<std::string_view> names;
  for (const Format& format : kFormats) names.push_back(format.name);
  throw core::Error(
      fmt::format("--format {}: no such format; choose one of {}", name, fmt::join(names, ", ")));
}

}  // namespace attest::reports
