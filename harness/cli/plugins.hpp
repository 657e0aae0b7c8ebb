// The options that choose plugins and how they run, shared by list, run and repro.
#pragma once
#include <CLI/CLI.hpp>

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "core/problem/glob.hpp"
#include "core/run/registry.hpp"

namespace attest::cli {

struct PluginOptions {
  std::vector<std::string> plugins;     // --plugin
  std::vector<std::string> impl_globs;  // --impl
  int32_t threads = 0;                  // --threads; 0: all that this process may use
  double timeout_s = 60;                // --timeout
  double memory_gib = 0;                // --memory; 0: what is available
  bool only_named =
      false;  // of the implementations, only those of --plugin (where --impl says nothing else)

  void add_to(CLI::App& command);
  /// Starts all workers; prints warnings about plugins that do not load. Throws Error for one that
  /// was named.
  std::unique_ptr<core::Registry> load();
  /// The implementations that --impl keeps. Throws Error naming what exists when none is left.
  std::vector<core::Registry::Entry> select(const core::Registry& registry) const;
  /// Whether `library` is one of --plugin.
  bool named(const std::filesystem::path& library) const;
  void warn_of_shared_names(const core::Registry& registry);
  /// The CPUs that workers are pinned to, "0,1"; set by load().
  std::string cpus;
  /// Of implementations that share a name: what each is called here, and whose it is, "naive of
  /// my.so"; set by load().
  std::map<std::string, std::string> shared_names;
};

using core::matches;
using core::require_matches;

}  // namespace attest::cli
