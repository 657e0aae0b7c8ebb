#include "core/measure/machine/doctor/doctor.hpp"

#include <fmt/format.h>
#include <linux/perf_event.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdlib>
#include <optional>

#include "abi/attest.h"
#include "core/device/cuda/cuda_code.hpp"
#include "core/device/device_kinds.hpp"
#include "core/measure/machine/build_info.hpp"
#include "core/measure/machine/doctor/board_doctor.hpp"
#include "core/measure/machine/environment.hpp"
#include "core/measure/machine/files.hpp"
#include "core/measure/machine/machine_state.hpp"
#include "core/measure/machine/memory.hpp"

namespace attest::core {
namespace {

namespace fs = std::filesystem;
using Kind = Finding::Kind;

std::string get(const Facts& facts, const char* key) {
  const auto at = facts.find(key);
  return at == facts.end() ? std::string() : at->second;
}

double gib(uint64_t bytes) { return double(bytes) / double(1u << 30); }

// One line for a setting: fine where it is `good` (or anything, where that is empty), else noted
// with the advice.
Finding setting(const char* what, const std::string& found, bool good, const char* advice) {
  return {good ? Kind::kOk : Kind::kNote, what, found, good ? "" : advice};
}

// Model, instructions, and the CPUs that this process may use; of a board that has no model's name,
// its own.
Finding diagnose_cpu(const Facts& cpu, const Facts& system) {
  const std::string model = get(cpu, "model").empty() ? get(system, "board") : get(cpu, "model"),
                    features = get(cpu, "features");
  return {Kind::kOk, "cpu",
          fmt::format("{}{}; may use {}", model.empty() ? "unknown" : model,
                      features.empty() ? "" : "; " + features, get(cpu, "allowed")),
          ""};
}

void diagnose_governor(const std::string& governor, bool virtual_machine,
                       std::vector<Finding>& findings) {
  if (!governor.empty())
    findings.push_back(setting("frequency governor", governor, governor == "performance",
                               "as root: cpupower frequency-set -g performance"));
  else if (!virtual_machine)
    findings.push_back({Kind::kNote, "frequency governor", "not visible",
                        "this kernel does not scale clocks, or hides it"});
}

void diagnose_clocks(const Facts& cpu, bool is_board, std::vector<Finding>& findings) {
  const bool virtual_machine = get(cpu, "virtual") == "yes";
  if (virtual_machine)
    findings.push_back(
        {Kind::kNote, "virtual machine", "yes",
         "the clocks are the host's, and neighbours share it: compare only what ran side by side"});
  const std::string turbo = get(cpu, "turbo"), smt = get(cpu, "smt");
  // jetson_clocks leaves a board's governor as it is and takes its choice away.
  if (!is_board) diagnose_governor(get(cpu, "governor"), virtual_machine, findings);
  if (!turbo.empty())
    findings.push_back(setting(
        "turbo", turbo, turbo == "off",
        "clocks depend on temperature and on what else runs; for steady times, as root: echo 1 > "
        "/sys/devices/system/cpu/intel_pstate/no_turbo, "
        "elsewhere echo 0 > /sys/devices/system/cpu/cpufreq/boost"));
  if (!smt.empty())
    findings.push_back(
        setting("hardware threads (SMT)", smt, smt == "off",
                "two threads share a core: time with at most one thread a core (--threads)"));
}

void diagnose_load(const fs::path& root, std::vector<Finding>& findings) {
  const MachineState state = read_machine_state(root);
  const double load = state.load_1min.value_or(0);
  findings.push_back(setting("load", fmt::format("{:.2f}", load), load <= 0.5,
                             "something else is running: times will spread"));
  if (state.total_ticks > 0 && state.steal_ticks > 0) {
    const double stolen = 100.0 * double(state.steal_ticks) / double(state.total_ticks);
    findings.push_back(setting("stolen CPU time", fmt::format("{:.2f} % since boot", stolen),
                               stolen < 0.5,
                               "the host gives this machine's CPUs to others: times will spread"));
  }
  if (state.throttle_events > 0)
    findings.push_back({Kind::kNote, "throttling",
                        fmt::format("{} events since boot", state.throttle_events),
                        "cool the machine, or choose a power mode that it can hold"});
}

void diagnose_memory(const fs::path& root, std::vector<Finding>& findings) {
  const MachineMemory memory = read_memory(root);
  findings.push_back({Kind::kOk, "memory",
                      fmt::format("{:.1f} of {:.1f} GiB available", gib(memory.available_bytes),
                                  gib(memory.total_bytes)),
                      ""});
  findings.push_back(setting("swap in use", fmt::format("{:.1f} GiB", gib(memory.swap_used_bytes)),
                             memory.swap_used_bytes < (64u << 20),
                             "memory is short: close what else runs, or as root: swapoff -a"));
}

// Whether this process may count its own cycles.
bool counts_cycles() {
  perf_event_attr attributes{};
  attributes.size = sizeof(attributes);
  attributes.type = PERF_TYPE_HARDWARE;
  attributes.config = PERF_COUNT_HW_CPU_CYCLES;
  attributes.disabled = 1;
  attributes.exclude_kernel = 1;
  attributes.exclude_hv = 1;
  const long counter = syscall(SYS_perf_event_open, &attributes, 0, -1, -1, 0);
  if (counter >= 0) close(int(counter));
  return counter >= 0;
}

Finding diagnose_device(const DeviceKind& kind) {
  if (const std::string missing = kind.missing(); !missing.empty())
    return {Kind::kMissing, kind.title, missing, kind.advice};
  const DeviceFacts facts = kind.facts();
  return {Kind::kOk, kind.title,
          fmt::format("{}: {}, {} multiprocessors, {:.1f} GiB, {} MiB of L2; the driver knows {}",
                      facts.name, facts.architecture, facts.multiprocessors,
                      gib(facts.memory_bytes), facts.cache_bytes >> 20, facts.driver),
          ""};
}

Finding diagnose_golden(const DeviceKind& kind) {
  const std::string what = fmt::format("{} goldens", kind.title);
  if (const std::string missing = kind.golden_missing(); !missing.empty())
    return {Kind::kNote, what, missing,
            "optional: goldens of large cases are made on more rows where there is a device, and "
            "nvcc was at the build"};
  return {Kind::kOk, what,
          fmt::format("at most {:.3g} float64 multiply-adds a second",
                      kind.golden()->multiply_adds_per_s()),
          ""};
}

Finding diagnose_monitor(const DeviceKind& kind) {
  if (const std::string missing = kind.monitor_missing(); !missing.empty())
    return {Kind::kMissing, kind.monitor, missing,
            "comes with the device's driver; optional, and absent on Jetson"};
  const Facts state = facts(kind.state());
  std::string text = state.empty() ? "present, but says nothing of this device" : "";
  for (const auto& [key, value] : state)
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", key, value);
  return setting(kind.monitor, text, !state.contains("held_down_by"),
                 "the device's clocks are held down: cool it, or raise its limit");
}

}  // namespace

std::vector<Finding> diagnose_machine(const fs::path& root) {
  std::vector<Finding> findings;
  const Facts cpu = read_cpu(root), system = read_system(root);
  const std::optional<BoardState> board = read_board(root);
  findings.push_back(diagnose_cpu(cpu, system));
  diagnose_clocks(cpu, board.has_value(), findings);
  diagnose_load(root, findings);
  diagnose_memory(root, findings);
  const std::string pages = get(system, "transparent_hugepages"),
                    clock = get(system, "clock_source");
  if (!pages.empty())
    findings.push_back(setting("transparent huge pages", pages, pages != "never",
                               "timed tensors lie in small pages; as root: echo madvise > "
                               "/sys/kernel/mm/transparent_hugepage/enabled"));
  if (!clock.empty()) {
    const bool fast = clock == "tsc" || clock == "kvm-clock" || clock == "arch_sys_counter" ||
                      clock == "hyperv_clocksource_tsc_page";
    findings.push_back(setting(
        "clock source", clock, fast,
        "reading the time takes a microsecond or more: short runs are timed in blocks only"));
  }
  if (board)
    for (Finding& finding : diagnose_board(*board, root)) findings.push_back(std::move(finding));
  return findings;
}

std::vector<Finding> diagnose_process() {
  std::vector<Finding> findings;
  findings.push_back(
      PeakMemory().available()
          ? Finding{Kind::kOk, "peak memory", "the kernel's high-water mark can be reset", ""}
          : Finding{Kind::kMissing, "peak memory", "/proc/self/clear_refs cannot be written",
                    "make it writable (it is refused in some sandboxes); until then records have "
                    "no measured peak"});
  findings.push_back(
      counts_cycles() ? Finding{Kind::kOk, "performance counters", "cycles can be counted", ""}
                      : Finding{Kind::kMissing, "performance counters", "cycles cannot be counted",
                                "as root: sysctl kernel.perf_event_paranoid=2; virtual machines "
                                "and containers often have none. Optional"});
  rlimit locked{};
  getrlimit(RLIMIT_MEMLOCK, &locked);
  const bool enough = locked.rlim_cur == RLIM_INFINITY || locked.rlim_cur >= (rlim_t{1} << 30);
  findings.push_back(
      {enough ? Kind::kOk : Kind::kNote, "locked memory",
       locked.rlim_cur == RLIM_INFINITY ? "no limit" : fmt::format("{} KiB", locked.rlim_cur >> 10),
       enough ? ""
              : "pinned host buffers may be refused: ulimit -l unlimited. Needed only for CUDA"});
  for (const auto& [name, version] : library_versions())
    findings.push_back({Kind::kOk, name, version.empty() ? "present" : version, ""});
  for (const DeviceKind& kind : device_kinds())
    if (kind.own_memory) {
      findings.push_back(diagnose_device(kind));
      if (kind.missing().empty()) findings.push_back(diagnose_golden(kind));
      findings.push_back(diagnose_monitor(kind));
    }
  return findings;
}

std::vector<Finding> diagnose_kernels(const std::vector<fs::path>& plugins,
                                      const std::string& architecture) {
  const std::string number = architecture.substr(architecture.find('_') + 1);
  const std::string remedy = fmt::format(
      "build attest for this device: cmake -DATTEST_CUDA=on "
      "-DATTEST_CUDA_ARCHITECTURES={1}; of another plugin: nvcc -gencode "
      "arch=compute_{0},code=[sm_{0},compute_{0}], which is SASS and PTX",
      number, number == "90" ? "90a" : number);  // flash_cuda's fast kernels need wgmma
  if (plugins.empty())
    return {{Kind::kMissing, "CUDA kernels",
             fmt::format("no kernel for {}: no plugin is for CUDA", architecture), remedy}};
  std::vector<Finding> findings;
  for (const fs::path& plugin : plugins) {
    const std::vector<CudaCode> codes = read_cuda_code(plugin);
    if (codes.empty()) continue;
    const std::string what = fmt::format("kernels of {}", plugin.stem().string()),
                      has = print(codes);
    switch (best_fit(codes, std::atoi(number.c_str()))) {
      case CudaFit::kYes: findings.push_back({Kind::kOk, what, has, ""}); break;
      case CudaFit::kPerhaps:
        findings.push_back({Kind::kNote, what,
                            fmt::format("{}, which {} may take or not", has, architecture),
                            remedy});
        break;
      case CudaFit::kNone:
        findings.push_back({Kind::kMissing, what,
                            fmt::format("no kernel for {}: it has {}", architecture, has), remedy});
    }
  }
  return findings;
}

std::string cuda_architecture() {
  const DeviceKind& cuda = *find_device_kind(ATTEST_CUDA);
  if (cuda.missing().empty()) return cuda.facts().architecture;
  const std::optional<BoardState> board = read_board();
  return board ? board->architecture.value.value_or("") : "";
}

std::vector<Finding> diagnose() {
  std::vector<Finding> findings = diagnose_machine(machine_root());
  for (Finding& finding : diagnose_process()) findings.push_back(std::move(finding));
  return findings;
}

}  // namespace attest::core
