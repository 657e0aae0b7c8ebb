// attest list --events: which events the inputs of a case cause, and which they miss.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include "core/session/plan.hpp"

namespace attest::cli {

struct EventOptions {
  core::CaseFilter filter;
  bool markdown = false, verbose = false;
  void add_to(CLI::App& command);
  bool given() const {
    return markdown || verbose || filter.quick || !filter.cases.empty() || !filter.dtypes.empty() ||
           !filter.fills.empty();
  }
};

/// Prints the events of the cases of `suites`, or of one problem `spec`. Returns kBad if a case
/// misses an event without giving a reason, or gives a reason for events that it no longer misses.
/// With fills in the filter it prints which events each of them causes instead, and returns kOk.
/// Throws Error.
int list_events(const std::vector<std::string>& suites, const std::optional<std::string>& spec,
                const EventOptions& options);

}  // namespace attest::cli
