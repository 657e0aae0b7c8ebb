#include "core/measure/machine/environment.hpp"

#include <fmt/format.h>
#include <gnu/libc-version.h>
#include <sys/utsname.h>

#include <set>

#include "core/device/device_kinds.hpp"
#include "core/measure/machine/affinity.hpp"
#include "core/measure/machine/build_info.hpp"
#include "core/measure/machine/caches.hpp"
#include "core/measure/machine/ecc.hpp"
#include "core/measure/machine/files.hpp"
#include "core/measure/machine/machine_state.hpp"
#include "core/measure/machine/memory.hpp"

namespace attest::core {
namespace {

namespace fs = std::filesystem;

// What kernels dispatch on, x86 then Arm, as /proc/cpuinfo spells it.
constexpr const char* kFeatures[] = {
    "sse4_2",   "avx2",     "fma",         "f16c",        "avx_vnni",    "avx512f",
    "avx512bw", "avx512vl", "avx512_bf16", "avx512_fp16", "avx512_vnni", "amx_tile",
    "amx_bf16", "amx_fp16", "asimd",       "fphp",        "asimdhp",     "asimddp",
    "asimdfhm", "sve",      "sve2",        "bf16",        "i8mm"};

void put(Facts& facts, const std::string& key, const std::string& text) {
  if (!text.empty()) facts[key] = text;
}

// The different texts of one file of every CPU that is on, e.g. its governor: "performance", or
// "performance powersave" where they differ.
std::string of_all_cpus(const fs::path& root, const char* file) {
  std::set<std::string> texts;
  for (const fs::path& cpu : cpus_on(root))
    if (const std::string text = read_text(cpu / file); !text.empty()) texts.insert(text);
  return fmt::format("{}", fmt::join(texts, " "));
}

size_t count_cores(const fs::path& root) {
  std::set<std::string> cores;
  for (const fs::path& cpu : cpus_on(root))
    if (const std::string siblings = read_text(cpu / "topology/thread_siblings_list");
        !siblings.empty())
      cores.insert(siblings);
  return cores.size();
}

// "on" or "off"; empty where the system does not say.
std::string turbo(const fs::path& root) {
  const fs::path cpu = root / "sys/devices/system/cpu";
  if (const std::string no_turbo = read_text(cpu / "intel_pstate/no_turbo"); !no_turbo.empty())
    return no_turbo == "0" ? "on" : "off";
  if (const std::string boost = read_text(cpu / "cpufreq/boost"); !boost.empty())
    return boost == "0" ? "off" : "on";
  return {};
}

Facts facts(const Reading<MemoryEcc>& ecc) {
  if (!ecc.value) return {{"ecc", "not known: " + ecc.missing}};
  return {{"ecc", ecc.value->mode},
          {"ecc_corrected", std::to_string(ecc.value->corrected)},
          {"ecc_uncorrected", std::to_string(ecc.value->uncorrected)}};
}

Facts facts(const DeviceFacts& device) {
  return {{"name", device.name},
          {"architecture", device.architecture},
          {"driver", device.driver},
          {"multiprocessors", std::to_string(device.multiprocessors)},
          {"memory_bytes", std::to_string(device.memory_bytes)},
          {"cache_bytes", std::to_string(device.cache_bytes)},
          {"sm_mhz", fmt::format("{:g}", device.sm_mhz)},
          {"memory_gbs", fmt::format("{:g}", device.memory_gbs)}};
}

}  // namespace

Facts parse_cpuinfo(const std::string& text) {
  Facts cpu;
  for (const auto& [key, source] : {std::pair{"vendor", "vendor_id"},
                                    {"model", "model name"},
                                    {"family", "cpu family"},
                                    {"model_number", "model"},
                                    {"stepping", "stepping"},
                                    {"microcode", "microcode"},
                                    {"implementer", "CPU implementer"},
                                    {"part", "CPU part"}})
    put(cpu, key, value_of(text, source, ':'));
  const std::string flags = value_of(text, "flags", ':');
  const std::vector<std::string> words =
      words_of(flags.empty() ? value_of(text, "Features", ':') : flags);
  const std::set<std::string> have(words.begin(), words.end());
  std::string features;
  for (const char* feature : kFeatures) {
    if (!have.contains(feature)) continue;
    if (!features.empty()) features += ' ';
    features += feature;
  }
  put(cpu, "features", features);
  if (!flags.empty()) cpu["virtual"] = have.contains("hypervisor") ? "yes" : "no";
  return cpu;
}

Facts read_cpu(const fs::path& root) {
  Facts cpu = parse_cpuinfo(read_text(root / "proc/cpuinfo"));
  const std::vector<int> allowed = allowed_cpus();
  cpu["allowed"] = cpu_list(allowed);
  const fs::path base = root / "sys/devices/system/cpu";
  if (const size_t threads = parse_cpu_list(read_text(base / "online")).size(); threads > 0)
    cpu["threads"] = std::to_string(threads);
  if (const size_t cores = count_cores(root); cores > 0) cpu["cores"] = std::to_string(cores);
  if (const size_t nodes =
          parse_cpu_list(read_text(root / "sys/devices/system/node/online")).size();
      nodes > 0)
    cpu["numa_nodes"] = std::to_string(nodes);
  put(cpu, "isolated", read_text(base / "isolated"));
  for (const Cache& cache : read_caches(allowed.front(), root)) {
    const std::string name = fmt::format("l{}{}", cache.level,
                                         cache.type == "Data"          ? "d"
                                         : cache.type == "Instruction" ? "i"
                                                                       : "");
    cpu[name + "_bytes"] = std::to_string(cache.size_bytes);
    if (cache.cpus.size() > 1) cpu[name + "_shared_by"] = std::to_string(cache.cpus.size());
  }
  put(cpu, "governor", of_all_cpus(root, "cpufreq/scaling_governor"));
  put(cpu, "frequency_driver", of_all_cpus(root, "cpufreq/scaling_driver"));
  put(cpu, "min_khz", of_all_cpus(root, "cpufreq/scaling_min_freq"));
  put(cpu, "max_khz", of_all_cpus(root, "cpufreq/scaling_max_freq"));
  put(cpu, "base_khz", of_all_cpus(root, "cpufreq/base_frequency"));
  put(cpu, "turbo", turbo(root));
  if (const std::string active = read_text(base / "smt/active"); !active.empty())
    cpu["smt"] = active == "1" ? "on" : "off";
  return cpu;
}

Facts read_system(const fs::path& root) {
  Facts system;
  utsname names{};
  uname(&names);
  system["kernel"] = names.release;
  system["architecture"] = names.machine;
  system["libc"] = fmt::format("glibc {}", gnu_get_libc_version());
  put(system, "os", value_of(read_text(root / "etc/os-release"), "PRETTY_NAME", '='));
  put(system, "transparent_hugepages",
      chosen_of(read_text(root / "sys/kernel/mm/transparent_hugepage/enabled")));
  put(system, "aslr", read_text(root / "proc/sys/kernel/randomize_va_space"));
  put(system, "clock_source",
      read_text(root / "sys/devices/system/clocksource/clocksource0/current_clocksource"));
  put(system, "perf_event_paranoid", read_text(root / "proc/sys/kernel/perf_event_paranoid"));
  put(system, "board", read_text(root / "proc/device-tree/model"));
  if (const std::string tegra = read_text(root / "etc/nv_tegra_release"); !tegra.empty())
    system["l4t"] = tegra.substr(0, tegra.find('\n'));
  if (const std::optional<BoardState> board = read_board(root))
    put(system, "power_mode", power_mode(*board).value.value_or(""));
  return system;
}

Environment read_environment(const fs::path& root) {
  const MachineMemory memory = read_memory(root);
  Environment environment;
  environment["cpu"] = read_cpu(root);
  environment["system"] = read_system(root);
  environment["memory"] = {{"total_bytes", std::to_string(memory.total_bytes)},
                           {"available_bytes", std::to_string(memory.available_bytes)},
                           {"swap_total_bytes", std::to_string(memory.swap_total_bytes)},
                           {"swap_used_bytes", std::to_string(memory.swap_used_bytes)}};
  environment["memory"].merge(facts(read_ecc(root)));
  const MachineState state = read_machine_state(root);
  environment["state"] = facts(state);
  if (state.board) {
    BoardFacts board = facts(*state.board);
    environment["board"] = std::move(board.known);
    environment["board_missing"] = std::move(board.missing);
  }
  environment["build"] = build_info();
  environment["libraries"] = library_versions();
  for (const DeviceKind& kind : device_kinds())
    if (kind.own_memory && kind.missing().empty()) environment[kind.name] = facts(kind.facts());
  return environment;
}

}  // namespace attest::core
