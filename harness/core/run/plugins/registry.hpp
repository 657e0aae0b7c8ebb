// All loaded plugins: those of the build or installation, and those that the user names.
#pragma once
#include <filesystem>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "core/run/plugins/plugin.hpp"

namespace attest::core {

/// The plugins, each with a running worker.
class Registry {
 public:
  /// Starts all workers and waits for them. `required`: plugins that the user named. Throws Error
  /// if one of them does not load; a plugin of `found` that does not load gives a warning.
  Registry(const std::vector<std::filesystem::path>& found,
           const std::vector<std::filesystem::path>& required, const WorkerOptions& options);

  struct Entry {
    Plugin* plugin;
    const Implementation* implementation;
    std::string own_name;  // the name in the implementation's table
    /// Whether a glob matches the entry's name, its own name, or "naive@my.so". True if there are
    /// no globs.
    bool called(const std::vector<std::string>& globs) const;
  };
  /// All implementations in the order of their plugins, the required plugins first. If a name is
  /// already taken, the plugin's name is added: "naive@my.so".
  const std::vector<Entry>& entries() const { return entries_; }
  /// The own names that several entries share, with these entries.
  std::map<std::string, std::vector<Entry>> sharing() const;
  const std::vector<std::string>& warnings() const { return warnings_; }

 private:
  std::vector<Entry> name_entries(Plugin& plugin, std::set<std::string>& names);

  std::vector<std::unique_ptr<Plugin>> plugins_;
  std::vector<std::unique_ptr<Implementation>> renamed_;
  std::vector<Entry> entries_;
  std::vector<std::string> warnings_;
};

}  // namespace attest::core
