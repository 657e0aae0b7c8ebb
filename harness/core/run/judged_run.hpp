// A run on the inputs of a fill, for those who look at more of it than its record has.
#pragma once
#include <functional>

#include "core/inputs/golden_store.hpp"
#include "core/record/record.hpp"
#include "core/run/plugins/plugin.hpp"

namespace attest::core {

struct JudgedRun {
  const Implementation& implementation;
  const FillRecord& fill;
  const Arithmetic& arithmetic;
  const PreparedInputs& inputs;
  KeptGolden& golden;      // of these inputs
  const Tensors* outputs;  // null: the run returned none
};

/// Called when a run was judged. It must not throw.
using RunObserver = std::function<void(const JudgedRun&)>;

}  // namespace attest::core
