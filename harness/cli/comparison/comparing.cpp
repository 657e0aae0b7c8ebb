#include "cli/comparison/comparing.hpp"

#include <fmt/format.h>

#include <cstdio>

#include "cli/exit_code.hpp"
#include "cli/options/quantity_options.hpp"
#include "cli/output/progress.hpp"
#include "reports/compare/comparison_text.hpp"

namespace attest::cli {
namespace {

// "5%" -> "5". Returns no error, as CLI11 wants it.
std::string drop_percent_sign(std::string& text) {
  if (text.ends_with('%')) text.pop_back();
  return {};
}

}  // namespace

void Comparing::add_to(CLI::App& command) {
  add_number(
      command, "--floor", [this](double percent) { floor_percent = percent; },
      "percent by which launches of one build differ on this machine (A/A); only a larger "
      "change counts, and only above 1 %",
      0.01, 1000)
      ->transform(CLI::Validator(drop_percent_sign, ""))
      ->type_name("PERCENT");
  floors_.add_to(command);
  command
      .add_option("--relative-to", options_.relative_to,
                  "divide times by those of this implementation in the same launch, e.g. a "
                  "library, or by the least time that the machine allows: roofline; such ratios "
                  "can be compared from day to day")
      ->type_name("IMPL");
  command.add_flag("--across-machines", options_.across_machines,
                   "compare times even between machines, kinds of build or numbers of threads");
  command.add_flag("--changed", changed_only,
                   "print only cases in which something changed or is undecided");
  command.add_flag("--strict", strict,
                   "exit with 3 if something is undecided, or missing in the new results");
}

reports::CompareOptions Comparing::options() {
  reports::CompareOptions options = options_;
  if (floor_percent > 0) options.rule.floor = floor_percent / 100;
  options.floors = floors_.read();
  return options;
}

void Comparing::check_floors(const std::vector<core::Results>& results) const {
  floors_.require_of(results, options_.relative_to);
}

void Comparing::print(const reports::Comparison& comparison) const {
  fmt::print("{}", print_comparison(
                       comparison, {.colour = wants_colour(stdout), .changed_only = changed_only}));
}

int Comparing::exit_code(const reports::Comparison& comparison) const {
  if (comparison.cases.empty()) {
    fmt::print(stderr, "attest: both sides have no (implementation, case) in common\n");
    return kNothing;
  }
  if (regressed(comparison)) return kBad;
  if (worse(comparison)) return kWorse;
  if (all_apart(comparison)) {
    fmt::print(stderr,
               "attest: no time could be compared: the sides are of different machines, power "
               "modes, kinds of build or numbers of threads; --across-machines compares all but "
               "power modes\n");
    return kNothing;
  }
  return strict && inconclusive(comparison) ? kInconclusive : kOk;
}

}  // namespace attest::cli
