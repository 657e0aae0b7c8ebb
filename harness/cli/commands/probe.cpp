// attest probe: measures what this machine can do at most.
#include "core/measure/limits/probe.hpp"

#include <fmt/format.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "cli/commands/commands.hpp"
#include "cli/exit_code.hpp"
#include "cli/output/written_file.hpp"
#include "core/device/device_kinds.hpp"
#include "core/measure/limits/device_limits.hpp"
#include "core/measure/machine/affinity.hpp"
#include "core/measure/machine/other_load.hpp"
#include "reports/words/units.hpp"

namespace attest::cli {
namespace {

struct ProbeArguments {
  int threads = 0;
  std::string json_path;
};

void print_rate(const std::string& what, const core::PeakRate& rate, const char* unit,
                const std::string& remark) {
  if (rate.one <= 0) return;
  std::string line =
      fmt::format("{:<16} {:>9} {:>9} {:<8} {}", what, reports::three_digits(rate.one),
                  rate.all > 0 ? reports::three_digits(rate.all) : "", unit, remark);
  line.erase(line.find_last_not_of(' ') + 1);
  fmt::print("{}\n", line);
}

void print_probe(const core::Probe& probe) {
  fmt::print("{:<16} {:>9} {:>9}\n", "", "1 thread",
             probe.threads == 1 ? "1 thread" : fmt::format("{} threads", probe.threads));
  for (const core::ArithmeticPeak& peak : probe.arithmetic)
    print_rate(peak.dtype + " multiply-add", peak.gflops, "GFLOP/s", peak.unit);
  for (const std::string& dtype : probe.lacking())
    fmt::print(
        "{:<16} none: attest found no unit for it that this CPU, this system and this build have\n",
        dtype + " multiply-add");
  print_rate("f32 exp", probe.exp_gps, "Gexp/s", probe.fma().unit);
  for (const core::MemoryLevel& level : probe.levels) {
    const std::string size = level.own_bytes > 0
                                 ? reports::print_bytes(double(level.own_bytes))
                                 : reports::print_bytes(probe.buffer_bytes) + " of buffer";
    print_rate(level.name + " read", level.read_gbs, "GB/s", size);
    print_rate(level.name + " triad", level.triad_gbs, "GB/s", "");
  }
  if (probe.buffer_bytes < 4 * probe.last_level_cache_bytes)
    fmt::print("the figures of memory are partly those of the last-level cache, which has {}\n",
               reports::print_bytes(probe.last_level_cache_bytes));
}

void print_device_limits(const core::DeviceFacts& facts, const core::Probe& limits) {
  fmt::print("\n{}, by its units and highest clocks\n", facts.name);
  for (const core::ArithmeticPeak& peak : limits.arithmetic)
    print_rate(peak.dtype + " multiply-add", {peak.gflops.one}, "GFLOP/s", peak.unit);
  print_rate("memory read", {limits.memory().read_gbs.one}, "GB/s", "");
}

/// Prints the limits of each GPU that is there, and returns them by its kind.
nlohmann::json print_devices() {
  nlohmann::json all = nlohmann::json::object();
  for (const core::DeviceKind& kind : core::device_kinds()) {
    if (!kind.own_memory || !kind.missing().empty()) continue;
    const core::DeviceFacts facts = kind.facts();
    if (const std::optional<core::Probe> limits = core::device_limits(facts)) {
      print_device_limits(facts, *limits);
      all[kind.name] = core::facts(*limits);
    }
  }
  return all;
}

int run(const ProbeArguments& arguments) {
  const auto cpus = int(core::allowed_cpus().size());
  const core::OtherLoad others(core::allowed_cpus());
  const core::Probe probe =
      core::probe_machine(arguments.threads > 0 ? arguments.threads : cpus, core::ProbeDepth::kAll);
  const std::optional<double> busy_cpus = others.busy_cpus();
  print_probe(probe);
  std::fflush(stdout);
  if (const std::string warning = core::load_warning(busy_cpus, cpus); !warning.empty())
    fmt::print(stderr, "attest: warning: {}\n", warning);
  const nlohmann::json devices = print_devices();
  write_json_file("--json", arguments.json_path,
                  {{"type", "probe"},
                   {"limits", facts(probe)},
                   {"devices", devices},
                   {"cpus_of_others", busy_cpus ? nlohmann::json(*busy_cpus) : nullptr}});
  return kOk;
}

}  // namespace

Command add_probe(CLI::App& program) {
  CLI::App* command = program.add_subcommand("probe",
                                             "measure the peak rates of this machine: arithmetic, "
                                             "exp, caches and memory; name those of its "
                                             "GPU");
  auto arguments = std::make_shared<ProbeArguments>();
  command
      ->add_option("--threads", arguments->threads,
                   "threads of the second column (default: all CPUs that this process may use)")
      ->check(CLI::Range(1, 4096).description(""))
      ->type_name("N");
  command->add_option("--json", arguments->json_path, "also write the figures as JSON")
      ->type_name("FILE");
  command->footer(
      "Example: attest probe --json limits.json\n"
      "Other processes that take CPUs meanwhile lower the figures: a warning says so. The header "
      "of the results of a timed run has the same\n"
      "figures but exp and triad, and each timed record its share of the roofline that they make.");
  return [arguments] { return run(*arguments); };
}

}  // namespace attest::cli
