// What the doctor says of machines in good and in bad order.
#include "core/measure/machine/doctor/doctor.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>

#include "core/device/testing/fake_elf.hpp"
#include "core/measure/testing/fake_board.hpp"

namespace attest::core {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
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
  EXPECT_EQ(none[0].advice,
            "build attest for this device: cmake -DATTEST_CUDA=on -DATTEST_CUDA_ARCHITECTURES=87; "
            "of another plugin: nvcc -gencode arch=compute_87,code=[sm_87,compute_87], which is "
            "SASS and PTX");
  EXPECT_THAT(diagnose_kernels({}, "sm_90")[0].advice,
              ::testing::HasSubstr("ATTEST_CUDA_ARCHITECTURES=90a; of another plugin: nvcc "
                                   "-gencode arch=compute_90,"));
}

// Clocks that jetson_clocks has locked need nothing more, whatever their governor is.
TEST(Doctor, OfABoardLeavesTheGovernorToItsClocks) {
  const FakeBoard board("agx64", 6);
  board.lock_clocks();
  const auto findings = diagnose_machine(board.path());
  EXPECT_FALSE(find(findings, "frequency governor"));
  ASSERT_TRUE(find(findings, "clocks"));
  EXPECT_EQ(find(findings, "clocks")->found, "locked, all three");
  ASSERT_TRUE(find(findings, "cpu"));
  EXPECT_THAT(find(findings, "cpu")->found,
              ::testing::StartsWith("NVIDIA Jetson AGX Orin Developer Kit; may use "));
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
