// Files of the user instead of the built-in sweep and picture.
#include "core/session/token_store.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <functional>

#include "core/tensor/error.hpp"

namespace attest::core {
namespace {

using ::testing::HasSubstr;
namespace fs = std::filesystem;

constexpr const char* kSweep = "lidar:voxel_size=1";
constexpr const char* kImage = "image:width=32,height=32,patch=16";

std::string complaint_of(const std::function<void()>& action) {
  try {
    action();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

class TokenStores : public ::testing::Test {
 protected:
  TokenStores() { fs::create_directories(folder_); }
  ~TokenStores() override { fs::remove_all(folder_); }

  std::string write(const std::string& name, const std::string& text) const {
    std::ofstream(folder_ / name) << text;
    return (folder_ / name).string();
  }
  // Points of a sweep, each in a voxel of its own.
  std::string write_sweep(const std::string& name, int points) const {
    std::string text =
        "VERSION 0.7\nFIELDS x y z intensity\nSIZE 4 4 4 4\nTYPE F F F F\n"
        "COUNT 1 1 1 1\nWIDTH " +
        std::to_string(points) + "\nHEIGHT 1\nPOINTS " + std::to_string(points) + "\nDATA ascii\n";
    for (int i = 0; i < points; ++i) text += std::to_string(3 * i) + " 1 0 0.5\n";
    return write(name, text);
  }

  const fs::path folder_ = fs::path(::testing::TempDir()) / ("tokens_" + std::to_string(getpid()));
};

TEST_F(TokenStores, TakeTheFileInEverySourceOfItsKind) {
  const std::string sweep = write_sweep("mine.pcd", 5);
  TokenStore store({sweep});
  EXPECT_EQ(store.source(kSweep).file, sweep);
  EXPECT_EQ(store.source(kSweep).voxel_size, 1);
  EXPECT_EQ(store.source("lidar:file=other.pcd").file, sweep);
  EXPECT_EQ(store.source(kImage).file, "");
  EXPECT_TRUE(store.takes_users_file(kSweep));
  EXPECT_FALSE(store.takes_users_file(kImage));
  EXPECT_EQ(store.take(kSweep).count, 5);
  EXPECT_THAT(store.take(kSweep).source, HasSubstr("mine.pcd"));
  EXPECT_EQ(TokenStore({}).source(kSweep).file, "");
  EXPECT_FALSE(TokenStore({}).takes_users_file(kSweep));
}

// The file may be gone by then, and the tokens stay where they are.
TEST_F(TokenStores, LoadEachSourceOnce) {
  const std::string sweep = write_sweep("mine.pcd", 5);
  TokenStore store({sweep});
  EXPECT_EQ(store.seconds(), 0);
  const Tokens& first = store.take(kSweep);
  const double seconds = store.seconds();
  EXPECT_GT(seconds, 0);
  fs::remove(sweep);
  EXPECT_EQ(&store.take(kSweep), &first);
  EXPECT_EQ(store.seconds(), seconds);
  EXPECT_NE(&store.take(kImage), &first);
  EXPECT_THROW(store.take("lidar:voxel_size=2"), Error) << "another source of the same file";
}

TEST_F(TokenStores, NameAFileThatNoLineUses) {
  const std::string sweep = write_sweep("mine.pcd", 5), image = write("mine.png", "no picture");
  const TokenStore store({image, sweep});
  EXPECT_EQ(store.unused_file({kSweep, kImage}), "");
  EXPECT_EQ(store.unused_file({kSweep}), image);
  EXPECT_EQ(store.unused_file({kImage, kImage}), sweep);
  EXPECT_EQ(TokenStore({}).unused_file({kSweep}), "");
}

TEST_F(TokenStores, RefuseWhatIsNoFileOfTokens) {
  const std::string sweep = write_sweep("mine.pcd", 5), again = write_sweep("again.pcd", 5);
  EXPECT_THAT(complaint_of([&] { TokenStore({sweep, again}); }),
              HasSubstr("again.pcd: there is another sweep already"));
  EXPECT_THAT(complaint_of([&] { TokenStore({write("a.png", ""), write("b.jpg", "")}); }),
              HasSubstr("b.jpg: there is another image already"));
  EXPECT_THAT(complaint_of([&] { TokenStore({write("poem.txt", "roses")}); }),
              HasSubstr("poem.txt: a sweep ends in "));
  EXPECT_THAT(complaint_of([&] { TokenStore({(folder_ / "none.pcd").string()}); }),
              HasSubstr("none.pcd: no such file; name a sweep ("));
  EXPECT_THAT(complaint_of([&] { TokenStore({folder_.string()}); }), HasSubstr("no such file"));
}

}  // namespace
}  // namespace attest::core
