#include "core/run/plugins/isolation_cost.hpp"

#include <algorithm>
#include <functional>

#include "core/tensor/stopwatch.hpp"

namespace attest::core {
namespace {

constexpr size_t kStarts = 5, kCalls = 21;

// `own_ns`: does the work, and says how much of the time is not to be counted.
double median_ns(size_t times, const std::function<double()>& own_ns) {
  std::vector<double> all;
  for (size_t i = 0; i < times; ++i) {
    const auto start = Clock::now();
    const double own = own_ns();
    all.push_back(nanoseconds_since(start) - own);
  }
  std::nth_element(all.begin(), all.begin() + ptrdiff_t(times / 2), all.end());
  return all[times / 2];
}

}  // namespace

IsolationCost measure_isolation(const std::filesystem::path& path, size_t table,
                                const Problem& problem, const WorkerOptions& options) {
  IsolationCost cost;
  std::unique_ptr<Plugin> plugin;
  std::vector<std::unique_ptr<Plugin>> before;  // their end is not a start's cost
  cost.start_ns = median_ns(kStarts, [&] {
    before.push_back(std::move(plugin));
    plugin = std::make_unique<Plugin>(path, options);
    return double(plugin->implementations().empty());
  });
  const Implementation& implementation = plugin->implementations().at(table);
  cost.query_ns = median_ns(kCalls, [&] {
    plugin->query(implementation, problem);
    return 0.0;
  });
  const SharedTensors inputs(problem, ATTEST_READ),
      outputs(problem, ATTEST_WRITE,
              plugin->query(implementation, problem).support.workspace_bytes);
  cost.run_ns = median_ns(kCalls, [&] {
    const RunResult result = plugin->run(implementation, problem, inputs, outputs);
    return result.create_ns + result.run_ns;
  });
  return cost;
}

}  // namespace attest::core
