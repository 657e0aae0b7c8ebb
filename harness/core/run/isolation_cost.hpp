// What it costs to run a plugin in a process of its own.
#pragma once
#include "core/run/plugin.hpp"

namespace attest::core {

/// Medians of a few, in nanoseconds.
struct IsolationCost {
  double start_ns = 0;  // from nothing to a worker that has loaded the plugin
  double query_ns = 0;  // one question and its answer
  double run_ns = 0;    // one judged run of a small problem, beside the plugin's own create and run
};

/// Starts workers for the library at `path`. `problem`: one that the implementation at `table`
/// takes.
IsolationCost measure_isolation(const std::filesystem::path& path, size_t table,
                                const Problem& problem, const WorkerOptions& options);

}  // namespace attest::core
