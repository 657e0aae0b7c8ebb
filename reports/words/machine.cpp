#include "reports/words/machine.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <utility>

namespace attest::reports {
namespace {

using core::Record;
using core::Results;
using Facts = std::map<std::string, std::string>;

constexpr const char* kCpu = "cpu";

std::string find(const Facts& facts, const std::string& name) {
  const auto at = facts.find(name);
  return at == facts.end() ? std::string() : at->second;
}

/// A Jetson as it was when a record was measured, or when the run began.
struct Board {
  std::string mode, multiprocessors;
  Facts facts;           // "gpu_locked", "gpu_cap_mhz" ...; empty: it is no board
  bool changed = false;  // since the run began

  /// "clocks locked, GPU up to 918 MHz, CPU up to 1984 MHz". Empty: it is no board.
  std::string clocks() const {
    if (facts.empty()) return {};
    std::string text = "clocks locked";
    for (const char* clock : {"gpu_locked", "memory_locked", "cpu_locked"}) {
      const std::string locked = find(facts, clock);
      if (locked.empty()) text = "clocks locked as far as they can be seen";
      if (locked != "no") continue;
      text = "clocks not locked";
      break;
    }
    for (const auto& [clock, words] :
         {std::pair("gpu_cap_mhz", "GPU"), {"memory_cap_mhz", "memory"}, {"cpu_cap_mhz", "CPU"}})
      if (const std::string cap = find(facts, clock); !cap.empty())
        text += fmt::format(", {} up to {} MHz", words, cap);
    return text;
  }
};

Board board_of(const Results& file) {
  const auto seen = file.header.environment.find("board");
  return {.mode = fact(file, "system", "power_mode"),
          .multiprocessors = fact(file, "board", "multiprocessors"),
          .facts = seen == file.header.environment.end() ? Facts() : seen->second};
}

/// Heat lowers the caps of clocks for a while, which makes no other machine: they are those of the
/// header unless the power mode has changed since.
Board board_of(const Results& file, const Record& record) {
  Board board = board_of(file);
  const std::string mode = power_mode(file, record);
  board.changed = mode != std::exchange(board.mode, mode);
  if (!record.board) return board;
  const Facts& now = record.board->before;
  if (board.changed && !board.facts.empty()) board.facts = now;
  if (const std::string count = find(now, "multiprocessors"); !count.empty())
    board.multiprocessors = count;
  return board;
}

/// A CPU whose kernel gives it no name, as on Arm: "CPU 0x41/0xd4f (aarch64, 72 cores)", with
/// implementer and part. Empty if neither is known.
std::string nameless_cpu(const Results& file) {
  const std::string implementer = fact(file, "cpu", "implementer"),
                    part = fact(file, "cpu", "part"), cores = fact(file, "cpu", "cores"),
                    architecture = fact(file, "system", "architecture");
  if (implementer.empty() && part.empty()) return {};
  std::vector<std::string> rest;
  if (!architecture.empty()) rest.push_back(architecture);
  if (!cores.empty()) rest.push_back(cores + (cores == "1" ? " core" : " cores"));
  return fmt::format("CPU {}/{}{}", implementer, part,
                     rest.empty() ? "" : fmt::format(" ({})", fmt::join(rest, ", ")));
}

std::string words(const Results& file, const std::vector<std::string>& devices,
                  const Board& board) {
  std::vector<std::string> names;
  for (const std::string& device : devices) {
    const bool has = device == kCpu || file.header.environment.contains(device);
    if (!has && devices.size() > 1) continue;
    // The CPU of a Jetson has no name, and the GPUs of all its modules have the same.
    const std::string module = fact(file, "board", "module"),
                      own = fact(file, device, device == kCpu ? "model" : "name"),
                      counted = fact(file, device, "multiprocessors");
    std::string name = !module.empty() ? module : own.empty() ? fact(file, "system", "board") : own;
    if (name.empty() && device == kCpu) name = nameless_cpu(file);
    if (name.empty() && !names.empty()) continue;
    const bool by_board = counted.empty() || (board.changed && !board.multiprocessors.empty());
    if (const std::string& count = by_board ? board.multiprocessors : counted; !count.empty())
      name += fmt::format(" ({} multiprocessors)", count);
    names.push_back(std::move(name));
    if (!module.empty()) break;  // it names them all
  }
  std::string text = fmt::format("{}", fmt::join(names, " with "));
  if (!board.mode.empty()) text += ", power mode " + board.mode;
  if (const std::string clocks = board.clocks(); !clocks.empty()) text += ", " + clocks;
  return text;
}

}  // namespace

std::string fact(const Results& file, const std::string& group, const std::string& name) {
  const auto at = file.header.environment.find(group);
  return at == file.header.environment.end() ? std::string() : find(at->second, name);
}

std::string power_mode(const Results& file, const Record& record) {
  if (!record.board) return fact(file, "system", "power_mode");
  std::string before = find(record.board->before, "power_mode"),
              after = find(record.board->after, "power_mode");
  if (before == after || after.empty()) return before;
  return before.empty() ? after : fmt::format("{}, then {}", before, after);
}

std::vector<std::string> devices_of(std::span<const Results> runs,
                                    const std::set<std::string>& left_out) {
  std::set<std::string> others = left_out;
  for (const Results& run : runs)
    for (const Record& record : run.records) others.insert(record.device);
  others.erase(kCpu);
  others.erase("");
  std::vector<std::string> devices(others.begin(), others.end());
  devices.emplace_back(kCpu);
  return devices;
}

std::string machine(const Results& file, const Record& record) {
  return words(file, {record.device}, board_of(file, record));
}

std::string machine(const Results& file, const Record& record,
                    const std::vector<std::string>& devices) {
  return words(file, devices, board_of(file, record));
}

std::string machine(const Results& file) { return machine(file, devices_of({&file, 1})); }

std::string machine(const Results& file, const std::vector<std::string>& devices) {
  return words(file, devices, board_of(file));
}

std::string build(const Results& file) {
  const std::string sanitizers = fact(file, "build", "sanitizers");
  return fact(file, "build", "build_type") +
         (sanitizers.empty() ? "" : ", sanitizers " + sanitizers);
}

}  // namespace attest::reports
