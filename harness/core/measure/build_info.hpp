// How this program was built: set by CMake.
#pragma once
#include <map>
#include <string>

namespace attest::core {

/// compiler, flags, build_type, sanitizers, version, commit.
std::map<std::string, std::string> build_info();
/// Name -> version of the libraries that take part in judging and timing.
std::map<std::string, std::string> library_versions();

}  // namespace attest::core
