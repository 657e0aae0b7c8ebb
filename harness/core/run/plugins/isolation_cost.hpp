// Measures what it costs to run a plugin in a worker process.
#pragma once
#include "core/run/plugins/plugin.hpp"

namespace attest::core {

/// Medians of a few measurements, in nanoseconds.
struct IsolationCost {
  double start_ns = 0;  // starting a worker that loads the plugin
  double query_ns = 0;  // one query and its answer
  double run_ns = 0;    // one judged run of a small problem, without the plugin's create and run
};

/// Starts workers for the library at `path`. The implementation at `table` must support `problem`.
IsolationCost measure_isolation(const std::filesystem::path& path, size_t table,
                                const Problem& problem, const WorkerOptions& options);

}  // namespace attest::core
