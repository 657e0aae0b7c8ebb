// Which plugins there are: those of the build or the installation, and those that the user names.
#pragma once
#include <filesystem>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "core/run/plugin.hpp"

namespace attest::core {

/// Plugins with their workers, started at once and waited for together.
class Registry {
 public:
  /// `required`: files that the user named: what is wrong with one of them is an Error. What is
  /// wrong with others is a warning.
  Registry(const std::vector<std::filesystem::path>& found,
           const std::vector<std::filesystem::path>& required, const WorkerOptions& options);

  struct Entry {
    Plugin* plugin;
    const Implementation* implementation;
    std::string own_name;  // as its table has it
    /// Whether a glob is for it: by its name here, by its own, or as "naive@my.so". None: for all.
    bool called(const std::vector<std::string>& globs) const;
  };
  /// All implementations in the order of their plugins, the required ones first. The second of one
  /// name gets the plugin's name behind it, "naive@my.so"; one of a plugin that was found keeps
  /// its.
  const std::vector<Entry>& entries() const { return entries_; }
  /// Entries by their own names, where several have one name.
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
