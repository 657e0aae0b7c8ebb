#include "core/worker/loader.hpp"

#include <dlfcn.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <filesystem>

#include "core/tensor/error.hpp"

namespace attest::core {
namespace {

constexpr size_t kMostTables = 4096;
// The first header's table ends with last_error; a shorter one was never valid.
constexpr size_t kShortestTable = offsetof(attest_impl, last_error) + sizeof(void*);

attest_impl read_table(const attest_impl* theirs, const std::string& name, size_t index) {
  if (theirs->struct_size < kShortestTable)
    throw Error(fmt::format(
        "{}: table {}: struct_size is {} where sizeof(attest_impl), at least {}, is right", name,
        index, theirs->struct_size, kShortestTable));
  attest_impl table{};
  std::memcpy(&table, theirs, std::min<size_t>(theirs->struct_size, sizeof(table)));
  const char* missing = !table.name         ? "name"
                        : !table.version    ? "version"
                        : !table.summary    ? "summary"
                        : !table.query      ? "query"
                        : !table.create     ? "create"
                        : !table.run        ? "run"
                        : !table.destroy    ? "destroy"
                        : !table.last_error ? "last_error"
                                            : nullptr;
  if (missing) throw Error(fmt::format("{}: table {}: {} is NULL", name, index, missing));
  return table;
}

}  // namespace

LoadedPlugin::LoadedPlugin(const std::string& path) {
  const std::string name = std::filesystem::path(path).filename();
  void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!library) {
    // The loader's words start with the path, which is long and not for records.
    std::string words = dlerror();
    if (words.starts_with(path)) words = words.substr(path.size());
    throw Error(fmt::format("{}: not a loadable library{}", name, words));
  }
  using Entry = const attest_impl* (*)(size_t);
  const auto entry = reinterpret_cast<Entry>(dlsym(library, "attest_plugin_v1"));
  if (!entry) {
    for (const char* other : {"attest_plugin_v2", "attest_plugin_v3"})
      if (dlsym(library, other))
        throw Error(fmt::format(
            "{}: exports {} where this harness reads attest_plugin_v1: a newer attest is needed",
            name, other));
    throw Error(fmt::format(
        "{}: exports no attest_plugin_v1; is it a plugin, and is the symbol visible?", name));
  }
  for (size_t index = 0; const attest_impl* table = entry(index); ++index) {
    if (index == kMostTables)
      throw Error(fmt::format(
          "{}: attest_plugin_v1 gives more than {} tables; it must return NULL past the last", name,
          kMostTables));
    tables_.push_back(read_table(table, name, index));
  }
  if (tables_.empty())
    throw Error(fmt::format("{}: attest_plugin_v1(0) is NULL: no implementation in it", name));
}

}  // namespace attest::core
