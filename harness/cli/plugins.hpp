// The options that choose plugins and what they may use, shared by the commands that load them.
#pragma once
#include <CLI/CLI.hpp>

#include "core/session/implementations.hpp"

namespace attest::cli {

struct PluginOptions {
  core::Selection selection;          // --plugin, --impl
  core::Limits limits{.threads = 0};  // --threads, --timeout, --memory

  void add_to(CLI::App& command);
  /// Settles the limits, starts all workers, prints warnings. Throws Error, as Implementations.
  core::Implementations load();
};

}  // namespace attest::cli
