// Runs that were made again on the same inputs, and whether they gave the same outputs.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/judge/verdict.hpp"

namespace attest::core {

struct RerunRecord {
  /// Outputs that differ from those of the first run.
  struct Other {
    std::string outputs_hash;  // 16 hexadecimal digits; empty: the run returned none
    int64_t runs = 0;          // that gave them
    Outcome outcome;           // of these outputs by themselves
    double max_ratio = 0, rms_ratio = 0;
  };
  int64_t runs = 0;           // in the same circumstances, without the first
  std::vector<Other> others;  // of these, in the order in which they came
  int64_t unjudged = 0;       // runs that gave still others
  // Two of the runs differ by more than their arithmetic explains, or only one of them is right
  bool apart = false;
  // If `apart`, and the implementation had several threads: whether runs with one thread give other
  // bits too. None: not tried, or these runs failed.
  std::optional<bool> differs_with_one_thread;
  // What the workspace held before a run that then gave other outputs, although the runs above gave
  // the same
  std::optional<std::string> workspace;
  double run_ns = 0;  // wall time of all of them

  /// Runs that gave other outputs than the first.
  int64_t differing() const;
};

/// "a rerun gives other bits and passes: race or uninitialised memory".
std::string print_reruns(const RerunRecord& reruns);

}  // namespace attest::core
