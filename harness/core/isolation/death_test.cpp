// How workers end: scripts stand in for a supervisor and its worker, and report an end.
#include "core/isolation/death.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>

namespace attest::core {
namespace {

class Death : public ::testing::Test {
 protected:
  ~Death() override { std::filesystem::remove(script_); }

  // Explains the death of a worker whose end is `how`, as waitpid says, and that has done before
  // what `commands` say.
  Outcome of(int how, const std::string& commands = "") {
    const SupervisorReport report{.worker = 1, .ended = 1, .how = how, .strays = 0};
    std::string octal;
    for (const unsigned char byte :
         std::string(reinterpret_cast<const char*>(&report), sizeof(report)))
      octal += fmt::format("\\{:03o}", byte);
    std::filesystem::remove(script_);
    std::ofstream(script_) << "#!/bin/sh\n" << commands << "\nprintf '" << octal << "' >&5\n";
    chmod(script_.c_str(), 0700);
    Worker worker("plugin.so", {.executable = script_, .cpus = "", .limits = {}});
    EXPECT_EQ(worker.ended(20), how);
    return explain_death(worker, nullptr);
  }
  static int exited(int code) { return code << 8; }
  // Writes into the page, whose first bytes are its stage.
  static std::string at_stage(Stage stage) {
    return fmt::format("printf '\\{:03o}' >&4", int(stage));
  }

  std::filesystem::path script_ =
      std::filesystem::path(::testing::TempDir()) / ("worker_" + std::to_string(getpid()));
};

TEST_F(Death, ByExitHasItsCodeAndLastWords) {
  const Outcome quiet = of(exited(7));
  EXPECT_EQ(quiet.code, ReasonCode::kCrashExit);
  EXPECT_EQ(quiet.reason, "exited with 7 starting");
  EXPECT_EQ(of(exited(1), "echo out of wits").reason,
            "exited with 1 starting; it said: out of wits");
  EXPECT_EQ(of(exited(0), at_stage(Stage::kRun)).reason, "exited with 0 in run");
}

TEST_F(Death, ByALostConnectionIsNoExit) {
  const Outcome lost = of(exited(kLostConnection));
  EXPECT_EQ(lost.code, ReasonCode::kCrashExit);
  EXPECT_EQ(lost.reason, "closed its connection starting");
}

TEST_F(Death, BySignalNamesIt) {
  const Outcome fault = of(SIGSEGV, at_stage(Stage::kCreate));
  EXPECT_EQ(fault.code, ReasonCode::kCrashSignal);
  EXPECT_EQ(fault.reason, "SIGSEGV in create");
  EXPECT_EQ(of(40).reason, "signal 40 starting");
}

// A page on which tensor O lies in a map that is longer by a page on either end.
bool is_late(uint64_t address, int32_t returned, Fault fault = Fault::kAddress, int32_t slots = 1) {
  StatusPage page{};
  page.stage = Stage::kRun;
  page.fault = fault;
  page.fault_address = address;
  page.returned = returned;
  page.slot_count = slots;
  page.slots[0] = {.role = ATTEST_O,
                   .reserved = 0,
                   .map_begin = 0xf000000,
                   .map_end = 0xf003000,
                   .data_begin = 0xf001000,
                   .data_end = 0xf002000};
  page.retired[5] = {0xa000000, 0xa001000};
  return faulted_late(page);
}

TEST(LateFault, IsWhereTensorsWereBeforeRunReturned) {
  constexpr auto kGuard = uint64_t(kGuardBytes);
  EXPECT_TRUE(is_late(0xf001000, 1));
  EXPECT_FALSE(is_late(0xf001000, 0)) << "run has not returned";
  EXPECT_TRUE(is_late(0xf003000 + kGuard - 1, 1)) << "guards belong to a tensor";
  EXPECT_FALSE(is_late(0xf003000 + kGuard, 1));
  EXPECT_TRUE(is_late(0xf000000 - kGuard, 1));
  EXPECT_FALSE(is_late(0xf000000 - kGuard - 1, 1));
}

TEST(LateFault, IsWhereTensorsOfAnEarlierRunWere) {
  EXPECT_TRUE(is_late(0xa000000, 0));
  EXPECT_TRUE(is_late(0xa000fff, 0));
  EXPECT_FALSE(is_late(0xa001000, 0));
  EXPECT_FALSE(is_late(0x9ffffff, 0));
  EXPECT_FALSE(is_late(0xa000000, 0, Fault::kStack));
}

// A worker may have written anything on its page.
TEST(LateFault, TrustsNoCountOfSlots) {
  EXPECT_TRUE(is_late(0xf001000, 1, Fault::kAddress, 1 << 30));
  EXPECT_FALSE(is_late(0xf001000, 1, Fault::kAddress, -1));
  EXPECT_FALSE(is_late(0xf001000, 1, Fault::kAddress, 0));
}

TEST(Doing, SaysWhereTheWorkerIs) {
  StatusPage at{};
  EXPECT_EQ(doing(at), "starting");
  at.stage = Stage::kDestroy;
  EXPECT_EQ(doing(at), "in destroy");
  at.stage = Stage::kTime;
  at.runs = 17;
  EXPECT_EQ(doing(at), "in timed run 17");
  at.stage = Stage(99);
  EXPECT_EQ(doing(at), "in a timed run");
  at.stage = Stage(-1);
  EXPECT_EQ(doing(at), "starting");
}

}  // namespace
}  // namespace attest::core
