// What is told of a board's state: as keys and texts, and which clocks are not locked.
#include <fmt/format.h>

#include <algorithm>

#include "core/measure/machine/board/board.hpp"

namespace attest::core {
namespace {

namespace fs = std::filesystem;

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
  void clock(const std::string& name, const MachineClock& clock) {
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

}  // namespace

BoardFacts facts(const BoardState& board) {
  Teller tell;
  tell("model", board.model);
  tell("module", board.module);
  tell("architecture", board.architecture);
  tell("l4t", board.l4t);
  tell("jetpack", board.jetpack);
  tell("power_mode", power_mode(board));
  if (board.mode.value && !board.mode_name.value) tell("power_mode_name", board.mode_name);
  tell("multiprocessors", board.multiprocessors);
  tell.clock("gpu", board.gpu);
  tell.clock("memory", board.memory);
  tell.clock("cpu", board.cpu);
  tell("gpu_governor", board.gpu_governor);
  tell("cpu_governor", board.cpu_governor);
  tell("memory_gbs", board.memory_gbs);
  tell("memory_cap_gbs", board.memory_cap_gbs);
  tell("watts", board.watts);
  tell.each("watts_", board.rail_watts);
  tell.each("celsius_", board.celsius);
  tell.each("throttling_", board.throttling);
  tell.each("over_current_", board.over_current);
  tell("nvmap_bytes", board.nvmap_bytes);
  tell("carveout_bytes", board.carveout_bytes);
  return tell.take();
}

BoardFacts changing_facts(const BoardState& board) {
  BoardFacts changing = facts(board);
  for (std::map<std::string, std::string>* part : {&changing.known, &changing.missing})
    std::erase_if(*part, [](const auto& fact) {
      const std::string& key = fact.first;
      return key == "model" || key == "module" || key == "architecture" || key == "l4t" ||
             key == "jetpack" || key == "carveout_bytes" || key.starts_with("watts_");
    });
  return changing;
}

std::vector<std::string> unlocked_clocks(const BoardState& board) {
  std::vector<std::string> sentences;
  for (const auto& [name, clock] :
       {std::pair{"GPU", &board.gpu}, {"memory", &board.memory}, {"CPUs", &board.cpu}})
    if (std::string why = why_unlocked(name, *clock); !why.empty())
      sentences.push_back(std::move(why));
  return sentences;
}

UnlockedClocks find_unlocked_clocks(const fs::path& root) {
  if (const std::optional<BoardState> board = read_board(root)) {
    const std::string mode = board->mode.value ? fmt::format("{}", *board->mode.value) : "ID";
    return {unlocked_clocks(*board),
            fmt::format("sudo nvpmodel -m {} && sudo jetson_clocks{}", mode,
                        board->memory.locked.value
                            ? ""
                            : ", and run attest as root, who alone sees the memory's clock")};
  }
  const std::string cpus = why_unlocked("CPUs", read_cpu_clocks(root).clock);
  if (cpus.empty()) return {};
  return {{cpus}, "sudo cpupower frequency-set -d F -u F, with one frequency F that all CPUs hold"};
}

}  // namespace attest::core
