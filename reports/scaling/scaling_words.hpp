// The words and cells that all formats use for how implementations scale.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "reports/scaling/scaling.hpp"

namespace attest::reports {

/// One thing that is said of each implementation in a sweep, such as its exponent.
struct ScalingFact {
  std::string label;  // in a narrow column of a terminal, indented below the fact it belongs to
  std::string title;  // by itself
  std::function<std::string(const ScalingSeries&)> cell;  // empty where nothing is known
};

/// Exponents, and the largest sizes within the budgets that the sweep has.
std::vector<ScalingFact> scaling_facts(const ScalingSweep& sweep);

/// The implementations that support at least one size of the sweep.
std::vector<const ScalingSeries*> supporting_series(const ScalingSweep& sweep);

/// The pairs worth naming: all within a sweep, and those of different sweeps that cross.
std::vector<const ScalingPair*> told_pairs(const Scaling& scaling);

/// "flash is faster up to 2048, linear from 4096 on".
std::string print_pair(const ScalingPair& pair);

/// "dense/flash f32 at seq_len_q=8192: 1 thread 67.1 ms; 4 threads 16.8 ms (speedup 4.00, ...)".
std::string print_strong(const StrongScaling& strong);

/// What the notation of exponents and sizes means; a sentence for each.
std::vector<std::string> scaling_legend();

}  // namespace attest::reports
