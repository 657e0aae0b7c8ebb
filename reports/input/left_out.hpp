// What a report has to know of records that it does not show and that are not kept in memory.
#pragma once
#include <cstddef>
#include <set>
#include <string>
#include <vector>

#include "reports/seen_axes.hpp"
#include "reports/tally.hpp"
#include "reports/words/limits.hpp"
#include "reports/words/noise.hpp"

namespace attest::reports {

struct LeftOut {
  /// Of one run.
  struct OfRun {
    size_t records = 0;
    Excess excess;
    std::set<std::string> newer_codes;  // reason codes that this attest does not know
    std::set<std::string> plugins;      // "flash_cpu.so 0123456789abcdef"
    std::set<std::string> devices;      // "cuda"
  };
  std::vector<OfRun> runs;  // empty: no run lacks any
  Tallies tallies;
  Noise noise;
  SeenAxes axes;

  void add(size_t run, const core::Record& record);
  size_t records() const;
  /// The devices of all runs.
  std::set<std::string> devices() const;
  /// Of a run that lacks none: all empty.
  const OfRun& of_run(size_t run) const;
};

/// The name of a record's plugin and its hash; empty without a hash.
std::string plugin_of(const core::Record& record);

}  // namespace attest::reports
