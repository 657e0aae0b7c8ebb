// Loads a plugin into this process: only the worker does.
#pragma once
#include <string>
#include <vector>

#include "attest.h"

namespace attest::core {

/// A loaded plugin's tables, each read as the smaller of its own size and ours.
class LoadedPlugin {
 public:
  /// Throws Error: not a shared library (with the loader's words), no attest_plugin_v1, a table
  /// that is too short, lacks a function or a name, or more than 4,096 tables.
  explicit LoadedPlugin(const std::string& path);
  const std::vector<attest_impl>& tables() const { return tables_; }

 private:
  std::vector<attest_impl> tables_;
};

}  // namespace attest::core
