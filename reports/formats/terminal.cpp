// The tables for a terminal.
#include <algorithm>

#include "reports/bench.hpp"
#include "reports/formats/printers.hpp"
#include "reports/scaling/scaling_text.hpp"
#include "reports/table.hpp"

namespace attest::reports {
namespace {

template <class Print>
std::string of_each_run(const Input& input, Print print) {
  std::string text;
  for (const core::Results& run : input.runs) text += (text.empty() ? "" : "\n") + print(run);
  return text;
}

bool has_sweeps(const core::Results& run) {
  return std::ranges::any_of(run.records,
                             [](const core::Record& record) { return record.sweep.has_value(); });
}

}  // namespace

std::string print_terminal(const Input& input, const Style& style) {
  return of_each_run(input, [&](const core::Results& run) {
    const std::string text = print_table(run.records, style.colour) + cut_short(run);
    return has_sweeps(run) ? text + "\n" + print_scaling(scaling_of(run.records)) : text;
  });
}

std::string print_scaling_format(const Input& input, const Style&) {
  return of_each_run(input, [](const core::Results& run) {
    return print_scaling(scaling_of(run.records)) + cut_short(run);
  });
}

std::string print_bench_format(const Input& input, const Style& style) {
  return of_each_run(input,
                     [&](const core::Results& run) { return print_bench(run, style.colour); });
}

}  // namespace attest::reports
