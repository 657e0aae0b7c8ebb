// How this program was built. CMake writes the values.
#pragma once
#include <map>
#include <string>

namespace attest::core {

/// compiler, flags, build_type, sanitizers, version, commit.
std::map<std::string, std::string> build_info();
/// Name -> version of the libraries that judging and timing use.
std::map<std::string, std::string> library_versions();

}  // namespace attest::core
