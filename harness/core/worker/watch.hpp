// What runs do to their process: modes, masks, threads, open files, children, each as it was before
// them and after.
#pragma once
#include <csignal>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "core/judge/verdict.hpp"
#include "core/worker/float_mode.hpp"

namespace attest::core {

/// What a run may not change, or not more with each run.
struct ProcessState {
  sigset_t signals{};
  std::vector<int> cpus;
  int64_t threads = 1, descriptors = 0, children = 0;
};

class Watch {
 public:
  /// At the start of a request to table `table`, which may use `threads` threads.
  void begin(size_t table, int32_t threads);
  /// Before the first run: all that was done so far is the plugin's own way of setting itself up.
  void before_runs();
  /// After the last of `runs`: floating-point modes and the signal mask are put back.
  void after_runs(uint32_t runs);

  const std::vector<Outcome>& findings() const { return findings_; }
  const std::vector<std::string>& notes() const { return notes_; }
  /// More threads than before the runs.
  bool more_threads() const { return more_threads_; }

 private:
  // A count after each single run of one table, for as long as it rises.
  struct Rise {
    int64_t last = 0;
    int times = 0;
    bool goes_on(int64_t before, int64_t after);
  };
  void find(ReasonCode code, std::string reason) { findings_.push_back({code, std::move(reason)}); }
  void compare_modes();
  void compare_counts(const ProcessState& after, uint32_t runs);

  size_t table_ = 0;
  int32_t allowed_threads_ = 1;
  bool running_ = false, more_threads_ = false, noted_children_ = false, noted_affinity_ = false;
  ProcessState before_;
  std::unique_ptr<FloatModeGuard> modes_;
  Rise threads_, descriptors_;
  std::vector<Outcome> findings_;
  std::vector<std::string> notes_;
};

}  // namespace attest::core
