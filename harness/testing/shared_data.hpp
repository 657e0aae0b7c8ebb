// The folder of open data beside the project, for tests: vectors, sweeps and images that are no
// part of it.
#pragma once
#include <cstdlib>
#include <filesystem>

namespace attest {

/// What the variable ATTEST_SHARED_DATA names, else ../shared/data beside the source tree
/// (ATTEST_SOURCE_DIR of a test). It need not be there.
inline std::filesystem::path shared_data(const std::filesystem::path& source) {
  const char* named = std::getenv("ATTEST_SHARED_DATA");
  return named ? std::filesystem::path(named) : source / ".." / "shared" / "data";
}

}  // namespace attest

/// Skips the test, aloud, where `path` is not there: what it would have tested is NOT TESTED.
#define ATTEST_SKIP_WITHOUT(path)     \
  if (!std::filesystem::exists(path)) \
  GTEST_SKIP() << "NOT TESTED: there is no " << (path) << "; set ATTEST_SHARED_DATA"
