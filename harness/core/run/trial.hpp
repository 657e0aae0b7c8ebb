// One implementation on one problem: what every check of it needs and what it has shown so far.
#pragma once
#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "core/operations/arithmetic.hpp"
#include "core/record/record.hpp"
#include "core/run/plugin.hpp"

namespace attest::core {

/// The run on one fill.
struct FillRun {
  double run_ns = 0;  // 0: it gave nothing
  std::string inputs_hash, outputs_hash;
};

struct Trial {
  Plugin& plugin;
  const Implementation& implementation;
  Record& record;                // what is found out is written there; no check reads it
  Outcome outcome{};             // the first that was noted
  Arithmetic arithmetic{};       // as declared for the problem
  uint64_t workspace_bytes = 0;  // likewise
  std::unique_ptr<SharedTensors> outputs{};  // with that workspace; every run overwrites them
  std::vector<FillRun> fills{};              // in the order in which they are judged

  /// Where several checks go wrong the first one's outcome stands.
  void note(Outcome next) {
    if (outcome.passes()) outcome = std::move(next);
  }
  /// Of the fill that ran quickest, since another process may have slowed down any one run; 0: none
  /// gave anything.
  double quickest_run_ns() const {
    double least = std::numeric_limits<double>::infinity();
    for (const FillRun& run : fills)
      if (run.run_ns > 0) least = std::min(least, run.run_ns);
    return std::isinf(least) ? 0 : least;
  }
};

}  // namespace attest::core
