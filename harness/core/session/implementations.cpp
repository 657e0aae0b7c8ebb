#include "core/session/implementations.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "core/isolation/installation.hpp"
#include "core/measure/machine/affinity.hpp"
#include "core/problem/glob.hpp"
#include "core/tensor/error.hpp"

namespace attest::core {
namespace {

namespace fs = std::filesystem;

// Whether `library` is one of the files that the user named.
bool is_named(const Selection& selection, const fs::path& library) {
  std::error_code error;
  return std::ranges::any_of(selection.plugins, [&](const std::string& plugin) {
    return fs::equivalent(plugin, library, error);
  });
}

}  // namespace

Limits settle(Limits limits) {
  if (limits.threads == 0) limits.threads = int32_t(allowed_cpus().size());
  return limits;
}

Implementations::Implementations(const Selection& selection, const Limits& limits,
                                 bool (*cancelled)())
    : cpus_(cpu_list(choose_cpus(size_t(limits.threads)))) {
  const WorkerOptions options{.executable = find_worker(),
                              .cpus = cpus_,
                              .limits = limits,
                              .shows_output = selection.shows_output,
                              .cancelled = cancelled};
  const std::vector<fs::path> found =
      selection.with_found ? find_plugins() : std::vector<fs::path>();
  const std::vector<fs::path> named(selection.plugins.begin(), selection.plugins.end());
  registry_ = std::make_unique<Registry>(found, named, options);
  warnings_ = registry_->warnings();
  note_shared_names();
  if (registry_->entries().empty())
    throw Error("no implementation found; name a library with --plugin or $ATTEST_PLUGIN_PATH");
  choose(selection);
}

void Implementations::choose(const Selection& selection) {
  std::vector<std::string> names;
  const bool named_alone = selection.only_named && selection.globs.empty();
  for (const Registry::Entry& entry : registry_->entries()) {
    names.push_back(entry.implementation->name);
    if (named_alone && !is_named(selection, entry.plugin->path())) continue;
    if (entry.called(selection.globs)) chosen_.push_back(entry);
  }
  for (const std::string& glob : selection.globs)
    if (std::ranges::none_of(registry_->entries(),
                             [&](const auto& entry) { return entry.called({glob}); })) {
      try {
        require_matches(selection.option, {glob}, names);
      } catch (const Error& error) {
        throw Error(fmt::format("{}; these are loaded, --plugin FILE loads others", error.what()));
      }
    }
}

size_t Implementations::name_width() const {
  size_t width = 14;
  for (const Registry::Entry& entry : chosen_)
    width = std::max(width, entry.implementation->name.size());
  return width;
}

void Implementations::note_shared_names() {
  for (const auto& [own_name, entries] : registry_->sharing()) {
    std::string owners;
    for (const Registry::Entry& entry : entries) {
      const Implementation& i = *entry.implementation;
      owners += fmt::format("{}{} is that of {}", owners.empty() ? "" : ", ", i.name, i.plugin);
      shared_names_[i.name] = fmt::format("{} of {}", own_name, i.plugin);
    }
    warnings_.push_back(
        fmt::format("{} implementations are called {}: {}; --impl {} takes all of them",
                    entries.size(), own_name, owners, own_name));
  }
}

}  // namespace attest::core
