#include "core/worker/watch.hpp"

#include <dirent.h>
#include <fmt/format.h>
#include <pthread.h>
#include <sys/stat.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <iterator>
#include <thread>
#include <utility>

#include "core/isolation/children.hpp"
#include "core/measure/machine/affinity.hpp"
#include "core/tensor/stopwatch.hpp"

namespace attest::core {
namespace {

// A lazy pool or a file opened late comes once or twice; what comes with every run is a leak.
constexpr int kRises = 3;
// Threads beyond those allowed that a run time of its own may have: a timer, a signal handler.
constexpr int64_t kOwnThreads = 2;
// Of timed runs: so many must have been made, and one in two have left something.
constexpr uint32_t kTimedRuns = 8;

int64_t entries(const char* folder) {
  int64_t count = -2;  // . and ..
  DIR* open = opendir(folder);
  if (!open) return 0;
  while (readdir(open)) ++count;
  closedir(open);
  return count;
}

// The folder of tasks has a link for each thread besides its own two; that of descriptors says
// their number as its size since Linux 6.2, and is counted before.
int64_t count_threads() {
  struct stat facts{};
  return stat("/proc/self/task", &facts) == 0 && facts.st_nlink > 2 ? int64_t(facts.st_nlink) - 2
                                                                    : entries("/proc/self/task");
}
int64_t count_descriptors() {
  struct stat facts{};
  return stat("/proc/self/fd", &facts) == 0 && facts.st_size > 0 ? int64_t(facts.st_size)
                                                                 : entries("/proc/self/fd") - 1;
}

// Waits up to 30 ms for threads that runs left, which may be about to end. Returns whether no more
// than `most` threads are left.
bool threads_end(int64_t most) {
  constexpr auto kPatience = std::chrono::milliseconds(30);
  const auto deadline = Clock::now() + kPatience;
  while (count_threads() > most) {
    if (Clock::now() > deadline) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return true;
}

ProcessState read_state() {
  ProcessState state;
  pthread_sigmask(SIG_SETMASK, nullptr, &state.signals);
  state.cpus = allowed_cpus();
  state.threads = count_threads();
  state.descriptors = count_descriptors();
  state.children = int64_t(children_of_this_process().size());
  return state;
}

bool same_signals(const sigset_t& one, const sigset_t& other) {
  for (int signal = 1; signal < NSIG; ++signal)
    if (sigismember(&one, signal) != sigismember(&other, signal)) return false;
  return true;
}

// Run times of OpenMP bind the calling thread in its first parallel region when the user asks them
// to bind.
bool user_binds_threads() {
  constexpr const char* kVariables[] = {"OMP_PROC_BIND", "OMP_PLACES", "GOMP_CPU_AFFINITY",
                                        "KMP_AFFINITY"};
  return std::any_of(std::begin(kVariables), std::end(kVariables),
                     [](const char* name) { return std::getenv(name) != nullptr; });
}

}  // namespace

bool Watch::Rise::goes_on(int64_t before, int64_t after) {
  times = after > before && (times == 0 || after > last) ? times + 1 : 0;
  last = after;
  return times >= kRises;
}

void Watch::begin(size_t table, int32_t threads) {
  if (table != table_) {
    threads_ = {};
    descriptors_ = {};
  }
  table_ = table;
  allowed_threads_ = threads;
  running_ = more_threads_ = false;
  findings_.clear();
  notes_.clear();
}

void Watch::before_runs() {
  before_ = read_state();
  modes_.reset();  // gives back the modes of before it was made, so before the next one is
  modes_ = std::make_unique<FloatModeGuard>();
  running_ = true;
  if (before_.children > 0 && !noted_children_) {
    notes_.push_back(
        fmt::format("it has {} processes of its own before it runs", before_.children));
    noted_children_ = true;
  }
}

void Watch::after_runs(uint32_t runs) {
  if (!running_) return;
  running_ = false;
  compare_modes();
  const ProcessState after = read_state();
  if (!same_signals(before_.signals, after.signals)) {
    find(ReasonCode::kFailEnvironment, "run changed the signal mask of its thread");
    pthread_sigmask(SIG_SETMASK, &before_.signals, nullptr);
  }
  if (before_.cpus != after.cpus) {
    const std::string change = fmt::format("the CPUs of its thread from {} to {}",
                                           cpu_list(before_.cpus), cpu_list(after.cpus));
    if (!user_binds_threads())
      find(ReasonCode::kFailEnvironment, "run changed " + change);
    else if (!std::exchange(noted_affinity_, true))
      notes_.push_back("run changed " + change + ", as the environment asks of OpenMP");
  }
  compare_counts(after, runs);
}

void Watch::compare_modes() {
  if (const std::string changes = modes_->changes(); !changes.empty())
    find(ReasonCode::kFailEnvironment,
         "run changed the floating-point mode of its thread: " + changes);
  modes_.reset();
}

void Watch::compare_counts(const ProcessState& after, uint32_t runs) {
  more_threads_ = after.threads > before_.threads;
  auto leaks = [&](Rise& rise, int64_t had, int64_t has) {
    return runs == 1 ? rise.goes_on(had, has)
                     : runs >= kTimedRuns && has - had >= int64_t(runs / 2);
  };
  if (leaks(threads_, before_.threads, after.threads) &&
      after.threads > allowed_threads_ + kOwnThreads && !threads_end(before_.threads))
    find(ReasonCode::kFailThreads,
         fmt::format("has {} threads where {} are allowed, and more with each run", after.threads,
                     allowed_threads_));
  if (leaks(descriptors_, before_.descriptors, after.descriptors))
    find(ReasonCode::kFailDescriptors,
         fmt::format("has {} open files, and more with each run", after.descriptors));
  if (after.children > before_.children)
    find(ReasonCode::kFailChildren,
         fmt::format("run left {} processes behind", after.children - before_.children));
}

}  // namespace attest::core
