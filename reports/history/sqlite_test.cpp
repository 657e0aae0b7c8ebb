// A database that another process holds locked.
#include "reports/history/sqlite.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

#include "core/tensor/error.hpp"
#include "testing/folder_test.hpp"

namespace attest::reports {
namespace {

using namespace std::chrono_literals;

class Locked : public attest::testing::FolderTest {
 protected:
  const std::string path_ = (folder_ / "index.sqlite").string();
};

TEST_F(Locked, IsTheMachinesFaultIfItStaysSo) {
  Database holder(path_, true);
  holder.run("CREATE TABLE points (x); BEGIN EXCLUSIVE");
  Database late(path_, false, 20ms);
  try {
    late.run("INSERT INTO points VALUES (1)");
    FAIL() << "it was written while another process held it";
  } catch (const core::MachineError& error) {
    EXPECT_THAT(error.what(), ::testing::HasSubstr("database is locked"));
  }
  holder.run("COMMIT");
  late.run("INSERT INTO points VALUES (1)");
  EXPECT_EQ(late.number("SELECT count(*) FROM points"), 1);
}

TEST_F(Locked, IsWaitedForUntilItIsFree) {
  Database holder(path_, true);
  holder.run("CREATE TABLE points (x); BEGIN EXCLUSIVE");
  std::jthread release([&] {
    std::this_thread::sleep_for(50ms);
    holder.run("COMMIT");
  });
  Database late(path_, false);
  late.run("INSERT INTO points VALUES (1)");
  EXPECT_EQ(late.number("SELECT count(*) FROM points"), 1);
}

}  // namespace
}  // namespace attest::reports
