// One implementation on one problem: what its checks need, and their results so far.
#pragma once
#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/measure/machine/machine_state.hpp"
#include "core/operations/arithmetic.hpp"
#include "core/record/record.hpp"
#include "core/run/plugins/plugin.hpp"

namespace attest::core {

/// One run on the inputs of one fill.
struct FillRun {
  double run_ns = 0;  // duration; 0: the run returned no outputs
  std::string inputs_hash, outputs_hash;
  Outcome outcome{};
};

struct Trial {
  Plugin& plugin;
  const Implementation& implementation;
  Record& record;                                 // checks write their results here and read none
  Outcome outcome{};                              // of the first check that did not pass
  Arithmetic arithmetic{};                        // declared by the implementation for this problem
  uint64_t workspace_bytes = 0;                   // likewise
  std::unique_ptr<SharedTensors> outputs{};       // and the workspace; every run overwrites them
  std::optional<MachineState> before{}, after{};  // the runs that are measured
  std::vector<FillRun> fills{};                   // in the order in which they are judged
  bool is_guessed = false;                        // a mistake that explains wrong outputs
  bool is_rerun = false;                          // runs of a fill or a relation were made again
  bool is_timed = false;

  /// Sets the outcome, unless an earlier check has already set it to something other than a pass.
  void note(Outcome next) {
    if (outcome.passes()) outcome = std::move(next);
  }
  /// Duration of the fastest run on a fill; another process may have slowed down the others. 0: no
  /// run returned outputs.
  double quickest_run_ns() const {
    double least = std::numeric_limits<double>::infinity();
    for (const FillRun& run : fills)
      if (run.run_ns > 0) least = std::min(least, run.run_ns);
    return std::isinf(least) ? 0 : least;
  }
};

}  // namespace attest::core
