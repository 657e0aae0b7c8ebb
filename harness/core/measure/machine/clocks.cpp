#include "core/measure/machine/clocks.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "core/measure/machine/affinity.hpp"

namespace attest::core {
namespace {

namespace fs = std::filesystem;

// What cannot be read of one CPU is not known of all.
template <class T, class Of>
void join(Reading<T>& all, const Reading<T>& one, const Of& of) {
  if (!one.value) all = one;
  if (all.value) all.value = of(*all.value, *one.value);
}

std::string print_range(const MachineClock& clock) {
  const auto &now = clock.now_mhz.value, &floor = clock.floor_mhz.value, &cap = clock.cap_mhz.value;
  if (floor && cap && *floor < *cap) return fmt::format("{:.0f} to {:.0f} MHz", *floor, *cap);
  if (now && cap) return fmt::format("it is at {:.0f} MHz, its cap is {:.0f}", *now, *cap);
  return "its governor may change it";
}

}  // namespace

Reading<double> read_clock(const fs::path& file, double unit_mhz, double most_mhz,
                           std::string_view what) {
  return within(read_value(file), unit_mhz, kLeastMhz, most_mhz, "MHz", what);
}

Reading<bool> locked_between(const Reading<double>& floor, const Reading<double>& cap) {
  for (const Reading<double>& one : {floor, cap})
    if (!one.value) return Reading<bool>::none(one.missing);
  return Reading<bool>::of(*floor.value >= *cap.value);
}

CpuClocks read_cpu_clocks(const fs::path& root, double most_mhz, std::string_view what) {
  const char* const why = "cpufreq: no CPU has its files";
  const auto none = Reading<double>::none(why);
  CpuClocks all{{none, none, none, Reading<bool>::none(why)}, Reading<std::string>::none(why)};
  std::set<std::string> governors;
  bool first = true;
  for (const fs::path& cpu : cpus_on(root)) {
    std::error_code error;
    if (!fs::is_directory(cpu / "cpufreq", error)) continue;
    const auto clock = [&](const char* file) {
      return read_clock(cpu / "cpufreq" / file, kKilohertz, most_mhz, what);
    };
    MachineClock one{
        clock("scaling_cur_freq"), clock("scaling_min_freq"), clock("scaling_max_freq"), {}};
    one.locked = locked_between(one.floor_mhz, one.cap_mhz);
    const Reading<std::string> governor = read_reading(cpu / "cpufreq/scaling_governor");
    if (governor.value) governors.insert(*governor.value);
    if (first) all = {one, governor};
    first = false;
    const auto least = [](double a, double b) { return std::min(a, b); };
    join(all.clock.now_mhz, one.now_mhz, least);
    join(all.clock.floor_mhz, one.floor_mhz, least);
    join(all.clock.cap_mhz, one.cap_mhz, [](double a, double b) { return std::max(a, b); });
    join(all.clock.locked, one.locked, [](bool a, bool b) { return a && b; });
    join(all.governor, governor, [&](const std::string&, const std::string&) {
      return fmt::format("{}", fmt::join(governors, " "));
    });
  }
  return all;
}

std::string why_unlocked(std::string_view name, const MachineClock& clock) {
  if (!clock.locked.value)
    return fmt::format("the clock of the {} cannot be seen ({})", name, clock.locked.missing);
  if (*clock.locked.value) return {};
  return fmt::format("the clock of the {} is not locked: {}", name, print_range(clock));
}

}  // namespace attest::core
