// Finds one of a plugin's implementations for a test.
#pragma once
#include <string>

#include "core/run/plugin.hpp"
#include "core/tensor/error.hpp"

namespace attest::testing {

/// Throws Error where the plugin has none of that name.
inline const core::Implementation& named(core::Plugin& plugin, const std::string& name) {
  for (const core::Implementation& implementation : plugin.implementations())
    if (implementation.name == name) return implementation;
  throw core::Error("no implementation " + name);
}

}  // namespace attest::testing
