// The tables for a terminal.
#include "reports/bench.hpp"
#include "reports/formats/printers.hpp"
#include "reports/table.hpp"

namespace attest::reports {
namespace {

template <class Print>
std::string of_each_run(const Input& input, Print print) {
  std::string text;
  for (const core::Results& run : input.runs) text += (text.empty() ? "" : "\n") + print(run);
  return text;
}

}  // namespace

std::string print_terminal(const Input& input, const Style& style) {
  return of_each_run(input, [&](const core::Results& run) {
    return print_table(run.records, style.colour) + cut_short(run);
  });
}

std::string print_bench_format(const Input& input, const Style& style) {
  return of_each_run(input,
                     [&](const core::Results& run) { return print_bench(run, style.colour); });
}

}  // namespace attest::reports
