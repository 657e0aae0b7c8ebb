// Hashes of files, which are kept until a file changes.
#include "core/isolation/libraries.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <fstream>
#include <string>

namespace attest::core {
namespace {

namespace fs = std::filesystem;

void write_file(const fs::path& file, const std::string& text) {
  std::ofstream(file, std::ios::binary) << text;
}

TEST(Libraries, AFileThatChangesHasAnotherHash) {
  const fs::path file = fs::path(::testing::TempDir()) / "hashed", other = file.string() + "_too";
  write_file(file, "first");
  write_file(other, "first");
  const uint64_t first = hash_file(file);
  EXPECT_EQ(hash_file(other), first);
  const auto changed = fs::last_write_time(file);
  // Of the same size at the same time: nothing shows that it was written.
  write_file(file, "other");
  fs::last_write_time(file, changed);
  EXPECT_EQ(hash_file(file), first);
  fs::last_write_time(file, changed + std::chrono::nanoseconds(1000));
  EXPECT_NE(hash_file(file), first);
  write_file(file, "first and more");
  fs::last_write_time(file, changed);
  EXPECT_NE(hash_file(file), first);
  fs::remove(file);
  fs::remove(other);
  EXPECT_NE(hash_file(file), first);
}

}  // namespace
}  // namespace attest::core
