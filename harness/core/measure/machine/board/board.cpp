#include "core/measure/machine/board/board.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "core/datasheets/board_modules.hpp"
#include "core/measure/energy/energy_sensors.hpp"
#include "core/measure/machine/board/board_texts.hpp"
#include "core/measure/machine/files.hpp"

namespace attest::core {
namespace {

namespace fs = std::filesystem;

// Beyond these a number is garbage, or has another unit.
constexpr double kLeastCelsius = -50, kMostCelsius = 150;
constexpr double kMostCount = 1e15;

class BoardReader {
 public:
  BoardReader(const fs::path& root, const std::string& compatible)
      : root_(root), module_(find_module(compatible)), compatible_(compatible) {}

  BoardState read() {
    read_identity();
    read_mode();
    read_gpu();
    read_memory_clock();
    read_cpus();
    read_rails();
    read_heat();
    read_memory_use();
    return std::move(board_);
  }

 private:
  void read_identity() {
    board_.model = read_reading(root_ / "proc/device-tree/model");
    const Reading<std::string> release = read_reading(root_ / "etc/nv_tegra_release");
    board_.l4t = release.value ? parse_l4t(*release.value) : release;
    board_.jetpack = board_.l4t.value ? parse_jetpack(*board_.l4t.value)
                                      : Reading<int64_t>::none(board_.l4t.missing);
    if (module_ && board_.model.value) check_family(*board_.model.value);
    if (!module_ && why_no_module_.empty())
      why_no_module_ = compatible_.empty() ? "compatible: it cannot be read"
                                           : "compatible: it names no module that attest knows";
    board_.module = of_module(&BoardModule::name);
    board_.architecture = of_module(&BoardModule::architecture);
  }

  // A carrier of another vendor has a model of its own; another module's name is a contradiction.
  void check_family(const std::string& model) {
    for (const char* family : {"AGX Orin", "Orin NX", "Orin Nano", "AGX Thor"})
      if (model.find(family) != model.npos && std::string(family) != module_->family) {
        why_no_module_ = fmt::format("compatible names {} and model {}", module_->part, family);
        module_ = nullptr;
        return;
      }
  }

  Reading<std::string> of_module(const char* BoardModule::* text) const {
    if (!module_) return Reading<std::string>::none(why_no_module_);
    return Reading<std::string>::of(module_->*text);
  }

  void read_mode() {
    const Reading<std::string> status = read_reading(root_ / "var/lib/nvpmodel/status");
    board_.mode =
        status.value ? parse_mode_id(*status.value) : Reading<int64_t>::none(status.missing);
    const Reading<std::string> conf = read_reading(root_ / "etc/nvpmodel.conf");
    if (!board_.mode.value)
      board_.mode_name = Reading<std::string>::none(board_.mode.missing);
    else
      board_.mode_name = conf.value ? parse_mode_name(*conf.value, *board_.mode.value) : conf;
  }

  // JetPack 6 and 7 on Orin, JetPack 5; Thor's has no name in the device tree.
  fs::path find_gpu() const {
    for (const fs::path& device : entries_of(root_ / "sys/class/devfreq")) {
      const std::string name = read_text(device / "device/of_node/name");
      if (name == "gpu" || name == "ga10b" || device.filename() == "gpu-gpc-0") return device;
    }
    return {};
  }

  void read_gpu() {
    const fs::path gpu = find_gpu();
    if (gpu.empty()) {
      const char* const why = "devfreq: it has no GPU";
      board_.gpu.now_mhz = board_.gpu.floor_mhz = board_.gpu.cap_mhz = Reading<double>::none(why);
      board_.gpu.locked = Reading<bool>::none(why);
      board_.gpu_governor = Reading<std::string>::none(why);
    } else {
      const double most = module_ ? 1.01 * module_->gpu_mhz : kMostMhz;
      const std::string what = fmt::format("the clock of a GPU{}", of_this_module());
      board_.gpu.now_mhz = read_clock(gpu / "cur_freq", kHertz, most, what);
      board_.gpu.floor_mhz = read_clock(gpu / "min_freq", kHertz, most, what);
      board_.gpu.cap_mhz = read_clock(gpu / "max_freq", kHertz, most, what);
      board_.gpu.locked = locked_between(board_.gpu.floor_mhz, board_.gpu.cap_mhz);
      board_.gpu_governor = read_reading(gpu / "governor");
    }
    read_mask(gpu);
  }

  void read_mask(const fs::path& gpu) {
    std::vector<fs::path> folders{root_ / "sys/devices/platform/gpu.0",
                                  root_ / "sys/devices/gpu.0"};
    if (!gpu.empty()) folders.push_back(gpu / "device");
    Reading<std::string> mask;
    for (const fs::path& folder : folders) {
      mask = read_reading(folder / "tpc_pg_mask");
      std::error_code error;
      if (mask.value || fs::exists(folder / "tpc_pg_mask", error)) break;
    }
    if (!mask.value)
      board_.multiprocessors = Reading<int64_t>::none(mask.missing);
    else if (!module_)
      board_.multiprocessors = Reading<int64_t>::none(why_no_module_);
    else
      board_.multiprocessors = parse_mask(*mask.value, module_->multiprocessors);
  }

  // Thor's lies among the clocks of devfreq, Orin's in a folder that only root may read. The cap
  // that the power mode sets can be read by all.
  void read_memory_clock() {
    const fs::path orin = root_ / "sys/kernel/debug/bpmp/debug/clk/emc",
                   thor = root_ / "sys/class/devfreq/bwmgr";
    const bool is_thor = !entries_of(thor).empty();
    const double most = module_ ? 1.01 * module_->memory_mhz : kMostMhz;
    const std::string what = fmt::format("the clock of the memory{}", of_this_module());
    MachineClock& clock = board_.memory;
    clock.now_mhz = read_clock(is_thor ? thor / "cur_freq" : orin / "rate", kHertz, most, what);
    clock.floor_mhz =
        read_clock(is_thor ? thor / "min_freq" : orin / "min_rate", kHertz, most, what);
    clock.cap_mhz = read_clock(is_thor ? thor / "max_freq" : orin / "max_rate", kHertz, most, what);
    for (const char* file : {"sys/kernel/nvpmodel_emc_cap/emc_iso_cap",  // JetPack 5
                             "sys/kernel/nvpmodel_clk_cap/emc"}) {       // JetPack 6 and 7
      std::error_code error;
      if (!fs::exists(root_ / file, error)) continue;
      const Reading<double> raw = read_value(root_ / file);
      if (raw.value && *raw.value == 0) continue;  // the mode sets none
      const Reading<double> cap = within(raw, kHertz, kLeastMhz, most, "MHz", what);
      if (!clock.cap_mhz.value || !cap.value || *cap.value < *clock.cap_mhz.value)
        clock.cap_mhz = cap;
    }
    clock.locked = memory_locked(is_thor ? fs::path() : orin / "mrq_rate_locked");
    board_.memory_gbs = bandwidth(clock.now_mhz);
    board_.memory_cap_gbs = bandwidth(clock.cap_mhz);
  }

  // A busy memory may be at its cap by chance, so its lock counts where it can be read.
  Reading<bool> memory_locked(const fs::path& lock) const {
    for (const Reading<double>& one : {board_.memory.now_mhz, board_.memory.cap_mhz})
      if (!one.value) return Reading<bool>::none(one.missing);
    const bool at_cap = *board_.memory.now_mhz.value >= 0.999 * *board_.memory.cap_mhz.value;
    if (lock.empty()) return Reading<bool>::of(at_cap);
    return read_value(lock).then([&](double value) { return value != 0 && at_cap; });
  }

  // Two transfers a clock.
  Reading<double> bandwidth(const Reading<double>& mhz) const {
    if (mhz.value && !module_) return Reading<double>::none(why_no_module_);
    return mhz.then([&](double value) { return value * 1e-3 * 2 * module_->bus_bytes; });
  }

  void read_cpus() {
    CpuClocks cpus = read_cpu_clocks(root_, module_ ? 1.01 * module_->cpu_mhz : kMostMhz,
                                     fmt::format("the clock of a CPU{}", of_this_module()));
    board_.cpu = std::move(cpus.clock);
    board_.cpu_governor = std::move(cpus.governor);
  }

  void read_rails() {
    board_.watts = Reading<double>::none("hwmon: no sensor measures the whole board");
    for (const EnergySensor& sensor : find_energy_sensors(root_, false)) {
      const EnergyReading power = sensor.read();
      const Reading<double> watts =
          power.watts ? Reading<double>::of(*power.watts) : Reading<double>::none(power.refusal);
      board_.rail_watts.emplace(sensor.name, watts);
      if (sensor.covers == kWholeBoard) board_.watts = watts;
    }
  }

  void read_heat() {
    for (const fs::path& one : entries_of(root_ / "sys/class/thermal")) {
      const std::string file = one.filename().string();
      std::string type = read_text(one / "type");
      if (file.starts_with("thermal_zone")) {
        if (type.empty()) type = file;
        while (board_.celsius.contains(type)) type += '+';  // several zones of one type
        board_.celsius[type] = within(read_value(one / "temp"), 1e-3, kLeastCelsius, kMostCelsius,
                                      "C", "a temperature");
      } else if (type.ends_with("throttle-alert")) {
        while (board_.throttling.contains(type)) type += '+';
        board_.throttling[type] =
            read_value(one / "cur_state").then([](double state) { return state > 0; });
      }
    }
    for (const fs::path& monitor :
         entries_of(root_ / "sys/devices/platform/soctherm-oc-event/hwmon"))
      for (const int event : {1, 2, 3})
        board_.over_current[event] =
            within(read_value(monitor / fmt::format("oc{}_event_cnt", event)), 1, 0, kMostCount,
                   "events", "a count")
                .then([](double count) { return int64_t(count); });
    if (board_.over_current.empty())
      for (const int event : {1, 2, 3})
        board_.over_current[event] =
            Reading<int64_t>::none("soctherm-oc-event: it has no counters here");
  }

  // A line "NvMapMemUsed:  805068 kB".
  Reading<int64_t> memory_line(const std::string& text, const char* key) const {
    const std::vector<std::string> words = words_of(value_of(text, key, ':'));
    if (words.empty()) return Reading<int64_t>::none(fmt::format("meminfo: it has no {}", key));
    const Reading<double> kib = parse_value(words.front());
    if (!kib.value || *kib.value < 0 || *kib.value > kMostCount || words.size() != 2 ||
        words[1] != "kB")
      return Reading<int64_t>::none(fmt::format("meminfo: {} is no size in kB", key));
    return Reading<int64_t>::of(int64_t(*kib.value) * 1024);
  }

  void read_memory_use() {
    const Reading<std::string> info = read_reading(root_ / "proc/meminfo");
    if (!info.value) {
      board_.nvmap_bytes = board_.carveout_bytes = Reading<int64_t>::none(info.missing);
      return;
    }
    board_.nvmap_bytes = memory_line(*info.value, "NvMapMemUsed");
    const Reading<int64_t> total = memory_line(*info.value, "MemTotal");
    if (!total.value || !module_) {
      board_.carveout_bytes = Reading<int64_t>::none(total.value ? why_no_module_ : total.missing);
      return;
    }
    const int64_t all = int64_t(module_->memory_gib) << 30;
    board_.carveout_bytes =
        *total.value > all || *total.value < all / 2
            ? Reading<int64_t>::none(fmt::format("MemTotal of {} MiB is not that of {}",
                                                 *total.value >> 20, module_->name))
            : Reading<int64_t>::of(all - *total.value);
  }

  std::string of_this_module() const {
    return module_ ? fmt::format(" of {}", module_->name) : std::string();
  }

  const fs::path& root_;
  const BoardModule* module_;
  const std::string& compatible_;
  std::string why_no_module_;
  BoardState board_;
};

}  // namespace

std::optional<BoardState> read_board(const fs::path& root) {
  const std::string compatible = read_text(root / "proc/device-tree/compatible");
  std::error_code error;
  if (!is_tegra(compatible) && !fs::exists(root / "etc/nv_tegra_release", error))
    return std::nullopt;
  return BoardReader(root, compatible).read();
}

Reading<std::string> power_mode(const BoardState& board) {
  return board.mode.then([&](int64_t id) {
    return board.mode_name.value ? fmt::format("{} ({})", id, *board.mode_name.value)
                                 : std::to_string(id);
  });
}

}  // namespace attest::core
