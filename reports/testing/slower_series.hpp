// The history of a case that got slower, for tests of what prints histories.
#pragma once
#include <string>

#include "reports/history/history.hpp"

namespace attest::testing {

/// Twenty runs, a tenth slower from the twelfth on. The commit of run 12 is `commit` + "12".
inline reports::HistorySeries slower_series(const std::string& case_name,
                                            const std::string& commit) {
  reports::HistorySeries series;
  series.key.suite = "vit";
  series.key.case_name = case_name;
  series.key.dtype = "f16";
  series.key.impl = "flash";
  for (int i = 1; i <= 20; ++i)
    series.points.push_back({.started = "day" + std::to_string(i),
                             .commit = commit + std::to_string(i),
                             .plugin_hash = "",
                             .verdict = "pass",
                             .time_ns = (1e6 + i % 3) * (i >= 12 ? 1.1 : 1.0),
                             .memory_bytes = 4096,
                             .error_ratio = {}});
  return series;
}

}  // namespace attest::testing
