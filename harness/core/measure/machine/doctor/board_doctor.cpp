#include "core/measure/machine/doctor/board_doctor.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <system_error>

#include "core/measure/machine/files.hpp"
#include "core/measure/machine/memory.hpp"

namespace attest::core {
namespace {

namespace fs = std::filesystem;
using Kind = Finding::Kind;

constexpr double kFullFan = 255;  // of the PWM

class BoardDoctor {
 public:
  BoardDoctor(const BoardState& board, const fs::path& root) : board_(board), root_(root) {}

  std::vector<Finding> diagnose() {
    module();
    mode();
    locks();
    fan();
    desktop();
    swap();
    throttling();
    unread();
    return std::move(findings_);
  }

 private:
  void add(bool good, const char* what, std::string found, const char* advice) {
    findings_.push_back(
        {good ? Kind::kOk : Kind::kNote, what, std::move(found), good ? "" : advice});
  }

  void module() {
    const std::string name =
        board_.module.value
            ? *board_.module.value
            : fmt::format("{} ({})", board_.model.value.value_or("unknown"), board_.module.missing);
    add(board_.module.value.has_value(), "board", name,
        "without its module attest does not know its bus of memory nor its multiprocessors");
    const std::string release = board_.l4t.value.value_or(board_.l4t.missing);
    if (!board_.jetpack.value)
      return add(false, "JetPack", release, "attest knows JetPack 6 and 7");
    add(*board_.jetpack.value > 5, "JetPack",
        fmt::format("{} ({})", *board_.jetpack.value, release),
        "its compiler is g++ 9 and its CUDA 11.4; attest needs C++20: install JetPack 6 or 7.2");
  }

  void mode() {
    const Reading<std::string> mode = power_mode(board_);
    if (!mode.value)
      return add(false, "power mode", mode.missing,
                 "nvpmodel's service may be starting: sudo nvpmodel -q");
    std::string found = *mode.value;
    if (board_.multiprocessors.value)
      found += fmt::format("; {} multiprocessors", *board_.multiprocessors.value);
    if (board_.memory_cap_gbs.value)
      found += fmt::format("; memory up to {:.1f} GB/s", *board_.memory_cap_gbs.value);
    add(true, "power mode", found, "");
    findings_.back().advice =
        "another one: sudo nvpmodel -m ID; ids: grep POWER_MODEL /etc/nvpmodel.conf";
  }

  // jetson_clocks locks all three, so one that is locked alone tells that the others were, too.
  void locks() {
    const UnlockedClocks unlocked = find_unlocked_clocks(root_);
    if (unlocked.which.empty()) return add(true, "clocks", "locked, all three", "");
    bool any = false, seen = true;
    for (const MachineClock* clock : {&board_.gpu, &board_.memory, &board_.cpu}) {
      any |= clock->locked.value.value_or(false);
      seen &= clock->locked.value.has_value();
    }
    for (const std::string& which : unlocked.which)
      findings_.push_back({Kind::kNote, "clocks", which, unlocked.remedy});
    if (any && seen)
      add(false, "undone", "some clocks are locked and others are not",
          "a restart of nvpmodel's service, or a change of the mode, undoes jetson_clocks: run it "
          "again, last");
  }

  // JetPack 6 and 7 have the fan among the monitors of hardware, JetPack 5 a folder of its own.
  void fan() {
    Reading<double> pwm = read_value(root_ / "sys/devices/pwm-fan/target_pwm");
    for (const fs::path& monitor : entries_of(root_ / "sys/class/hwmon"))
      if (read_text(monitor / "name") == "pwmfan") pwm = read_value(monitor / "pwm1");
    if (!pwm.value) return add(false, "fan", fmt::format("not seen ({})", pwm.missing), kFanAdvice);
    add(*pwm.value >= kFullFan, "fan", fmt::format("{:.0f} of {:.0f}", *pwm.value, kFullFan),
        kFanAdvice);
  }

  void desktop() {
    std::string running;
    for (const fs::path& process : entries_of(root_ / "proc")) {
      const std::string name = read_text(process / "comm");
      for (const char* known : {"Xorg", "Xwayland", "gnome-shell", "gdm3", "lightdm"})
        if (name == known && running.find(name) == running.npos)
          running += (running.empty() ? "" : ", ") + name;
    }
    add(running.empty(), "desktop", running.empty() ? "off" : running,
        "it uses the GPU, and memory that is the GPU's too: sudo systemctl isolate "
        "multi-user.target; for good: sudo systemctl set-default multi-user.target");
  }

  void swap() {
    const MachineMemory memory = read_memory(root_);
    add(memory.swap_total_bytes == 0, "swap",
        memory.swap_total_bytes == 0
            ? "off"
            : fmt::format("{:.1f} GiB", double(memory.swap_total_bytes) / double(1u << 30)),
        "GPU and CPU share one memory, and what is compressed takes the CPU: sudo swapoff -a; for "
        "good: sudo systemctl disable --now nvzramconfig");
  }

  void throttling() {
    std::string now;
    for (const auto& [type, active] : board_.throttling)
      if (active.value.value_or(false)) now += (now.empty() ? "" : ", ") + type;
    if (!now.empty())
      add(false, "throttling", now, "cool it, or choose a power mode that it can hold");
    for (const auto& [event, what] : {std::pair{1, "low voltage"},
                                      {2, "high mean current"},
                                      {3, "high current for a moment"}}) {
      const auto at = board_.over_current.find(event);
      if (at == board_.over_current.end() || at->second.value.value_or(0) == 0) continue;
      add(false, "over-current",
          fmt::format("{} times since boot: {} (OC{})", *at->second.value, what, event),
          event == 3 ? "often harmless; a lower power mode has fewer"
                     : "a better power supply, or a lower power mode");
    }
  }

  // A line for each cause, since each has its own remedy or none.
  void unread() {
    std::string forbidden, off, others;
    for (const auto& [key, reason] : facts(board_).missing) {
      const auto is = [&reason](int error) {
        return reason.ends_with(std::generic_category().message(error));
      };
      std::string& list = is(EACCES) && key.starts_with("memory_")    ? forbidden
                          : is(EAGAIN) && key.starts_with("celsius_") ? off
                                                                      : others;
      list += fmt::format("{}{} ({})", list.empty() ? "" : ", ", key, reason);
    }
    for (const auto& [list, advice] :
         {std::pair{&forbidden,
                    "only root reads the clock of the memory; without it neither its lock nor its "
                    "bandwidth now is known: sudo attest doctor"},
          {&off, "sensors of parts that are off answer nothing: that is normal"},
          {&others, "attest does without these values, and reports lack them"}})
      if (!list->empty()) add(false, "not read", *list, advice);
  }

  static constexpr const char* kFanAdvice =
      "a fan that follows the temperature lets clocks differ: sudo jetson_clocks --fan";

  const BoardState& board_;
  const fs::path& root_;
  std::vector<Finding> findings_;
};

}  // namespace

std::vector<Finding> diagnose_board(const BoardState& board, const fs::path& root) {
  return BoardDoctor(board, root).diagnose();
}

std::vector<Finding> diagnose_changes(const BoardState& before, const BoardState& after) {
  std::vector<Finding> findings;
  const BoardChanges all = changes(before, after);
  for (const std::vector<std::string>* some : {&all.doubts, &all.remarks})
    for (const std::string& change : *some)
      findings.push_back({Kind::kNote, "meanwhile", change,
                          "it happened while the doctor looked: settle it before you measure"});
  return findings;
}

}  // namespace attest::core
