// Loads a plugin into this process: only the worker does.
#pragma once
#include <string>
#include <vector>

#include "attest.h"

namespace attest::core {

/// The tables of a loaded plugin. Of each table, only the fields that both the plugin's header and
/// ours have are read.
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
