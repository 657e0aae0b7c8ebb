// What happened to a board between two readings of its state.
#include <fmt/format.h>

#include "core/measure/machine/board/board.hpp"

namespace attest::core {
namespace {

class Comparer {
 public:
  Comparer(const BoardState& before, const BoardState& after) : before_(before), after_(after) {}

  BoardChanges compare() {
    mode();
    changed("the number of multiprocessors", before_.multiprocessors, after_.multiprocessors);
    clock("GPU", before_.gpu, after_.gpu);
    clock("memory", before_.memory, after_.memory);
    clock("CPUs", before_.cpu, after_.cpu);
    throttling();
    over_current();
    return std::move(changes_);
  }

 private:
  template <class T>
  void changed(const std::string& what, const Reading<T>& was, const Reading<T>& is) {
    if (was.value && !is.value)
      doubt(fmt::format("{} cannot be read any more ({})", what, is.missing));
    else if (was.value && *was.value != *is.value)
      doubt(fmt::format("{} changed from {} to {}", what, *was.value, *is.value));
  }

  // A name that cannot be read any more makes no other mode of the same id.
  void mode() {
    const bool named = before_.mode_name.value && after_.mode_name.value;
    if (named || before_.mode.value != after_.mode.value)
      changed("the power mode", power_mode(before_), power_mode(after_));
  }

  void clock(const char* name, const MachineClock& was, const MachineClock& is) {
    changed(fmt::format("the highest clock in MHz of the {}", name), was.cap_mhz, is.cap_mhz);
    if (!was.locked.value || !*was.locked.value) return;
    if (!is.locked.value)
      doubt(fmt::format("whether the clock of the {} is still locked cannot be seen ({})", name,
                        is.locked.missing));
    else if (!*is.locked.value)
      doubt(
          fmt::format("the clock of the {} was locked and is not any more: a restart of nvpmodel's "
                      "service undoes jetson_clocks",
                      name));
  }

  void throttling() {
    std::map<std::string, bool> held;
    for (const BoardState* state : {&before_, &after_})
      for (const auto& [type, active] : state->throttling)
        if (active.value) held[type] |= *active.value;
    for (const auto& [type, active] : held)
      if (active) doubt(fmt::format("clocks were held down: {}", type));
  }

  // Hardware throttles by itself for less than a millisecond, which no clock's file shows.
  void over_current() {
    for (const auto& [event, reason] : {std::pair{1, "the voltage was too low"},
                                        {2, "the mean current was too high"},
                                        {3, "the current was too high for a moment"}}) {
      const auto was = before_.over_current.find(event), is = after_.over_current.find(event);
      if (was == before_.over_current.end() || is == after_.over_current.end()) continue;
      if (!was->second.value || !is->second.value) continue;
      const int64_t times = *is->second.value - *was->second.value;
      changes_.over_current[event] = times;
      if (times == 0) continue;
      std::string text =
          times > 0
              ? fmt::format("{}: throttled {} times (OC{})", reason, times, event)
              : fmt::format("the counter of OC{} went back: the board was started anew", event);
      if (event == 3 && times > 0)
        changes_.remarks.push_back(std::move(text));
      else
        doubt(std::move(text));
    }
  }

  void doubt(std::string reason) { changes_.doubts.push_back(std::move(reason)); }

  const BoardState &before_, &after_;
  BoardChanges changes_;
};

}  // namespace

BoardChanges changes(const BoardState& before, const BoardState& after) {
  return Comparer(before, after).compare();
}

}  // namespace attest::core
