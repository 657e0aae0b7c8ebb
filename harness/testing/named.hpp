// Finds one of a plugin's implementations for a test, and runs it on a problem.
#pragma once
#include <string>

#include "core/problem/spec.hpp"
#include "core/run/runner.hpp"
#include "core/tensor/error.hpp"

namespace attest::testing {

/// Throws Error where the plugin has none of that name.
inline const core::Implementation& named(core::Plugin& plugin, const std::string& name) {
  for (const core::Implementation& implementation : plugin.implementations())
    if (implementation.name == name) return implementation;
  throw core::Error("no implementation " + name);
}

/// Its record on the problem of that line.
inline core::Record run_named(core::Plugin& plugin, const std::string& name,
                              const std::string& spec, const core::RunOptions& options) {
  const core::Problem problem = core::parse_problem(spec);
  core::Rates rates;
  core::CaseRunner runner(problem, core::print_problem(problem), {"test", spec, "random", ""},
                          nullptr, options, rates);
  return runner.run(plugin, named(plugin, name));
}

}  // namespace attest::testing
