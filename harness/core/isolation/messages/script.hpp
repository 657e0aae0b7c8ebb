// A script: plans of one implementation, created, run and destroyed in a given order in one
// process.
//
// One plan that runs many times, and several plans alive at once, are both scripts. Each run names
// a *place*. All runs at one place get the same addresses, whichever sets of tensors they have.
// They also share one workspace: a run finds in it what the run before has left. This workspace
// belongs to the first set of outputs that a run at that place gets.
#pragma once
#include <cstdint>
#include <vector>

#include "core/isolation/memory/buffers.hpp"

namespace attest::core {

/// One step. Crosses to the worker as bytes.
struct ScriptStep {
  enum Kind : int32_t { kCreate, kRun, kDestroy };
  int32_t kind = kRun;
  int32_t plan = 0;                   // index into Script::plans
  int32_t place = 0;                  // of a run: 0 or 1
  int32_t inputs = -1, outputs = -1;  // of a run: indices into Script::sets
};

/// What a script needs, as the harness has it. All must outlive the call.
struct Script {
  std::vector<const Problem*> plans;       // the problem of each plan
  std::vector<const SharedTensors*> sets;  // inputs or outputs of one of these problems
  std::vector<ScriptStep> steps;

  /// Adds a set and returns its index.
  int32_t add(const SharedTensors& set) {
    sets.push_back(&set);
    return int32_t(sets.size()) - 1;
  }
  void create(int plan) { steps.push_back({.kind = ScriptStep::kCreate, .plan = plan}); }
  void run(int plan, int place, int32_t inputs, int32_t outputs) {
    steps.push_back({ScriptStep::kRun, plan, place, inputs, outputs});
  }
  void destroy(int plan) { steps.push_back({.kind = ScriptStep::kDestroy, .plan = plan}); }
};

/// Sets that one script may have: what a message carries.
inline constexpr size_t kMostSets = 240;

}  // namespace attest::core
