#include "core/tensor/input_file.hpp"

#include <cerrno>
#include <cstring>
#include <string>
#include <system_error>

#include "core/tensor/error.hpp"

namespace attest::core {

std::ifstream open_input(const std::filesystem::path& path, std::string_view remedy) {
  std::ifstream file(path, std::ios::binary);
  const std::string cause = file ? "it is a folder" : std::strerror(errno);
  std::error_code ignored;
  if (!file || std::filesystem::is_directory(path, ignored))
    throw Error(path.string() + ": cannot be read: " + cause + std::string(remedy));
  return file;
}

}  // namespace attest::core
