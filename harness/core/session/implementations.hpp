// The implementations that a session judges, each with its worker process.
#pragma once
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "core/isolation/limits.hpp"
#include "core/run/plugins/registry.hpp"

namespace attest::core {

/// Which implementations a session judges.
struct Selection {
  std::vector<std::string> plugins;  // files that the user names
  std::vector<std::string> globs;    // only implementations with matching names; empty: all
  std::string option = "--impl";     // the name of the globs in messages
  bool with_found = true;            // also load plugins of attest and of $ATTEST_PLUGIN_PATH
  bool shows_output = false;         // pass on what plugins write, to standard error
  bool only_named = false;           // without globs, judge only implementations of `plugins`
};

class Implementations {
 public:
  /// Starts all workers and waits for them. `cancelled` may be null. Throws Error if a plugin that
  /// the user named does not load, a glob matches nothing, or no implementation is left.
  Implementations(const Selection& selection, const Limits& limits, bool (*cancelled)() = nullptr);

  /// All implementations that are loaded.
  const Registry& registry() const { return *registry_; }
  /// Those that the selection keeps.
  const std::vector<Registry::Entry>& chosen() const { return chosen_; }
  /// The length of the longest of their names, at least 14: the width of a column with them.
  size_t name_width() const;
  /// A line for each plugin that does not load, and for implementations that share a name.
  const std::vector<std::string>& warnings() const { return warnings_; }
  /// For implementations that share a name: from the name used here to "naive of my.so".
  const std::map<std::string, std::string>& shared_names() const { return shared_names_; }
  /// The CPUs that workers are pinned to: "0,1".
  const std::string& cpus() const { return cpus_; }

 private:
  void choose(const Selection& selection);
  void note_shared_names();

  std::string cpus_;
  std::unique_ptr<Registry> registry_;
  std::vector<Registry::Entry> chosen_;
  std::vector<std::string> warnings_;
  std::map<std::string, std::string> shared_names_;
};

/// Replaces `threads` 0 by the number of CPUs that this process may use.
Limits settle(Limits limits);

}  // namespace attest::core
