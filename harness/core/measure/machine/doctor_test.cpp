// What the doctor says of machines in good and in bad order.
#include "core/measure/machine/doctor.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>

#include "core/device/testing/fake_elf.hpp"
#include "core/measure/machine/board_doctor.hpp"
#include "core/measure/testing/fake_board.hpp"

namespace attest::core {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;
using Kind = Finding::Kind;

std::optional<Finding> find(const std::vector<Finding>& findings, const std::string& what) {
  for (const Finding& finding : findings)
    if (finding.what == what) return finding;
  return std::nullopt;
}

void write_machine(const FakeRoot& root, bool good) {
  const std::string cpu = "sys/devices/system/cpu/";
  root.write("proc/cpuinfo", good ? "model name\t: A\nflags\t: avx2\n"
                                  : "model name\t: A\nflags\t: avx2 hypervisor\n");
  root.write(cpu + "cpu0/cpufreq/scaling_governor", good ? "performance" : "powersave");
  root.write(cpu + "cpufreq/boost", good ? "0" : "1");
  root.write(cpu + "smt/active", good ? "0" : "1");
  root.write("proc/loadavg", good ? "0.02 0 0" : "3.5 0 0");
  root.write("proc/stat", good ? "cpu 1 1 1 97 0 0 0 0" : "cpu 1 1 1 94 0 0 0 3");
  root.write(
      "proc/meminfo",
      good ? "MemTotal: 8000000 kB\nMemAvailable: 7000000 kB\nSwapTotal: 0 kB\nSwapFree: 0 kB\n"
           : "MemTotal: 8000000 kB\nMemAvailable: 7000 kB\nSwapTotal: 2000000 kB\nSwapFree: "
             "1000000 kB\n");
  root.write("sys/kernel/mm/transparent_hugepage/enabled",
             good ? "always [madvise] never" : "always madvise [never]");
  root.write("sys/devices/system/clocksource/clocksource0/current_clocksource",
             good ? "tsc" : "hpet");
}

TEST(Doctor, AHealthyMachineNeedsNothing) {
  const FakeRoot root;
  write_machine(root, true);
  const auto findings = diagnose_machine(root.path());
  EXPECT_GE(findings.size(), 8u);
  for (const Finding& finding : findings) {
    EXPECT_EQ(int(finding.kind), int(Kind::kOk)) << finding.what;
    EXPECT_EQ(finding.advice, "") << finding.what;
    EXPECT_NE(finding.found, "") << finding.what;
  }
}

TEST(Doctor, EachFaultIsNamedWithAdvice) {
  const FakeRoot root;
  write_machine(root, false);
  const auto findings = diagnose_machine(root.path());
  for (const char* what :
       {"virtual machine", "frequency governor", "turbo", "hardware threads (SMT)", "load",
        "stolen CPU time", "swap in use", "transparent huge pages", "clock source"}) {
    const auto finding = find(findings, what);
    ASSERT_TRUE(finding) << what;
    EXPECT_EQ(int(finding->kind), int(Kind::kNote)) << what;
    EXPECT_NE(finding->advice, "") << what;
  }
}

/// All lines of that name: "found -> advice".
std::vector<std::string> lines_of(const FakeRoot& root, const std::string& what) {
  std::vector<std::string> lines;
  for (const Finding& finding : diagnose_machine(root.path()))
    if (finding.what == what) lines.push_back(finding.found + " -> " + finding.advice);
  return lines;
}

TEST(Doctor, OfABoardSaysWhatToSet) {
  const FakeBoard board("agx64", 6);
  const auto line = [&](const char* what) {
    const std::vector<std::string> lines = lines_of(board, what);
    return lines.empty() ? std::string("none") : lines.front();
  };
  EXPECT_EQ(line("board"), "Jetson AGX Orin 64GB -> ");
  EXPECT_EQ(line("JetPack"), "6 (R36.4.3) -> ");
  EXPECT_THAT(line("power mode"),
              AllOf(StartsWith("2 (MODE_30W); 8 multiprocessors; memory up to 204.7 GB/s -> "),
                    HasSubstr("sudo nvpmodel -m ID")));
  EXPECT_THAT(
      lines_of(board, "clocks"),
      ElementsAre("the clock of the GPU is not locked: 306 to 612 MHz -> sudo nvpmodel -m 2 "
                  "&& sudo jetson_clocks",
                  HasSubstr("the memory is not locked: 204 to 3199 MHz"),
                  HasSubstr("the CPUs is not locked: 730 to 1728 MHz")));
  EXPECT_EQ(line("undone"), "none") << "nothing says that they were locked";
  EXPECT_THAT(line("fan"), AllOf(StartsWith("90 of 255"), HasSubstr("jetson_clocks --fan")));
  EXPECT_THAT(line("desktop"), AllOf(StartsWith("gnome-shell"), HasSubstr("multi-user.target")));
  EXPECT_THAT(line("swap"), AllOf(StartsWith("30.7 GiB"), HasSubstr("sudo swapoff -a")));
  EXPECT_THAT(line("over-current"), StartsWith("17 times since boot: high current for a moment"));
  EXPECT_EQ(line("throttling"), "none");
  EXPECT_THAT(line("not read"),
              AllOf(StartsWith("celsius_cv0_thermal (temp: Resource temporarily unavailable)"),
                    HasSubstr("that is normal")));
}

TEST(Doctor, OfABoardInOrderNeedsNothing) {
  const FakeBoard board("nx16", 7);
  board.lock_clocks();
  board.write("sys/class/hwmon/hwmon0/pwm1", "255\n");
  board.remove("proc/1877");
  board.write("proc/meminfo",
              "MemTotal: 15650000 kB\nMemAvailable: 14000000 kB\nNvMapMemUsed: 805068 kB\n");
  board.write("sys/devices/platform/soctherm-oc-event/hwmon/hwmon2/oc3_event_cnt", "0\n");
  board.remove("sys/class/thermal/thermal_zone2");
  const auto findings = diagnose_board(read_board(board.path()).value(), board.path());
  EXPECT_GE(findings.size(), 7u);
  for (const Finding& finding : findings)
    EXPECT_EQ(int(finding.kind), int(Kind::kOk)) << finding.what << ": " << finding.found;
}

TEST(Doctor, OfABoardSaysWhatWasUndoneAndCannotBeSeen) {
  const FakeBoard board("nano8", 6);
  board.lock_clocks();
  board.write("sys/class/devfreq/17000000.gpu/min_freq", "306000000\n");
  board.write("sys/class/thermal/cooling_device2/cur_state", "1\n");
  EXPECT_THAT(lines_of(board, "undone"), ElementsAre(HasSubstr("undoes jetson_clocks")));
  EXPECT_THAT(lines_of(board, "throttling"), ElementsAre(StartsWith("gpu-throttle-alert")));
  EXPECT_THAT(lines_of(FakeBoard("nx16", 5), "JetPack"),
              ElementsAre(AllOf(StartsWith("5 (R35.4.1)"), HasSubstr("install JetPack 6"))));
  board.remove("var/lib/nvpmodel/status");
  EXPECT_THAT(lines_of(board, "power mode"), ElementsAre(StartsWith("status: No such file")));
  board.remove("sys/class/hwmon/hwmon0");
  EXPECT_THAT(lines_of(board, "fan"), ElementsAre(StartsWith("not seen (target_pwm: No such")));
  board.forbid("sys/kernel/debug");
  const Unprivileged nobody;
  EXPECT_THAT(lines_of(board, "not read"),
              ElementsAre(AllOf(HasSubstr("memory_mhz (rate: Permission denied)"),
                                HasSubstr("sudo attest doctor"))));
}

TEST(Doctor, SaysWhatHappensWhileItLooks) {
  const FakeBoard board("nx16", 6);
  board.lock_clocks();
  const BoardState before = read_board(board.path()).value();
  EXPECT_TRUE(diagnose_changes(before, before).empty());
  board.write("var/lib/nvpmodel/status", "pmode:0003\n");
  const auto findings = diagnose_changes(before, read_board(board.path()).value());
  ASSERT_EQ(findings.size(), 1u);
  EXPECT_EQ(findings[0].found, "the power mode changed from 0 (MAXN) to 3 (25W)");
}

TEST(Doctor, SaysWhetherKernelsAreForThisDevice) {
  const FakeRoot folder;
  folder.write("mine.so", fake_elf(".nv_fatbin", fake_container({{2, 90, 0x100011}})));
  folder.write("old.so", fake_elf(".nv_fatbin", fake_container({{2, 80, 0x11}})));
  folder.write("late.so", fake_elf(".text", "made at run time"));
  const auto say = [&](const std::string& architecture) {
    std::vector<std::string> said;
    for (const Finding& finding : diagnose_kernels(
             {folder.path() / "mine.so", folder.path() / "old.so", folder.path() / "late.so"},
             architecture))
      said.push_back(std::string(finding.kind == Kind::kOk     ? "ok "
                                 : finding.kind == Kind::kNote ? "note "
                                                               : "none ") +
                     finding.what + ": " + finding.found);
    return said;
  };
  EXPECT_THAT(say("sm_87"), ElementsAre("none kernels of mine: no kernel for sm_87: it has sm_90a",
                                        "note kernels of old: sm_80, which sm_87 may take or not"));
  EXPECT_THAT(say("sm_90"), ElementsAre("ok kernels of mine: sm_90a",
                                        "none kernels of old: no kernel for sm_90: it has sm_80"));
  const auto none = diagnose_kernels({}, "sm_87");
  ASSERT_EQ(none.size(), 1u);
  EXPECT_EQ(none[0].found, "no kernel for sm_87: no plugin is for CUDA");
  EXPECT_THAT(none[0].advice, HasSubstr("-DATTEST_CUDA_ARCHITECTURES=87-real"));
}

TEST(Doctor, AnEmptyMachineIsNoError) { EXPECT_FALSE(diagnose_machine(FakeRoot().path()).empty()); }

TEST(Doctor, WhatIsMissingHasAdvice) {
  const auto findings = diagnose();
  EXPECT_TRUE(find(findings, "CUDA"));
  EXPECT_TRUE(find(findings, "performance counters"));
  EXPECT_TRUE(find(findings, "Highway"));
  for (const Finding& finding : findings) {
    EXPECT_FALSE(finding.what.empty() || finding.found.empty()) << finding.what;
    EXPECT_TRUE(finding.kind != Kind::kMissing || !finding.advice.empty()) << finding.what;
  }
}

}  // namespace
}  // namespace attest::core
