#include "cli/plugins.hpp"

#include <fmt/format.h>

#include "cli/interrupt.hpp"
#include "cli/options/quantity_options.hpp"
#include "reports/words/escape.hpp"

namespace attest::cli {

void print_warnings(const std::vector<std::string>& warnings) {
  for (const std::string& warning : warnings)
    fmt::print(stderr, "attest: warning: {}\n", reports::printable(warning));
}

void PluginOptions::add_to(CLI::App& command) {
  command
      .add_option("--plugin", selection.plugins,
                  "a shared library with implementations, in addition to attest's own (repeatable; "
                  "also $ATTEST_PLUGIN_PATH)")
      ->allow_extra_args(false)
      ->type_name("FILE");
  command
      .add_option("--impl", selection.globs,
                  "only implementations with these names (globs, separated by commas)")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->type_name("GLOB");
  command
      .add_option("--threads", limits.threads,
                  "threads of each implementation (default: all CPUs that this process may use)")
      ->check(CLI::Range(1, 4096))
      ->type_name("N");
  add_seconds(command, "--timeout", limits.timeout_s, "time that one run may take", 0.01, 1e6);
  add_bytes(command, "--memory", limits.memory_bytes,
            "skip cases that need more memory than this, and end an implementation that takes more "
            "besides its tensors (default: what is available)",
            uint64_t{1} << 20);
}

core::Implementations PluginOptions::load() {
  limits = core::settle(limits);
  core::Implementations implementations(selection, limits, interrupted);
  print_warnings(implementations.warnings());
  return implementations;
}

}  // namespace attest::cli
