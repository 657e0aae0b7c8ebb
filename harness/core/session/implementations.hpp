// The implementations that a session judges, each with its worker process.
#pragma once
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "core/isolation/limits.hpp"
#include "core/run/registry.hpp"

namespace attest::core {

/// Which implementations a session judges.
struct Selection {
  std::vector<std::string> plugins;  // files that the user names
  std::vector<std::string> globs;    // of names; empty: all
  std::string option = "--impl";     // what messages call the globs
  bool with_found = true;            // also those that come with attest or with the environment
  bool only_named = false;           // without globs, judges those of `plugins` alone
};

class Implementations {
 public:
  /// Starts all workers and waits for them. `cancelled` may be null. Throws Error: a plugin that
  /// was named does not load, a glob matches nothing, none is left.
  Implementations(const Selection& selection, const Limits& limits, bool (*cancelled)() = nullptr);

  /// All that are loaded, and those that the selection keeps.
  const Registry& registry() const { return *registry_; }
  const std::vector<Registry::Entry>& chosen() const { return chosen_; }
  /// Which plugins do not load, and which implementations share a name: a line each.
  const std::vector<std::string>& warnings() const { return warnings_; }
  /// Of implementations that share a name: what each is called here, and whose it is, "naive of
  /// my.so".
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

/// The limits with a number of threads: 0 becomes all CPUs that this process may use.
Limits settle(Limits limits);

}  // namespace attest::core
