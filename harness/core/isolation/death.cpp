#include "core/isolation/death.hpp"

#include <fmt/format.h>
#include <sys/wait.h>

#include <algorithm>
#include <csignal>
#include <cstring>
#include <span>

namespace attest::core {
namespace {

// Of a worker that has closed its connection: it may be on its way out, or live on.
constexpr double kPatience_s = 0.5;

// "SIGSEGV"; real-time signals have numbers alone.
std::string signal_name(int signal) {
  const char* name = sigabbrev_np(signal);
  return name ? fmt::format("SIG{}", name) : fmt::format("signal {}", signal);
}

// The slot whose map, or the guards beside it, holds `address`; null when it lies elsewhere. The
// worker may have written anything there: the count is not trusted.
const MappedSlot* slot_at(const StatusPage& page, uint64_t address) {
  constexpr auto kGuard = uint64_t(kGuardBytes);
  const int32_t count = std::clamp<int32_t>(page.slot_count, 0, int32_t(std::size(page.slots)));
  for (const MappedSlot& slot : std::span(page.slots, size_t(count)))
    if (address >= slot.map_begin - kGuard && address < slot.map_end + kGuard) return &slot;
  return nullptr;
}

bool retired(const StatusPage& page, uint64_t address) {
  return std::any_of(std::begin(page.retired), std::end(page.retired), [&](const Retired& range) {
    return address >= range.begin && address < range.end;
  });
}

// Where the worker faulted, in words of the problem; `code` becomes crash:input-written where it
// wrote into an input.
std::string fault_place(const StatusPage& page, const Problem* problem, ReasonCode& code) {
  const uint64_t address = page.fault_address;
  if (address == 0 || !problem) return {};
  const MappedSlot* slot = slot_at(page, address);
  if (!slot)
    return retired(page, address) ? " at a tensor of an earlier run"
                                  : " at an address outside of every tensor";
  const Role* role =
      slot->role == kWorkspaceRole ? nullptr : find_role(*problem->operation, slot->role);
  const std::string name = role ? role->name : "workspace";
  if (address < slot->data_begin)
    return fmt::format(" at {} bytes before the start of {}", slot->data_begin - address, name);
  if (address >= slot->data_end)
    return fmt::format(" at {} bytes past the end of {}", address - slot->data_end, name);
  if (role && !is_output(*role)) code = ReasonCode::kCrashInputWritten;
  return fmt::format(" at byte {} of {}", address - slot->data_begin, name);
}

Outcome explain_signal(Worker& worker, int signal, const Problem* problem) {
  const StatusPage& page = worker.status();
  Outcome failure{ReasonCode::kCrashSignal, {}};
  if (signal == SIGKILL && worker.out_of_memory())
    return {ReasonCode::kCrashOom,
            fmt::format("the system ended it {} for lack of memory", doing(page))};
  if (page.fault == Fault::kException)
    return {ReasonCode::kCrashException,
            fmt::format("an exception ended a thread {}", doing(page))};
  if (page.fault == Fault::kStack)
    return {ReasonCode::kCrashStackOverflow, fmt::format("the stack ran out {}", doing(page))};
  const std::string where =
      page.fault == Fault::kAddress ? fault_place(page, problem, failure.code) : std::string();
  failure.reason = fmt::format("{} {}{}", signal_name(signal), doing(page), where);
  if (faulted_late(page)) {
    failure.code = ReasonCode::kCrashLateWrite;
    failure.reason =
        fmt::format("{}{}, which a thread used after run had returned", signal_name(signal), where);
  }
  return failure;
}

}  // namespace

std::string doing(const StatusPage& page) {
  const auto stage = size_t(std::clamp(int(page.stage.load()), 0, int(std::size(kStageNames)) - 1));
  if (page.stage == Stage::kTime) return fmt::format("in timed run {}", page.runs.load());
  return kStageNames[stage];
}

bool faulted_late(const StatusPage& page) {
  const uint64_t address = page.fault_address;
  if (page.fault != Fault::kAddress) return false;
  return (page.returned && slot_at(page, address)) || retired(page, address);
}

Outcome explain_death(Worker& worker, const Problem* problem) {
  const StatusPage& page = worker.status();
  Outcome failure{ReasonCode::kCrashExit, {}};
  const std::optional<int> how = worker.ended(kPatience_s);
  if (!how || (WIFEXITED(*how) && WEXITSTATUS(*how) == kLostConnection))
    failure.reason = fmt::format("closed its connection {}", doing(page));
  else if (WIFSIGNALED(*how))
    failure = explain_signal(worker, WTERMSIG(*how), problem);
  else
    failure.reason = fmt::format("exited with {} {}", WEXITSTATUS(*how), doing(page));
  if (const std::string words = worker.said(); !words.empty())
    failure.reason += fmt::format("; it said: {}", words);
  if (const uint64_t pulse = page.pulse; pulse > 0)
    failure.reason += fmt::format(" (call {} of its worker)", (pulse + 1) / 2);
  return failure;
}

}  // namespace attest::core
