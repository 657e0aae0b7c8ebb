#include "cli/plugins.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "cli/interrupt.hpp"
#include "core/measure/affinity.hpp"
#include "core/tensor/error.hpp"

namespace attest::cli {

void PluginOptions::add_to(CLI::App& command) {
  command
      .add_option("--plugin", plugins,
                  "a shared library with implementations, beside those of the build (repeatable; "
                  "also $ATTEST_PLUGIN_PATH)")
      ->allow_extra_args(false)
      ->type_name("FILE");
  command
      .add_option("--impl", impl_globs,
                  "only implementations of these names (globs, separated by commas)")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->type_name("GLOB");
  command
      .add_option("--threads", threads,
                  "threads of each implementation (default: all CPUs that this process may use)")
      ->check(CLI::Range(1, 4096))
      ->type_name("N");
  command.add_option("--timeout", timeout_s, "seconds that one run may take")
      ->check(CLI::Range(0.01, 1e6))
      ->capture_default_str()
      ->type_name("S");
  command
      .add_option("--memory", memory_gib,
                  "GiB that an implementation may have resident beside its tensors (default: nine "
                  "tenths of what is available)")
      ->check(CLI::Range(0.01, 1e6))
      ->type_name("GIB");
}

std::unique_ptr<core::Registry> PluginOptions::load() {
  if (threads == 0) threads = int32_t(core::allowed_cpus().size());
  cpus = core::cpu_list(core::choose_cpus(size_t(threads)));
  const core::WorkerOptions options{.executable = core::find_worker(),
                                    .cpus = cpus,
                                    .threads = threads,
                                    .timeout_s = timeout_s,
                                    .memory_bytes = uint64_t(memory_gib * (1u << 30)),
                                    .cancelled = interrupted};
  const std::vector<std::filesystem::path> named(plugins.begin(), plugins.end());
  auto registry = std::make_unique<core::Registry>(core::find_plugins(), named, options);
  for (const std::string& warning : registry->warnings())
    fmt::print(stderr, "attest: warning: {}\n", warning);
  warn_of_shared_names(*registry);
  if (registry->entries().empty())
    throw core::Error(
        "no implementation found; name a library with --plugin or $ATTEST_PLUGIN_PATH");
  return registry;
}

void PluginOptions::warn_of_shared_names(const core::Registry& registry) {
  for (const auto& [own_name, entries] : registry.sharing()) {
    std::string who;
    for (const core::Registry::Entry& entry : entries) {
      const core::Implementation& i = *entry.implementation;
      who += fmt::format("{}{} is that of {}", who.empty() ? "" : ", ", i.name, i.plugin);
      shared_names[i.name] = fmt::format("{} of {}", own_name, i.plugin);
    }
    fmt::print(
        stderr,
        "attest: warning: {} implementations are called {}: {}; --impl {} takes all of them\n",
        entries.size(), own_name, who, own_name);
  }
}

bool PluginOptions::named(const std::filesystem::path& library) const {
  std::error_code error;
  return std::any_of(plugins.begin(), plugins.end(), [&](const std::string& plugin) {
    return std::filesystem::equivalent(plugin, library, error);
  });
}

std::vector<core::Registry::Entry> PluginOptions::select(const core::Registry& registry) const {
  std::vector<core::Registry::Entry> chosen;
  std::vector<std::string> names;
  for (const core::Registry::Entry& entry : registry.entries()) {
    names.push_back(entry.implementation->name);
    if (only_named && impl_globs.empty() && !named(entry.plugin->path())) continue;
    if (entry.called(impl_globs)) chosen.push_back(entry);
  }
  for (const std::string& glob : impl_globs)
    if (std::ranges::none_of(registry.entries(),
                             [&](const auto& entry) { return entry.called({glob}); }))
      require_matches("--impl", {glob}, names);
  return chosen;
}

}  // namespace attest::cli
