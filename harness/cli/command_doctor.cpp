// attest doctor: what this machine has, what it lacks, how to get it.
#include <fmt/format.h>

#include "cli/commands.hpp"
#include "cli/exit_code.hpp"
#include "cli/plugins.hpp"
#include "core/measure/doctor.hpp"
#include "core/tensor/error.hpp"

namespace attest::cli {
namespace {

int run() {
  using Kind = core::Finding::Kind;
  bool usable = true;
  for (const core::Finding& finding : core::diagnose()) {
    const char* mark = finding.kind == Kind::kOk ? "ok  " : finding.kind == Kind::kNote ? "note" : "none";
    fmt::print("{}  {:<24} {}\n", mark, finding.what, finding.found);
    if (!finding.advice.empty()) fmt::print("{:<30} -> {}\n", "", finding.advice);
  }
  try {
    PluginOptions options;
    const auto registry = options.load();
    fmt::print("ok    {:<24} {} implementations; attest list names them\n", "plugins", registry->entries().size());
  } catch (const core::Error& error) {
    fmt::print("none  {:<24} {}\n", "plugins", error.what());
    usable = false;
  }
  return usable ? kOk : kNothing;
}

}  // namespace

Command add_doctor(CLI::App& program) {
  CLI::App* command = program.add_subcommand("doctor", "what this machine has, what it lacks, how to get it");
  command->footer("Example: attest doctor");
  return [] { return run(); };
}

}  // namespace attest::cli
