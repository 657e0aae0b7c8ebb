// Runs a fill again in the same circumstances. An output whose bits change from run to run comes
// from a race, or from memory that nobody has written.
#pragma once
#include <optional>

#include "core/inputs/golden_store.hpp"
#include "core/record/reruns.hpp"
#include "core/run/trial.hpp"

namespace attest::core {

/// The run that is made again. It was judged.
struct FirstRun {
  const PreparedInputs& inputs;
  std::string outputs_hash;
  Outcome outcome;
  const Tensors* outputs = nullptr;  // null: they are no longer there
  Side side = Side::kEnd;            // of the outputs
  Leftover leftover = Leftover::kNaN;
};

/// How often to run.
struct RerunCount {
  int64_t most = 20;
  double most_s = 0.1;              // once at least
  bool to_first_difference = true;  // then also try other contents of the workspace
};

struct Reruns {
  RerunRecord record;
  // Not a pass: the first run passed, and a later one is wrong, or gave other bits although the
  // implementation does not declare itself nondeterministic
  Outcome outcome{};
};

/// Makes runs like `first`, each by a plan of its own. `golden` is that of its inputs. Adds the
/// seconds of goldens and comparisons to `judging_s`. Makes no run if there is no memory for its
/// outputs.
Reruns rerun(const Trial& trial, KeptGolden& golden, const FirstRun& first, const RerunCount& count,
             double& judging_s);

/// Whether runs with one thread give other bits from run to run. They are made in a process of
/// their own, which has never had more threads. None: the implementation has one thread anyway, or
/// a run failed. Not to be called if the outputs do not fit in memory a second time.
std::optional<bool> differs_with_one_thread(const Trial& trial, const PreparedInputs& inputs,
                                            Leftover leftover);

/// Outputs that differ from those of the first run, judged by themselves.
RerunRecord::Other judged_other(const PreparedInputs& inputs, KeptGolden& golden,
                                const Arithmetic& arithmetic, const Tensors& outputs);

/// Whether two outputs of runs on the same inputs differ by more than their arithmetic explains, or
/// only one of them is right. Then one of them is wrong.
bool are_apart(const PreparedInputs& inputs, KeptGolden& golden, const Arithmetic& arithmetic,
               const Tensors& first, const Tensors& second);

}  // namespace attest::core
