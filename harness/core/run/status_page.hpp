// A page that a worker shares with the harness: what it is doing, and where it faulted. Readable after its death.
#pragma once
#include <atomic>
#include <cstdint>

namespace attest::core {

enum class Stage : int32_t { kStart, kLoad, kIdle, kQuery, kCreate, kRun, kDestroy, kTime };
constexpr const char* kStageNames[] = {"starting", "loading the plugin", "idle",          "in query", "in create",
                                       "in run",   "in destroy",         "in a timed run"};

/// One mapped tensor in the worker's addresses, for telling where a fault was.
struct MappedSlot {
  int32_t role, reserved;
  uint64_t map_begin, map_end, data_begin, data_end;
};

struct StatusPage {
  std::atomic<Stage> stage;
  std::atomic<int32_t> slot_count;
  std::atomic<uint64_t> fault_address;  // of the last SIGSEGV or SIGBUS; 0: none
  MappedSlot slots[70];
};
static_assert(std::atomic<Stage>::is_always_lock_free && sizeof(StatusPage) <= 4096);

/// Descriptors that a worker finds open.
inline constexpr int kWorkerSocket = 3, kWorkerStatus = 4;

}  // namespace attest::core
