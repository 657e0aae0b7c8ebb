// What the doctor says of made-up boards in good and in bad order.
#include "core/measure/machine/doctor/board_doctor.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/measure/testing/fake_board.hpp"

namespace attest::core {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::StartsWith;

/// All lines of that name: "found -> advice".
std::vector<std::string> lines_of(const FakeBoard& board, const std::string& what) {
  std::vector<std::string> lines;
  for (const Finding& finding : diagnose_board(board.state(), board.path()))
    if (finding.what == what) lines.push_back(finding.found + " -> " + finding.advice);
  return lines;
}

TEST(BoardDoctor, SaysWhatToSet) {
  const FakeBoard board("agx64", 6);
  const auto line = [&](const char* what) {
    const std::vector<std::string> lines = lines_of(board, what);
    return lines.empty() ? std::string("none") : lines.front();
  };
  EXPECT_EQ(line("board"), "Jetson AGX Orin 64GB -> ");
  EXPECT_EQ(line("JetPack"), "6 (R36.4.3) -> ");
  EXPECT_EQ(line("power mode"),
            "2 (MODE_30W); 8 multiprocessors; memory up to 204.7 GB/s -> another one: sudo "
            "nvpmodel -m ID; ids: grep POWER_MODEL /etc/nvpmodel.conf");
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
  EXPECT_THAT(lines_of(board, "not read"),
              ElementsAre(AllOf(
                  StartsWith("celsius_cv0_thermal (temp: Resource temporarily unavailable) -> "),
                  HasSubstr("that is normal"))));
}

TEST(BoardDoctor, InOrderNeedsNothing) {
  const FakeBoard board("nx16", 7);
  board.lock_clocks();
  board.write("sys/class/hwmon/hwmon0/pwm1", "255\n");
  board.remove("proc/1877");
  board.write("proc/meminfo",
              "MemTotal: 15650000 kB\nMemAvailable: 14000000 kB\nNvMapMemUsed: 805068 kB\n");
  board.write("sys/devices/platform/soctherm-oc-event/hwmon/hwmon2/oc3_event_cnt", "0\n");
  board.remove("sys/class/thermal/thermal_zone2");
  const auto findings = diagnose_board(board.state(), board.path());
  EXPECT_GE(findings.size(), 7u);
  for (const Finding& finding : findings)
    EXPECT_EQ(int(finding.kind), int(Finding::Kind::kOk)) << finding.what << ": " << finding.found;
}

TEST(BoardDoctor, SaysWhatWasUndoneAndCannotBeSeen) {
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
}

TEST(BoardDoctor, SaysOfEachValueThatIsNotReadWhatHelps) {
  FakeBoard board("nano8", 6);
  const std::string rail = "sys/class/hwmon/hwmon3/in1_input", emc = "sys/kernel/debug";
  board.write(rail, "garbage\n");
  board.remove("sys/devices/platform/gpu.0/tpc_pg_mask");
  const auto without = AllOf(
      StartsWith("multiprocessors (tpc_pg_mask: No such file or directory), "), HasSubstr("watts"),
      EndsWith(" -> attest does without these values, and reports lack them"));
  const auto off = AllOf(StartsWith("celsius_cv0_thermal (temp: Resource temporarily"),
                         Not(HasSubstr(", ")), EndsWith("that is normal"));
  EXPECT_THAT(lines_of(board, "not read"), ElementsAre(off, without));
  board.forbid(emc);
  {
    const Unprivileged nobody;
    EXPECT_THAT(lines_of(board, "not read"),
                ElementsAre(AllOf(HasSubstr("memory_mhz (rate: Permission denied)"),
                                  EndsWith("is known: sudo attest doctor")),
                            off, without));
  }
  // A temperature that is no number is not that of a part that is off, and root helps with no file
  // that is missing.
  const FakeBoard thor("thor", 7);
  thor.write("sys/class/thermal/thermal_zone0/temp", "garbage\n");
  thor.remove("sys/class/devfreq/bwmgr");
  EXPECT_THAT(lines_of(thor, "not read"),
              ElementsAre(EndsWith("that is normal"),
                          AllOf(HasSubstr("celsius_"), HasSubstr("memory_mhz (rate: No such"),
                                EndsWith("reports lack them"))));
}

TEST(BoardDoctor, LooksForLocksAtTheCpusThatAreOn) {
  for (const int jetpack : {6, 7}) {
    const FakeBoard board("agx64", jetpack);
    board.lock_clocks();
    EXPECT_THAT(lines_of(board, "clocks"), ElementsAre("locked, all three -> ")) << jetpack;
    EXPECT_THAT(lines_of(board, "undone"), IsEmpty()) << jetpack;
  }
}

TEST(BoardDoctor, SaysWhatHappensWhileItLooks) {
  const FakeBoard board("nx16", 6);
  board.lock_clocks();
  const BoardState before = board.state();
  EXPECT_TRUE(diagnose_changes(before, before).empty());
  board.write("var/lib/nvpmodel/status", "pmode:0003\n");
  const auto findings = diagnose_changes(before, board.state());
  ASSERT_EQ(findings.size(), 1u);
  EXPECT_EQ(findings[0].found, "the power mode changed from 0 (MAXN) to 3 (25W)");
}

TEST(BoardDoctor, SaysWhichModuleOrReleaseIsNotKnown) {
  const FakeBoard board("agx64", 6);
  board.write("proc/device-tree/compatible", std::string("nvidia,tegra234\0", 16));
  EXPECT_THAT(lines_of(board, "board"),
              ElementsAre(AllOf(StartsWith("NVIDIA Jetson AGX Orin Developer Kit (compatible: it "),
                                HasSubstr("attest does not know its bus of memory"))));
  board.remove("proc/device-tree/model");
  EXPECT_THAT(lines_of(board, "board"), ElementsAre(StartsWith("unknown (compatible: ")));
  board.write("etc/nv_tegra_release", "# R37 (release), REVISION: 1.0\n");
  EXPECT_THAT(lines_of(board, "JetPack"), ElementsAre("R37.1.0 -> attest knows JetPack 6 and 7"));
  board.remove("etc/nv_tegra_release");
  EXPECT_THAT(lines_of(board, "JetPack"), ElementsAre(StartsWith("nv_tegra_release: No such")));
}

TEST(BoardDoctor, SaysHowOftenTheHardwareThrottled) {
  const FakeBoard board("agx64", 6);
  const std::string events = "sys/devices/platform/soctherm-oc-event/hwmon/hwmon2/";
  board.write(events + "oc1_event_cnt", "2\n");
  board.write(events + "oc2_event_cnt", "5\n");
  EXPECT_THAT(
      lines_of(board, "over-current"),
      ElementsAre("2 times since boot: low voltage (OC1) -> a better power supply, or a lower "
                  "power mode",
                  StartsWith("5 times since boot: high mean current (OC2) -> a better"),
                  StartsWith("17 times since boot: high current for a moment (OC3) -> often")));
  board.write("sys/class/thermal/cooling_device1/cur_state", "1\n");
  board.write("sys/class/thermal/cooling_device2/cur_state", "2\n");
  EXPECT_THAT(lines_of(board, "throttling"),
              ElementsAre(StartsWith("cpu-throttle-alert, gpu-throttle-alert -> cool it")));
}

TEST(BoardDoctor, SeesTheFanOfJetPack5AndWholeDesktops) {
  const FakeBoard board("nx16", 5);
  EXPECT_THAT(lines_of(board, "fan"), ElementsAre(StartsWith("90 of 255")));
  board.write("sys/devices/pwm-fan/target_pwm", "255\n");
  EXPECT_THAT(lines_of(board, "fan"), ElementsAre("255 of 255 -> "));
  board.write("proc/1500/comm", "Xorg\n");
  board.write("proc/1501/comm", "Xorg\n");
  EXPECT_THAT(lines_of(board, "desktop"), ElementsAre(StartsWith("Xorg, gnome-shell -> ")));
}

}  // namespace
}  // namespace attest::core
