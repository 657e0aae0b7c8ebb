// Files that a user names, opened to be read.
#pragma once
#include <filesystem>
#include <fstream>
#include <string_view>

namespace attest::core {

/// Opens a file for its bytes. Throws Error: "PATH: cannot be read: No such file or directory", and
/// what follows that, e.g. "; name another file".
std::ifstream open_input(const std::filesystem::path& path, std::string_view remedy = "");

}  // namespace attest::core
