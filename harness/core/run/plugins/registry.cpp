#include "core/run/plugins/registry.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "core/isolation/installation.hpp"
#include "core/problem/glob.hpp"
#include "core/tensor/error.hpp"

namespace attest::core {
namespace fs = std::filesystem;
Registry::Registry(const std::vector<fs::path>& found, const std::vector<fs::path>& required,
                   const WorkerOptions& options) {
  std::set<fs::path> seen;
  std::vector<bool> is_required;
  auto start = [&](const fs::path& path, bool needed) {
    if (!seen.insert(fs::weakly_canonical(path)).second) return;
    plugins_.push_back(std::make_unique<Plugin>(path, options));
    is_required.push_back(needed);
  };
  for (const fs::path& path : required) start(path, true);
  for (const fs::path& path : found) {
    try {
      start(path, false);
    } catch (const Error& error) {
      warnings_.push_back(error.what());
    }
  }
  // The plugins that are found keep their names; those that are required come first in the list.
  std::set<std::string> names;
  std::vector<std::vector<Entry>> entries(plugins_.size());
  for (const bool required_ones : {false, true})
    for (size_t i = 0; i < plugins_.size(); ++i) {
      if (is_required[i] != required_ones) continue;
      try {
        entries[i] = name_entries(*plugins_[i], names);
      } catch (const Error& error) {
        if (is_required[i]) throw;
        warnings_.push_back(error.what());
      }
    }
  for (const std::vector<Entry>& of_plugin : entries)
    entries_.insert(entries_.end(), of_plugin.begin(), of_plugin.end());
}

std::vector<Registry::Entry> Registry::name_entries(Plugin& plugin, std::set<std::string>& names) {
  std::vector<Entry> entries;
  for (const Implementation& implementation : plugin.implementations()) {
    if (names.insert(implementation.name).second) {
      entries.push_back({&plugin, &implementation, implementation.name});
      continue;
    }
    renamed_.push_back(std::make_unique<Implementation>(implementation));
    std::string& name = renamed_.back()->name;
    name += "@" + implementation.plugin;
    for (int n = 2; !names.insert(name).second; ++n)
      name = fmt::format("{}@{}#{}", implementation.name, implementation.plugin, n);
    entries.push_back({&plugin, renamed_.back().get(), implementation.name});
  }
  return entries;
}

std::map<std::string, std::vector<Registry::Entry>> Registry::sharing() const {
  std::map<std::string, std::vector<Entry>> by_own_name;
  for (const Entry& entry : entries_) by_own_name[entry.own_name].push_back(entry);
  std::erase_if(by_own_name, [](const auto& name) { return name.second.size() < 2; });
  return by_own_name;
}

bool Registry::Entry::called(const std::vector<std::string>& globs) const {
  return matches(implementation->name, globs) || matches(own_name, globs) ||
         matches(fmt::format("{}@{}", own_name, implementation->plugin), globs);
}

}  // namespace attest::core
