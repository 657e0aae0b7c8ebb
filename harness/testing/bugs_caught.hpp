// Runs a plugin of planted bugs on problems, each of which has room for some of them.
#pragma once
#include <gtest/gtest.h>

#include <map>
#include <set>
#include <string>
#include <vector>

#include "core/problem/spec.hpp"
#include "core/run/runner.hpp"
#include "testing/mutants/trial.hpp"

namespace attest::testing {

/// A problem, with the bugs that are tried on it; none: all that it has room for.
struct Wanted {
  std::string spec;
  std::set<std::string> only;
};

/// Two threads; nothing is timed, and no relation is tried.
inline core::RunOptions judged_alone() {
  core::RunOptions options;
  options.limits.threads = 2;
  options.timed = options.diagnosed = false;
  options.relations = core::RelationChoice::kNone;
  return options;
}

/// Opens a plugin with a worker of two threads and 120 s a run.
inline core::Plugin open_plugin(const std::string& path) {
  return core::Plugin(
      path,
      {.executable = core::find_worker(), .cpus = "", .limits = {.threads = 2, .timeout_s = 120}});
}

/// Expects that every implementation of the plugin but `healthy` fails one of the problems, that
/// `healthy` passes all, and that there are `count` with it. A bug that was caught is not tried
/// again.
inline void expect_caught(core::Plugin& plugin, const std::vector<Wanted>& problems,
                          const core::RunOptions& options, const std::string& healthy,
                          size_t count) {
  core::Rates rates;
  std::map<std::string, bool> caught;
  for (const Wanted& wanted : problems) {
    const core::Problem problem = core::parse_problem(wanted.spec);
    core::CaseRunner runner(problem, core::print_problem(problem), {"", wanted.spec, "random", ""},
                            nullptr, options, rates);
    for (const core::Implementation& impl : plugin.implementations()) {
      if (!wanted.only.empty() && !wanted.only.contains(impl.name)) continue;
      if (caught[impl.name]) continue;
      const core::Record record = runner.run(plugin, impl);
      caught[impl.name] = !catches(record).empty();
      if (impl.name == healthy) {
        EXPECT_TRUE(record.outcome.passes()) << wanted.spec << record.outcome.reason;
      }
    }
  }
  EXPECT_EQ(caught.size(), count);
  for (const auto& [name, is_caught] : caught) EXPECT_EQ(is_caught, name != healthy) << name;
}

}  // namespace attest::testing
