// Memory that a worker shares with the harness: what it is doing, and where it faulted. Readable
// after its death.
#pragma once
#include <atomic>
#include <cstddef>
#include <cstdint>

namespace attest::core {

enum class Stage : int32_t { kStart, kLoad, kIdle, kQuery, kCreate, kRun, kDestroy, kTime };
constexpr const char* kStageNames[] = {"starting",   "loading the plugin", "idle",
                                       "in query",   "in create",          "in run",
                                       "in destroy", "in a timed run"};

/// What the worker noted on its way down.
enum class Fault : int32_t { kNone, kAddress, kStack, kException };

/// One mapped tensor in the worker's addresses, for telling where a fault was.
struct MappedSlot {
  int32_t role, reserved;
  uint64_t map_begin, map_end, data_begin, data_end;
};

/// Addresses that tensors had in an earlier run; nothing lies there any more.
struct Retired {
  uint64_t begin, end;
};

/// How many are kept. Each run retires two, its inputs and its outputs. Runs of a small problem
/// retire so many in some 30 ms, within which a late thread is noticed (run/plugins/plugin.hpp).
inline constexpr size_t kRetired = 96;

struct StatusPage {
  std::atomic<Stage> stage;
  std::atomic<int32_t> slot_count;
  std::atomic<uint64_t>
      pulse;  // rises when a call into the plugin begins, and when it ends: odd in the plugin
  std::atomic<uint32_t> runs;     // of them, calls of run in this request
  std::atomic<uint64_t> plan_ns;  // in calls of query, create and destroy, ever
  std::atomic<uint32_t> stop;     // 1: the harness asks paced runs to end
  std::atomic<Fault> fault;
  std::atomic<uint64_t> fault_address;  // of the last SIGSEGV or SIGBUS; 0: none
  std::atomic<int32_t> returned;     // 1: run has returned, and what `slots` names is out of bounds
  std::atomic<uint64_t> kept_bytes;  // of memory that the worker keeps for later timed runs
  std::atomic<uint32_t> retired_count;  // ever; the last ones are kept, in a ring
  Retired retired[kRetired];
  MappedSlot slots[70];
};
static_assert(std::atomic<Stage>::is_always_lock_free && sizeof(StatusPage) <= 2 * 4096);

/// Descriptors that a worker finds open; the control socket is its supervisor's alone.
inline constexpr int kWorkerSocket = 3, kWorkerStatus = 4, kWorkerControl = 5;

/// How a worker exits that finds its connection to the harness closed.
inline constexpr int kLostConnection = 71;

/// What a supervisor tells the harness: one when the worker has started, one when it and all its
/// children are gone.
struct SupervisorReport {
  int32_t worker;  // process id
  int32_t ended;   // 0: started
  int32_t how;     // as waitpid says
  int32_t strays;  // processes that it left and that were ended
};

}  // namespace attest::core
