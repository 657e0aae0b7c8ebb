// attest list --events: which events the inputs of a case make happen in a kernel, and which they
// miss.
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
    return markdown || verbose || filter.quick || !filter.cases.empty() || !filter.dtypes.empty();
  }
};

/// Of the cases of suites, or of one problem. Prints; kBad where an event is missed that the case
/// has no reason for, or a reason stands for nothing that is missed any more. Throws Error.
int list_events(const std::vector<std::string>& suites, const std::optional<std::string>& spec,
                const EventOptions& options);

}  // namespace attest::cli
