// Clocks, ticks, throttling and temperatures from files of several machines; what counts as a
// disturbance.
#include "core/measure/machine/machine_state.hpp"

#include <gtest/gtest.h>

#include "core/measure/testing/fake_board.hpp"

namespace attest::core {
namespace {

TEST(MachineState, OfAnX86Machine) {
  const FakeRoot root;
  root.write("proc/loadavg", "1.25 0.50 0.10 2/300 4242\n");
  root.write("proc/pressure/cpu", "some avg10=3.50 avg60=1.00 avg300=0.00 total=99\n");
  root.write("proc/stat", "cpu  100 0 50 800 10 5 5 30 7 0\ncpu0 1 2 3\n");
  for (const char* cpu : {"cpu0", "cpu1"}) {
    const std::string folder = std::string("sys/devices/system/cpu/") + cpu;
    root.write(folder + "/cpufreq/scaling_cur_freq", cpu[3] == '0' ? "2400000\n" : "3600000\n");
    root.write(folder + "/thermal_throttle/core_throttle_count", "2\n");
    root.write(folder + "/thermal_throttle/package_throttle_count", "50\n");
  }
  root.write("sys/class/thermal/thermal_zone0/type", "x86_pkg_temp\n");
  root.write("sys/class/thermal/thermal_zone0/temp", "61500\n");
  root.write("sys/class/hwmon/hwmon1/name", "k10temp\n");
  root.write("sys/class/hwmon/hwmon1/temp1_input", "55250\n");
  const MachineState state = read_machine_state(root.path());
  EXPECT_EQ(state.load_1min, 1.25);
  EXPECT_EQ(state.cpu_pressure, 3.5);
  EXPECT_EQ(state.min_mhz, 2400);
  EXPECT_EQ(state.max_mhz, 3600);
  EXPECT_EQ(state.steal_ticks, 30u);
  EXPECT_EQ(state.total_ticks, 1000u);  // guests are within user time
  EXPECT_EQ(state.throttle_events, 4u);
  EXPECT_EQ(state.temperatures_c.at("x86_pkg_temp"), 61.5);
  EXPECT_EQ(facts(state).at("celsius_k10temp"), "55.2");
}

TEST(MachineState, OfAnOrinHasItsBoard) {
  const MachineState state = read_machine_state(FakeBoard("agx64", 6).path());
  ASSERT_TRUE(state.board);
  EXPECT_EQ(state.board->gpu.now_mhz.value, 306);
  EXPECT_EQ(state.max_mhz, 729.6);
  EXPECT_EQ(state.temperatures_c.count("cv0-thermal"), 0u) << "EAGAIN while it is off";
  EXPECT_FALSE(read_machine_state(FakeRoot().path()).board);
}

TEST(MachineState, OfAVirtualMachine) {
  const FakeRoot root;
  root.write("proc/cpuinfo", "cpu MHz\t\t: 2596.122\n\ncpu MHz\t\t: 3000.5\n");
  EXPECT_EQ(read_machine_state(root.path()).min_mhz, 2596.122);
  EXPECT_EQ(read_machine_state(root.path()).max_mhz, 3000.5);
  EXPECT_FALSE(read_machine_state(FakeRoot().path()).max_mhz.has_value());
}

TEST(MachineState, OfThisMachine) {
  const MachineState state = read_machine_state();
  EXPECT_TRUE(state.load_1min.has_value());
  EXPECT_GT(state.total_ticks, 0u);
}

TEST(Disturbances, QuietIsQuiet) {
  const MachineState before{
      .max_mhz = 3000, .steal_ticks = 10, .total_ticks = 1000, .throttle_events = 5};
  MachineState after{.max_mhz = 2800, .steal_ticks = 10, .total_ticks = 2000, .throttle_events = 5};
  EXPECT_TRUE(disturbances(before, after).empty());
  EXPECT_TRUE(disturbances(MachineState{}, MachineState{}).empty());
  after.steal_ticks = 20;  // 1 %
  EXPECT_TRUE(disturbances(before, after).empty());
}

TEST(Disturbances, EachIsTold) {
  const MachineState before{
      .max_mhz = 3000, .steal_ticks = 10, .total_ticks = 1000, .throttle_events = 5};
  const MachineState after{
      .max_mhz = 2000, .steal_ticks = 60, .total_ticks = 2000, .throttle_events = 8};
  const std::vector<std::string> notes = disturbances(before, after);
  ASSERT_EQ(notes.size(), 3u);
  EXPECT_EQ(notes[0], "the CPU was throttled 3 times");
  EXPECT_EQ(notes[1], "the hypervisor gave 5.0 % of the CPU time to others");
  EXPECT_EQ(notes[2], "the CPU's clock fell from 3000 to 2000 MHz");
}

TEST(MachineState, HasTheCapOfTheClocksAndTheErrorsOfMemory) {
  const FakeRoot root;
  root.write("sys/devices/system/cpu/cpu0/cpufreq/scaling_max_freq", "2400000\n");
  root.write("sys/devices/system/cpu/cpu1/cpufreq/scaling_max_freq", "3600000\n");
  root.write("sys/devices/system/edac/mc/mc0/ce_count", "2\n");
  root.write("sys/devices/system/edac/mc/mc0/ue_count", "0\n");
  const MachineState state = read_machine_state(root.path());
  EXPECT_EQ(state.cap_mhz, 3600);
  EXPECT_EQ(facts(state).at("cap_mhz"), "3600");
  EXPECT_EQ(state.corrected_errors, 2u);
  EXPECT_EQ(state.uncorrected_errors, 0u);
  EXPECT_FALSE(read_machine_state(FakeRoot().path()).corrected_errors);
}

TEST(MachineState, HasTheClocksOfTheCpusThatAreOn) {
  const MachineState state = read_machine_state(FakeBoard("agx64", 6).path());
  EXPECT_EQ(state.max_mhz, 729.6);
  EXPECT_EQ(state.cap_mhz, 1728);
}

// Frames and energy come after the timed runs, and end with an idle CPU.
TEST(Disturbances, AreThoseOfTheWorkAndEventsUntilTheEnd) {
  const MachineState before{.max_mhz = 3000, .steal_ticks = 10, .total_ticks = 1000},
      busy{.max_mhz = 2900, .steal_ticks = 20, .total_ticks = 1100},
      last{.max_mhz = 800, .steal_ticks = 20, .total_ticks = 9000, .throttle_events = 2};
  EXPECT_EQ(disturbances(before, after_work(busy, last)),
            (std::vector<std::string>{"the CPU was throttled 2 times",
                                      "the hypervisor gave 10.0 % of the CPU time to others"}));
}

TEST(Disturbances, ErrorsOfMemoryAreTold) {
  const MachineState before{.corrected_errors = 2, .uncorrected_errors = 1};
  EXPECT_EQ(disturbances(before, {.corrected_errors = 5, .uncorrected_errors = 1}),
            std::vector<std::string>{"errors of the memory that were corrected: 3"});
  EXPECT_EQ(disturbances(before, {.corrected_errors = 2, .uncorrected_errors = 2}),
            std::vector<std::string>{"errors of the memory that were uncorrected: 1"});
  EXPECT_TRUE(disturbances(before, {}).empty()) << "they can no longer be read";
}

TEST(ChangedLimits, AreThrottlingAndOtherCaps) {
  const MachineState before{.max_mhz = 3000, .throttle_events = 5, .cap_mhz = 3600};
  EXPECT_TRUE(
      changed_limits(before, {.max_mhz = 800, .throttle_events = 5, .cap_mhz = 3600}).empty())
      << "an idle CPU is slow";
  EXPECT_TRUE(changed_limits(before, {.throttle_events = 5}).empty());
  EXPECT_EQ(changed_limits(before, {.throttle_events = 7, .cap_mhz = 2400}),
            (std::vector<std::string>{"the CPU was throttled 2 times",
                                      "the cap of the CPU's clock changed from 3600 to 2400 MHz"}));
}

TEST(ChangedLimits, OfABoardAreItsPowerMode) {
  const FakeBoard board("nx16", 6);
  const MachineState before = read_machine_state(board.path());
  EXPECT_TRUE(changed_limits(before, before).empty());
  board.write("var/lib/nvpmodel/status", "pmode:0002\n");
  EXPECT_EQ(changed_limits(before, read_machine_state(board.path())),
            std::vector<std::string>{"the power mode changed from 0 (MAXN) to 2 (15W)"});
}

TEST(Disturbances, OfABoardAreItsDoubts) {
  const FakeBoard board("nx16", 6);
  board.lock_clocks();
  const MachineState before = read_machine_state(board.path());
  board.write("var/lib/nvpmodel/status", "pmode:0002\n");
  EXPECT_EQ(disturbances(before, read_machine_state(board.path())),
            std::vector<std::string>{"the power mode changed from 0 (MAXN) to 2 (15W)"});
}

TEST(DeviceState, IsKeyAndText) {
  const DeviceState state{
      .sm_mhz = 1980, .energy_j = 1234567.25, .ecc = "on", .held_down_by = {"power cap", "heat"}};
  const std::map<std::string, std::string> expected = {{"sm_mhz", "1980"},
                                                       {"ecc", "on"},
                                                       {"energy_j", "1234567.25"},
                                                       {"held_down_by", "power cap, heat"}};
  EXPECT_EQ(facts(state), expected);
  EXPECT_TRUE(facts(DeviceState{}).empty());
}

TEST(DeviceState, WhatHoldsClocksDownIsADisturbance) {
  const DeviceState good{.sm_mhz = 1980}, capped{.held_down_by = {"power cap"}},
      hot{.held_down_by = {"power cap", "heat"}};
  EXPECT_TRUE(disturbances(good, good).empty());
  EXPECT_EQ(disturbances(capped, good),
            std::vector<std::string>{"the device's clocks were held down: power cap"});
  EXPECT_EQ(disturbances(capped, hot),
            std::vector<std::string>{"the device's clocks were held down: power cap, heat"});
}

}  // namespace
}  // namespace attest::core
