// attest doctor: says what this machine has, what it lacks, and how to get it.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <optional>
#include <vector>

#include "cli/commands/commands.hpp"
#include "cli/exit_code.hpp"
#include "cli/plugins.hpp"
#include "core/device/device_kinds.hpp"
#include "core/measure/limits/probe.hpp"
#include "core/measure/machine/affinity.hpp"
#include "core/measure/machine/doctor/board_doctor.hpp"
#include "core/measure/machine/doctor/doctor.hpp"
#include "core/problem/spec.hpp"
#include "core/run/plugins/isolation_cost.hpp"
#include "core/tensor/error.hpp"
#include "reports/words/units.hpp"

namespace attest::cli {
namespace {

// On the first implementation that takes a small problem.
void print_isolation(const core::Registry& registry, const core::WorkerOptions& options) {
  const core::Problem problem = core::parse_problem("softmax seq_len_q=16 head_dim=16");
  for (const core::Registry::Entry& entry : registry.entries()) {
    if (!core::refuses(*entry.implementation, problem).empty()) continue;
    const core::IsolationCost cost = core::measure_isolation(
        entry.plugin->path(), entry.implementation->table, problem, options);
    fmt::print("ok    {:<24} a worker starts in {}; {} a query, {} a judged run ({})\n",
               "isolation", reports::print_time(cost.start_ns), reports::print_time(cost.query_ns),
               reports::print_time(cost.run_ns), entry.implementation->name);
    return;
  }
}

// Devices that are there and that no implementation runs on.
void print_idle_devices(const core::Registry& registry) {
  for (const core::DeviceKind& kind : core::device_kinds()) {
    if (!kind.own_memory || !kind.missing().empty()) continue;
    const auto runs_there = [&](const core::Registry::Entry& entry) {
      return entry.implementation->device == kind.number;
    };
    if (std::ranges::any_of(registry.entries(), runs_there)) continue;
    fmt::print(
        "none  {:<24} this attest was built without\n{:<30} -> where its compiler is: "
        "scripts/device.sh, or cmake "
        "-DATTEST_{}=on\n",
        fmt::format("{} implementations", kind.title), "", kind.title);
  }
}

// What the header of a results file has as its limits.
void print_peak_rates() {
  const core::Probe probe = core::probe_machine(int(core::allowed_cpus().size()));
  const auto rates = [](double gflops, double gbs) {
    return fmt::format("{} GFLOP/s of float32 multiply-adds, {} GB/s of reads",
                       reports::three_digits(gflops), reports::three_digits(gbs));
  };
  fmt::print("ok    {:<24} {} on one thread ({})\n", "peak rates",
             rates(probe.fma().gflops.one, probe.memory().read_gbs.one), probe.fma().unit);
  if (probe.threads > 1)
    fmt::print("{:<30} {} on {} threads\n", "",
               rates(probe.fma().gflops.all, probe.memory().read_gbs.all), probe.threads);
  fmt::print("{:<30} -> attest probe measures f16, bf16, exp and the caches too\n", "");
}

void print_findings(const std::vector<core::Finding>& findings) {
  using Kind = core::Finding::Kind;
  for (const core::Finding& finding : findings) {
    const char* mark = finding.kind == Kind::kOk     ? "ok  "
                       : finding.kind == Kind::kNote ? "note"
                                                     : "none";
    fmt::print("{}  {:<24} {}\n", mark, finding.what, finding.found);
    if (!finding.advice.empty()) fmt::print("{:<30} -> {}\n", "", finding.advice);
  }
}

// Before anything is launched.
void print_kernels(const core::Registry& registry) {
  const std::string architecture = core::cuda_architecture();
  if (architecture.empty()) return;
  std::vector<std::filesystem::path> plugins;
  for (const core::Registry::Entry& entry : registry.entries())
    if (entry.implementation->device == ATTEST_CUDA &&
        std::ranges::find(plugins, entry.plugin->path()) == plugins.end())
      plugins.push_back(entry.plugin->path());
  print_findings(core::diagnose_kernels(plugins, architecture));
}

int run() {
  bool usable = true;
  const std::optional<core::BoardState> board = core::read_board();
  print_findings(core::diagnose());
  print_peak_rates();
  try {
    PluginOptions options;
    const core::Implementations implementations = options.load();
    const core::Registry& registry = implementations.registry();
    fmt::print("ok    {:<24} {} implementations; attest list names them\n", "plugins",
               registry.entries().size());
    print_idle_devices(registry);
    print_kernels(registry);
    print_isolation(registry, {.executable = core::find_worker(),
                               .cpus = implementations.cpus(),
                               .limits = options.limits});
  } catch (const core::Error& error) {
    fmt::print("none  {:<24} {}\n", "plugins", error.what());
    usable = false;
  }
  if (board)
    if (const std::optional<core::BoardState> after = core::read_board())
      print_findings(core::diagnose_changes(*board, *after));
  return usable ? kOk : kNothing;
}

}  // namespace

Command add_doctor(CLI::App& program) {
  CLI::App* command = program.add_subcommand(
      "doctor", "say what this machine has, what it lacks, and how to get it");
  command->footer("Example: attest doctor");
  return [] { return run(); };
}

}  // namespace attest::cli
