#include "reports/formats.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "core/tensor/error.hpp"
#include "reports/formats/printers.hpp"
#include "reports/input/shown.hpp"

namespace attest::reports {
namespace {

constexpr Format kFormats[] = {
    {"terminal", "", ".txt", "the table that a run ends with", print_terminal},
    {"bench", "", ".bench.txt", "for each case the implementations by speed", print_bench_format},
    {"scaling", "", ".scaling.txt", "of attest scale: exponents, crossovers and largest sizes",
     print_scaling_format},
    {"markdown", "md", ".md", "counts, the worst records, then all verdicts and reasons",
     print_markdown, true},
    {"html", "", ".html", "a page that opens from disk: which implementation may be used, and why",
     print_html, true, true, kMostShown},
    {"junit", "", ".xml", "JUnit XML for Jenkins, GitLab and others", print_junit},
    {"csv", "", ".csv", "one table with a row for each record", print_csv},
    {"gbench", "", ".gbench.json", "the times as Google Benchmark's JSON", print_benchmark_json},
    {"github", "", ".github.txt", "GitHub annotations of the worst records", print_github},
    {"sarif", "", ".sarif", "SARIF 2.1.0 with the bad records", print_sarif},
    {"json", "", ".json", "counts, the worst records and the runs as JSON", print_summary_json},
};

}  // namespace

std::span<const Format> formats() { return kFormats; }

const Format& find_format(std::string_view name) {
  const auto found = std::ranges::find_if(kFormats, [&](const Format& format) {
    return format.name == name || (!name.empty() && format.short_name == name);
  });
  if (found != std::end(kFormats)) return *found;
  std::vector<std::string_view> names;
  for (const Format& format : kFormats) names.push_back(format.name);
  throw core::Error(
      fmt::format("--format {}: no such format; choose one of {}", name, fmt::join(names, ", ")));
}

const Format* format_of_file(std::string_view path) {
  const Format* best = nullptr;  // the longest extension: .gbench.json before .json
  for (const Format& format : kFormats)
    if (path.ends_with(format.extension) &&
        (!best || format.extension.size() > best->extension.size()))
      best = &format;
  return best;
}

}  // namespace attest::reports
