// The options that choose plugins and limit them. All commands that load plugins share them.
#pragma once
#include <CLI/CLI.hpp>

#include <string>
#include <vector>

#include "core/session/implementations.hpp"

namespace attest::cli {

/// Prints each on standard error, in one line that cannot steer a terminal.
void print_warnings(const std::vector<std::string>& warnings);

struct PluginOptions {
  core::Selection selection;          // --plugin, --impl
  core::Limits limits{.threads = 0};  // --threads, --timeout, --memory

  void add_to(CLI::App& command);
  /// Fills in the default limits, starts all workers, prints warnings. Throws Error as the
  /// constructor of Implementations does.
  core::Implementations load();
};

}  // namespace attest::cli
