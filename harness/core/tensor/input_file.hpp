// Files that a user names, opened to be read.
#pragma once
#include <filesystem>
#include <fstream>
#include <string_view>

namespace attest::core {

/// Opens a file to read its bytes. Throws an Error if it cannot be read, for example "PATH: cannot
/// be read: No such file or directory". `remedy` ends that message, for example "; name another
/// file".
std::ifstream open_input(const std::filesystem::path& path, std::string_view remedy = "");

}  // namespace attest::core
