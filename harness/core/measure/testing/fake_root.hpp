// A made-up /proc and /sys for tests: files in a temporary folder, gone at the end.
#pragma once
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

namespace attest::core {

class FakeRoot {
 public:
  FakeRoot() : path_((folder() / "attest_root_XXXXXX").string()) {
    if (!mkdtemp(path_.data()))
      throw std::filesystem::filesystem_error("mkdtemp",
                                              std::error_code(errno, std::generic_category()));
  }
  FakeRoot(const FakeRoot&) = delete;
  FakeRoot& operator=(const FakeRoot&) = delete;
  ~FakeRoot() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  void write(const std::string& file, const std::string& text) const {
    const auto path = std::filesystem::path(path_) / file;
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path, std::ios::binary) << text;
  }
  std::filesystem::path path() const { return path_; }

 private:
  // In memory where that is possible: a tree has hundreds of files.
  static std::filesystem::path folder() {
    const std::filesystem::path memory = "/dev/shm";
    return access(memory.c_str(), W_OK) == 0 ? memory : std::filesystem::temp_directory_path();
  }

  std::string path_;
};

}  // namespace attest::core
