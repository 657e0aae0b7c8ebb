#include "core/measure/environment.hpp"

#include <dlfcn.h>
#include <fmt/format.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>

#include "core/measure/affinity.hpp"
#include "core/measure/build_info.hpp"
#include "core/measure/memory.hpp"

namespace attest::core {
namespace {

namespace fs = std::filesystem;

std::string read_text(const fs::path& path) {
  std::ifstream in(path);
  std::string text((std::istreambuf_iterator<char>(in)), {});
  while (!text.empty() && (text.back() == '\n' || text.back() == '\0' || text.back() == ' ')) text.pop_back();
  return text;
}

// "always [madvise] never" -> "madvise".
std::string chosen(const std::string& text) {
  const size_t open = text.find('['), close = text.find(']');
  return open == text.npos || close == text.npos ? text : text.substr(open + 1, close - open - 1);
}

std::string value_of(const std::string& text, const std::string& key, char separator) {
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    const size_t at = line.find(separator);
    if (at == line.npos || line.compare(0, key.size(), key) != 0) continue;
    const std::string name = line.substr(0, line.find_last_not_of(" \t", at - 1) + 1);
    const size_t start = line.find_first_not_of(" \t\"", at + 1);
    if (name == key && start != line.npos) return line.substr(start, line.find_last_not_of(" \"") + 1 - start);
  }
  return {};
}

std::map<std::string, std::string> read_cpu() {
  auto cpu = parse_cpuinfo(read_text("/proc/cpuinfo"));
  cpu["allowed"] = cpu_list(allowed_cpus());
  cpu["configured"] = std::to_string(sysconf(_SC_NPROCESSORS_CONF));
  for (const fs::path base = "/sys/devices/system/cpu/cpu0/cache"; int i : {0, 1, 2, 3, 4}) {
    const fs::path cache = base / fmt::format("index{}", i);
    const std::string level = read_text(cache / "level"), type = read_text(cache / "type"), size = read_text(cache / "size");
    if (!level.empty()) cpu[fmt::format("cache_l{}_{}", level, type)] = size;
  }
  const fs::path frequency = "/sys/devices/system/cpu/cpu0/cpufreq";
  for (const char* key : {"scaling_governor", "scaling_driver", "scaling_min_freq", "scaling_max_freq"})
    if (const std::string text = read_text(frequency / key); !text.empty()) cpu[key] = text;
  if (const std::string text = read_text("/sys/devices/system/cpu/smt/active"); !text.empty()) cpu["smt_active"] = text;
  if (const std::string text = read_text("/sys/devices/system/cpu/intel_pstate/no_turbo"); !text.empty()) cpu["no_turbo"] = text;
  if (const std::string text = read_text("/sys/devices/system/cpu/cpufreq/boost"); !text.empty()) cpu["boost"] = text;
  return cpu;
}

std::map<std::string, std::string> read_system() {
  std::map<std::string, std::string> system;
  utsname names{};
  uname(&names);
  system["kernel"] = names.release, system["architecture"] = names.machine;
  system["os"] = value_of(read_text("/etc/os-release"), "PRETTY_NAME", '=');
  system["transparent_hugepages"] = chosen(read_text("/sys/kernel/mm/transparent_hugepage/enabled"));
  system["aslr"] = read_text("/proc/sys/kernel/randomize_va_space");
  if (const std::string board = read_text("/proc/device-tree/model"); !board.empty()) system["board"] = board;
  if (const std::string tegra = read_text("/etc/nv_tegra_release"); !tegra.empty()) system["l4t"] = tegra.substr(0, tegra.find('\n'));
  std::erase_if(system, [](const auto& entry) { return entry.second.empty(); });
  return system;
}

bool loads(const char* library) {
  void* handle = dlopen(library, RTLD_LAZY | RTLD_LOCAL);
  if (handle) dlclose(handle);
  return handle != nullptr;
}

}  // namespace

std::map<std::string, std::string> parse_cpuinfo(const std::string& text) {
  std::map<std::string, std::string> cpu;
  for (const auto& [key, source] : {std::pair{"vendor", "vendor_id"}, {"model", "model name"}, {"family", "cpu family"}, {"model_number", "model"}, {"stepping", "stepping"},
                                    {"implementer", "CPU implementer"}, {"part", "CPU part"}})
    if (const std::string value = value_of(text, source, ':'); !value.empty()) cpu[key] = value;
  std::string flags = value_of(text, "flags", ':');
  if (flags.empty()) flags = value_of(text, "Features", ':');  // Arm
  std::istringstream words(flags);
  const std::set<std::string> have{std::istream_iterator<std::string>(words), {}};
  std::string features;
  for (const char* flag : {"sse4_2", "avx2", "fma", "f16c", "avx512f", "avx512bw", "avx512vl", "avx512_bf16", "avx512_fp16", "avx512_vnni", "amx_tile", "amx_bf16", "amx_fp16", "asimd", "fphp", "asimdhp", "asimddp", "sve", "bf16", "i8mm"})
    if (have.count(flag)) features += (features.empty() ? "" : " ") + std::string(flag);
  if (!features.empty()) cpu["features"] = features;
  cpu["virtual"] = have.count("hypervisor") ? "yes" : "no";
  return cpu;
}

Environment read_environment() {
  const MachineMemory memory = read_memory();
  Environment environment;
  environment["cpu"] = read_cpu();
  environment["system"] = read_system();
  environment["memory"] = {{"total_bytes", std::to_string(memory.total_bytes)}, {"available_bytes", std::to_string(memory.available_bytes)}};
  environment["build"] = build_info();
  environment["libraries"] = library_versions();
  environment["state"] = read_machine_state();
  return environment;
}

std::map<std::string, std::string> read_machine_state() {
  std::map<std::string, std::string> state;
  const std::string load = read_text("/proc/loadavg");
  state["load_1min"] = load.substr(0, load.find(' '));
  if (const std::string mhz = value_of(read_text("/proc/cpuinfo"), "cpu MHz", ':'); !mhz.empty()) state["cpu0_mhz"] = mhz;
  // Field 8 of the cpu line: time that the hypervisor gave to others, in ticks.
  std::istringstream stat(read_text("/proc/stat"));
  std::vector<std::string> fields{std::istream_iterator<std::string>(stat), {}};
  if (fields.size() > 8) state["steal_ticks"] = fields[8];
  std::error_code error;
  for (const fs::directory_entry& zone : fs::directory_iterator("/sys/class/thermal", error)) {
    const std::string type = read_text(zone.path() / "type"), milli = read_text(zone.path() / "temp");
    if (!type.empty() && !milli.empty()) state["millidegrees_" + type] = milli;
  }
  return state;
}

std::vector<Finding> diagnose() {
  using Kind = Finding::Kind;
  std::vector<Finding> findings;
  const auto cpu = read_cpu();
  auto get = [](const auto& map, const char* key) { return map.count(key) ? map.at(key) : std::string(); };
  findings.push_back({Kind::kOk, "cpu", fmt::format("{}; {}; may use {}", get(cpu, "model"), get(cpu, "features"), get(cpu, "allowed")), ""});
  const std::string governor = get(cpu, "scaling_governor");
  if (governor.empty()) findings.push_back({Kind::kNote, "frequency governor", "not visible", get(cpu, "virtual") == "yes" ? "a virtual machine: clocks belong to the host, compare only what ran side by side" : ""});
  else findings.push_back({governor == "performance" ? Kind::kOk : Kind::kNote, "frequency governor", governor, governor == "performance" ? "" : "as root: cpupower frequency-set -g performance"});
  const MachineMemory memory = read_memory();
  findings.push_back({Kind::kOk, "memory", fmt::format("{:.1f} of {:.1f} GiB available", double(memory.available_bytes) / double(1u << 30), double(memory.total_bytes) / double(1u << 30)), ""});
  findings.push_back(PeakMemory().available() ? Finding{Kind::kOk, "peak memory", "the kernel's high-water mark can be reset", ""}
                                              : Finding{Kind::kMissing, "peak memory", "/proc/self/clear_refs cannot be written", "mount /proc writable; peaks are left out of records until then"});
  const std::string pages = chosen(read_text("/sys/kernel/mm/transparent_hugepage/enabled"));
  findings.push_back({pages == "never" ? Kind::kNote : Kind::kOk, "transparent huge pages", pages.empty() ? "not visible" : pages, pages == "never" ? "as root: echo madvise > /sys/kernel/mm/transparent_hugepage/enabled" : ""});
  const double load = std::atof(read_machine_state()["load_1min"].c_str());
  findings.push_back({load > 0.5 ? Kind::kNote : Kind::kOk, "load", fmt::format("{:.2f}", load), load > 0.5 ? "something else is running: times will spread" : ""});
  for (const auto& [name, version] : library_versions()) findings.push_back({Kind::kOk, name, version, ""});
  findings.push_back(loads("libcuda.so.1") ? Finding{Kind::kOk, "CUDA driver", "present", ""} : Finding{Kind::kMissing, "CUDA driver", "libcuda.so.1 does not load", "install NVIDIA's driver; needed only for CUDA implementations"});
  findings.push_back(loads("libnvidia-ml.so.1") ? Finding{Kind::kOk, "NVML", "present", ""} : Finding{Kind::kMissing, "NVML", "libnvidia-ml.so.1 does not load", "comes with NVIDIA's driver; optional"});
  return findings;
}

}  // namespace attest::core
