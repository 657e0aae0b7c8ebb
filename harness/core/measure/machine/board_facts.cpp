// What is told of a board's state: as keys and texts, and which clocks are not locked.
#include <fmt/format.h>

#include <algorithm>

#include "core/measure/machine/board.hpp"

namespace attest::core {
namespace {

// A key of a record: "CPU-therm" -> "cpu_therm".
std::string key_of(const std::string& name) {
  std::string key = name;
  for (char& c : key) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '+';
    if (c >= 'A' && c <= 'Z')
      c = char(c - 'A' + 'a');
    else if (!plain)
      c = '_';
  }
  return key;
}

class Teller {
 public:
  template <class T>
  void operator()(const std::string& key, const Reading<T>& reading) {
    if (reading.value)
      facts_.known[key] = print(*reading.value);
    else
      facts_.missing[key] = reading.missing;
  }
  void clock(const std::string& name, const BoardClock& clock) {
    (*this)(name + "_mhz", clock.now_mhz);
    (*this)(name + "_floor_mhz", clock.floor_mhz);
    (*this)(name + "_cap_mhz", clock.cap_mhz);
    (*this)(name + "_locked", clock.locked);
  }
  template <class Name, class T>
  void each(const std::string& prefix, const std::map<Name, Reading<T>>& readings) {
    for (const auto& [name, reading] : readings)
      (*this)(prefix + key_of(fmt::format("{}", name)), reading);
  }
  BoardFacts take() { return std::move(facts_); }

 private:
  static std::string print(const std::string& text) { return text; }
  static std::string print(bool value) { return value ? "yes" : "no"; }
  static std::string print(double value) { return fmt::format("{:.6g}", value); }
  static std::string print(int64_t value) { return std::to_string(value); }

  BoardFacts facts_;
};

std::string print_range(const BoardClock& clock) {
  if (clock.floor_mhz.value && clock.cap_mhz.value && *clock.floor_mhz.value < *clock.cap_mhz.value)
    return fmt::format("{:.0f} to {:.0f} MHz", *clock.floor_mhz.value, *clock.cap_mhz.value);
  if (clock.now_mhz.value && clock.cap_mhz.value)
    return fmt::format("it is at {:.0f} MHz, and {:.0f} are allowed", *clock.now_mhz.value,
                       *clock.cap_mhz.value);
  return "its governor may change it";
}

}  // namespace

BoardFacts facts(const BoardState& board) {
  Teller tell;
  tell("model", board.model), tell("module", board.module);
  tell("architecture", board.architecture);
  tell("l4t", board.l4t), tell("jetpack", board.jetpack);
  tell("power_mode", power_mode(board));
  if (board.mode.value && !board.mode_name.value) tell("power_mode_name", board.mode_name);
  tell("multiprocessors", board.multiprocessors);
  tell.clock("gpu", board.gpu), tell.clock("memory", board.memory), tell.clock("cpu", board.cpu);
  tell("gpu_governor", board.gpu_governor), tell("cpu_governor", board.cpu_governor);
  tell("memory_gbs", board.memory_gbs), tell("memory_cap_gbs", board.memory_cap_gbs);
  tell("watts", board.watts);
  tell.each("watts_", board.rail_watts), tell.each("celsius_", board.celsius);
  tell.each("throttling_", board.throttling);
  tell.each("over_current_", board.over_current);
  tell("nvmap_bytes", board.nvmap_bytes), tell("carveout_bytes", board.carveout_bytes);
  return tell.take();
}

std::vector<std::string> unlocked_clocks(const BoardState& board) {
  std::vector<std::string> sentences;
  for (const auto& [name, clock] :
       {std::pair{"GPU", &board.gpu}, {"memory", &board.memory}, {"CPUs", &board.cpu}}) {
    if (!clock->locked.value)
      sentences.push_back(
          fmt::format("the clock of the {} cannot be seen ({})", name, clock->locked.missing));
    else if (!*clock->locked.value)
      sentences.push_back(
          fmt::format("the clock of the {} is not locked: {}", name, print_range(*clock)));
  }
  return sentences;
}

}  // namespace attest::core
