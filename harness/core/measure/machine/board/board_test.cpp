// The state of boards from descriptions of their files, which were written from NVIDIA's documents:
// no board has been seen.
#include "core/measure/machine/board/board.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/measure/testing/fake_board.hpp"

namespace attest::core {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

struct Expected {
  const char* board;
  std::vector<int> jetpacks;
  const char *module, *architecture, *mode;
  int multiprocessors;  // 0: not known
  double gpu_cap_mhz, memory_cap_gbs, watts;
};

const Expected kBoards[] = {
    {"agx64", {5, 6, 7}, "Jetson AGX Orin 64GB", "sm_87", "2 (MODE_30W)", 8, 612, 204.736, 9.5},
    {"agx32", {5, 6, 7}, "Jetson AGX Orin 32GB", "sm_87", "0 (MAXN)", 14, 930.75, 204.736, 9.5},
    {"nx16", {5, 6, 7}, "Jetson Orin NX 16GB", "sm_87", "0 (MAXN)", 8, 918, 102.368, 8},
    {"nano8",
     {5},
     "Jetson Orin Nano 8GB (developer kit)",
     "sm_87",
     "0 (15W)",
     8,
     624.75,
     68.256,
     6},
    {"nano8",
     {6, 7},
     "Jetson Orin Nano 8GB (developer kit)",
     "sm_87",
     "2 (MAXN_SUPER)",
     8,
     1020,
     102.368,
     6},
    {"thor", {7}, "Jetson AGX Thor (T5000)", "sm_110", "0 (MAXN)", 0, 1575, 273.024, 31.25},
};

TEST(Board, IsReadOnEachModuleAndJetPack) {
  for (const Expected& expected : kBoards)
    for (const int jetpack : expected.jetpacks) {
      SCOPED_TRACE(fmt::format("{} under JetPack {}", expected.board, jetpack));
      const BoardState board = FakeBoard(expected.board, jetpack).state();
      EXPECT_EQ(board.module.value, expected.module) << board.module.missing;
      EXPECT_EQ(board.architecture.value, expected.architecture);
      EXPECT_EQ(board.jetpack.value, jetpack) << board.jetpack.missing;
      EXPECT_EQ(power_mode(board).value, expected.mode) << board.mode.missing;
      EXPECT_EQ(board.multiprocessors.value.value_or(0), expected.multiprocessors);
      EXPECT_EQ(board.gpu.cap_mhz.value, expected.gpu_cap_mhz) << board.gpu.cap_mhz.missing;
      EXPECT_EQ(board.gpu.locked.value, false);
      EXPECT_EQ(board.cpu.locked.value, false);
      EXPECT_EQ(board.memory.locked.value, false) << board.memory.locked.missing;
      EXPECT_NEAR(board.memory_cap_gbs.value.value_or(0), expected.memory_cap_gbs, 1e-9);
      EXPECT_LT(*board.memory_gbs.value, 0.35 * *board.memory_cap_gbs.value);
      EXPECT_NEAR(board.watts.value.value_or(0), expected.watts, 1e-9) << board.watts.missing;
      EXPECT_GT(*board.carveout_bytes.value, 0) << board.carveout_bytes.missing;
      EXPECT_TRUE(board.nvmap_bytes.value) << board.nvmap_bytes.missing;
      EXPECT_EQ(unlocked_clocks(board).size(), 3u);
    }
}

TEST(Board, OfAnAgxOrinInFull) {
  const BoardState board = FakeBoard("agx64", 6).state();
  EXPECT_EQ(board.l4t.value, "R36.4.3");
  EXPECT_EQ(board.model.value, "NVIDIA Jetson AGX Orin Developer Kit");
  EXPECT_EQ(board.gpu.now_mhz.value, 306);
  EXPECT_EQ(board.memory.now_mhz.value, 665.6);
  EXPECT_EQ(board.cpu.now_mhz.value, 729.6);
  EXPECT_EQ(board.cpu.cap_mhz.value, 1728);
  EXPECT_EQ(board.gpu_governor.value, "nvhost_podgov");
  EXPECT_EQ(board.cpu_governor.value, "schedutil");
  EXPECT_NEAR(*board.rail_watts.at("ina3221 VDD_GPU_SOC").value, 4, 1e-12);
  EXPECT_EQ(board.rail_watts.count("ina3221 NC"), 0u);
  EXPECT_EQ(board.celsius.at("cpu-thermal").value, 48.25);
  EXPECT_FALSE(board.celsius.at("cv0-thermal").value);
  EXPECT_EQ(board.celsius.at("cv0-thermal").missing, "temp: Resource temporarily unavailable");
  EXPECT_EQ(board.throttling.size(), 2u);
  EXPECT_EQ(board.throttling.at("gpu-throttle-alert").value, false);
  EXPECT_EQ(board.over_current.at(3).value, 17);
  EXPECT_EQ(board.nvmap_bytes.value, int64_t{805068} << 10);
  EXPECT_EQ(board.carveout_bytes.value, (int64_t{64} << 30) - (int64_t{64349780} << 10));
}

TEST(Board, FactsHaveAValueOrAReasonForEachKey) {
  const BoardFacts facts = core::facts(FakeBoard("thor", 7).state());
  EXPECT_EQ(facts.known.at("gpu_cap_mhz"), "1575");
  EXPECT_EQ(facts.known.at("gpu_locked"), "no");
  EXPECT_EQ(facts.known.at("watts_ina238"), "31.25");
  EXPECT_EQ(facts.known.at("nvmap_bytes"), "0") << "which is what it says";
  EXPECT_EQ(facts.missing.at("multiprocessors"), "tpc_pg_mask: No such file or directory");
  EXPECT_EQ(facts.missing.at("celsius_gpu_thermal"), "temp: Resource temporarily unavailable");
  EXPECT_EQ(facts.missing.at("over_current_1"), "soctherm-oc-event: it has no counters here");
  for (const auto& [key, reason] : facts.missing) {
    EXPECT_EQ(facts.known.count(key), 0u) << key;
    EXPECT_NE(reason, "") << key;
  }
}

TEST(Board, NoOtherMachineIsOne) {
  EXPECT_FALSE(read_board(FakeRoot().path()));
  const FakeRoot raspberry;
  raspberry.write("proc/device-tree/compatible", std::string("raspberrypi,5\0brcm,bcm2712\0", 27));
  EXPECT_FALSE(read_board(raspberry.path()));
}

TEST(Board, ClocksAreLockedOrTheSentenceSaysWhichIsNot) {
  for (const auto& [name, jetpack] : {std::pair{"agx64", 6}, {"nano8", 5}, {"thor", 7}}) {
    const FakeBoard board(name, jetpack);
    board.lock_clocks();
    EXPECT_THAT(unlocked_clocks(board.state()), IsEmpty()) << name;
  }
  const FakeBoard board("agx64", 6);
  board.lock_clocks();
  board.write("sys/class/devfreq/17000000.gpu/min_freq", "306000000\n");
  EXPECT_THAT(unlocked_clocks(board.state()),
              ElementsAre("the clock of the GPU is not locked: 306 to 612 MHz"));
  board.lock_clocks();
  board.write("sys/devices/system/cpu/cpu5/cpufreq/scaling_min_freq", "729600\n");
  EXPECT_THAT(unlocked_clocks(board.state()),
              ElementsAre("the clock of the CPUs is not locked: 730 to 1728 MHz"));
  board.lock_clocks();  // a busy memory reaches its cap without a lock
  board.write("sys/kernel/debug/bpmp/debug/clk/emc/mrq_rate_locked", "0\n");
  EXPECT_THAT(unlocked_clocks(board.state()), ElementsAre(HasSubstr("memory is not locked")));
  board.lock_clocks();
  board.write("sys/kernel/debug/bpmp/debug/clk/emc/rate", "2133000000\n");
  EXPECT_THAT(unlocked_clocks(board.state()), ElementsAre(HasSubstr("memory is not locked")));
}

TEST(Board, CpusThatAreOffDoNotCount) {
  const std::string cpus = "sys/devices/system/cpu/";
  for (const int jetpack : {6, 7}) {  // they have old values, or answer an error
    SCOPED_TRACE(jetpack);
    const FakeBoard board("agx64", jetpack);
    board.lock_clocks();
    board.remove(cpus + "cpu0/online");  // which not every machine has
    const BoardState state = board.state();
    EXPECT_EQ(state.cpu.now_mhz.value, 729.6) << state.cpu.now_mhz.missing;
    EXPECT_EQ(state.cpu.cap_mhz.value, 1728) << state.cpu.cap_mhz.missing;
    EXPECT_EQ(state.cpu_governor.value, "schedutil") << state.cpu_governor.missing;
    EXPECT_THAT(unlocked_clocks(state), IsEmpty());
    board.write(cpus + "cpu0/cpufreq/scaling_min_freq", "729600\n");
    EXPECT_THAT(unlocked_clocks(board.state()), ElementsAre(HasSubstr("730 to 1728 MHz")));
    board.write(cpus + "cpu11/online", "1\n");
    EXPECT_THAT(unlocked_clocks(board.state()),
                ElementsAre(HasSubstr(jetpack == 6 ? "115 to 2202 MHz" : "cannot be seen")));
  }
}

TEST(Board, AnUnlockedClockIsToldByWhatIsKnownOfIt) {
  const FakeBoard board("agx64", 6);
  board.lock_clocks();
  const std::string emc = "sys/kernel/debug/bpmp/debug/clk/emc/";
  board.remove(emc + "min_rate");
  EXPECT_THAT(unlocked_clocks(board.state()), IsEmpty());
  board.write(emc + "rate", "2133000000\n");
  EXPECT_THAT(unlocked_clocks(board.state()),
              ElementsAre("the clock of the memory is not locked: it is at 2133 MHz, its cap is "
                          "3199"));
  EXPECT_EQ(why_unlocked("GPU", {.locked = Reading<bool>::of(false)}),
            "the clock of the GPU is not locked: its governor may change it");
}

TEST(Board, WithoutRootTheMemorysClockIsNotSeen) {
  const FakeBoard fake("agx64", 6);
  fake.lock_clocks();
  fake.forbid("sys/kernel/debug");
  const Unprivileged nobody;
  const BoardState board = fake.state();
  EXPECT_FALSE(board.memory.now_mhz.value);
  EXPECT_EQ(board.memory.now_mhz.missing, "rate: Permission denied");
  EXPECT_FALSE(board.memory_gbs.value);
  EXPECT_EQ(board.memory.cap_mhz.value, 3199) << "all may read the power mode's cap";
  EXPECT_NEAR(*board.memory_cap_gbs.value, 204.736, 1e-9);
  EXPECT_THAT(unlocked_clocks(board),
              ElementsAre("the clock of the memory cannot be seen (rate: Permission denied)"));
}

TEST(Board, TheCapThatTheModeSetsIsTheLowerOne) {
  const FakeBoard board("agx64", 6);
  const std::string cap = "sys/kernel/nvpmodel_clk_cap/emc";
  board.write(cap, "2133000000\n");
  EXPECT_EQ(board.state().memory.cap_mhz.value, 2133);
  board.write(cap, "0\n");  // it sets none
  EXPECT_EQ(board.state().memory.cap_mhz.value, 3199);
  board.remove(cap);
  EXPECT_EQ(board.state().memory.cap_mhz.value, 3199);
  for (const char* broken : {"3199000\n", "garbage\n", "", "-1\n"}) {
    board.write(cap, broken);
    EXPECT_FALSE(board.state().memory.cap_mhz.value) << broken;
    EXPECT_FALSE(board.state().memory_cap_gbs.value) << broken;
    EXPECT_NE(board.state().memory.cap_mhz.missing, "") << broken;
  }
}

TEST(Board, ThePowerModeIsRecordedByIdWithoutItsName) {
  const FakeBoard board("nx16", 6);
  board.write("etc/nvpmodel.conf", "< POWER_MODEL ID=2 NAME=15W >\n");
  EXPECT_EQ(power_mode(board.state()).value, "0");
  EXPECT_EQ(facts(board.state()).missing.at("power_mode_name"), "nvpmodel.conf: it has no mode 0");
  board.write("var/lib/nvpmodel/status", "pmode:\n");  // its service is being restarted
  EXPECT_EQ(facts(board.state()).missing.at("power_mode"), "status: it has no number after pmode:");
}

TEST(Board, FilesOfAnotherModuleContradict) {
  const FakeBoard board("nx16", 6);
  board.write("proc/device-tree/model", std::string("NVIDIA Jetson AGX Orin Developer Kit\0", 37));
  EXPECT_EQ(board.state().module.missing, "compatible names p3767-0000 and model AGX Orin");
  EXPECT_FALSE(board.state().memory_gbs.value) << "its bus is not known";
  EXPECT_FALSE(board.state().multiprocessors.value);

  const FakeBoard nano("nano8", 6);
  nano.write("sys/class/devfreq/17000000.gpu/max_freq", "1300500000\n");  // of AGX 64
  EXPECT_THAT(nano.state().gpu.cap_mhz.missing, HasSubstr("of Jetson Orin Nano 8GB"));
  EXPECT_FALSE(nano.state().gpu.locked.value);
  nano.write("proc/meminfo", "MemTotal: 64349780 kB\nNvMapMemUsed: 805068 kB\n");
  EXPECT_THAT(nano.state().carveout_bytes.missing, HasSubstr("is not that of Jetson Orin Nano"));

  const FakeBoard unknown("agx64", 6);
  unknown.write("proc/device-tree/compatible",
                std::string("nvidia,p3701-0099\0nvidia,tegra234", 33));
  EXPECT_EQ(unknown.state().module.missing, "compatible: it names no module that attest knows");
  EXPECT_EQ(unknown.state().gpu.cap_mhz.value, 612) << "which needs no module";
}

TEST(Board, KnowsEachPartByItsNumber) {
  const FakeBoard board("agx64", 6);
  for (const auto& [part, name, total_kib] :
       {std::tuple{"p3701-0008", "Jetson AGX Orin Industrial 64GB", "64349780"},
        {"p3701-0000", "Jetson AGX Orin 32GB (developer kit)", "32000000"}}) {
    board.write("proc/device-tree/compatible",
                "nvidia,p3737-0000+" + std::string(part) + std::string("\0nvidia,tegra234\0", 17));
    board.write("proc/meminfo", std::string("MemTotal: ") + total_kib + " kB\n");
    EXPECT_EQ(board.state().module.value, name) << board.state().module.missing;
    EXPECT_EQ(board.state().multiprocessors.value, 8) << "which the mask leaves";
    EXPECT_TRUE(board.state().carveout_bytes.value) << board.state().carveout_bytes.missing;
  }
}

TEST(Board, WhatHasNoFolderHasAReason) {
  const FakeBoard board("agx64", 6);
  board.remove("sys/class/devfreq");
  board.remove("sys/devices/system/cpu");
  board.remove("sys/class/hwmon");
  const BoardState state = board.state();
  for (const auto* reading : {&state.gpu.now_mhz, &state.gpu.floor_mhz, &state.gpu.cap_mhz})
    EXPECT_EQ(reading->missing, "devfreq: it has no GPU");
  EXPECT_EQ(state.gpu.locked.missing, "devfreq: it has no GPU");
  EXPECT_EQ(state.gpu_governor.missing, "devfreq: it has no GPU");
  EXPECT_EQ(state.multiprocessors.value, 8) << "which another folder has";
  EXPECT_EQ(state.cpu.cap_mhz.missing, "cpufreq: no CPU has its files");
  EXPECT_EQ(state.cpu_governor.missing, "cpufreq: no CPU has its files");
  EXPECT_EQ(state.watts.missing, "hwmon: no sensor measures the whole board");
  EXPECT_TRUE(state.rail_watts.empty());
}

TEST(Board, TheMaskLiesInOneOfThreeFolders) {
  const FakeBoard board("agx64", 6);
  board.remove("sys/devices/platform/gpu.0");
  EXPECT_EQ(board.state().multiprocessors.missing, "tpc_pg_mask: No such file or directory");
  board.write("sys/devices/gpu.0/tpc_pg_mask", "248\n");
  EXPECT_EQ(board.state().multiprocessors.value, 6);
}

TEST(Board, ZonesAndAlertsOfOneTypeAreToldApart) {
  const FakeBoard board("agx64", 6);
  const std::string thermal = "sys/class/thermal/";
  board.write(thermal + "thermal_zone1/type", "cpu-thermal\n");
  board.write(thermal + "thermal_zone3/temp", "30000\n");
  board.write(thermal + "cooling_device1/type", "gpu-throttle-alert\n");
  board.write(thermal + "cooling_device2/cur_state", "1\n");
  const BoardState state = board.state();
  EXPECT_EQ(state.celsius.at("cpu-thermal").value, 48.25);
  EXPECT_EQ(state.celsius.at("cpu-thermal+").value, 44.5);
  EXPECT_EQ(state.celsius.at("thermal_zone3").value, 30) << "which has no type";
  EXPECT_EQ(state.throttling.at("gpu-throttle-alert").value, false);
  EXPECT_EQ(state.throttling.at("gpu-throttle-alert+").value, true);
}

TEST(Board, MemoryIsAsTheKernelSaysOrNotKnown) {
  const FakeBoard board("nx16", 6);
  const auto nvmap = [&](const char* line) {
    board.write("proc/meminfo", std::string("MemTotal: 15650000 kB\n") + line);
    EXPECT_TRUE(board.state().carveout_bytes.value);
    return board.state().nvmap_bytes;
  };
  EXPECT_EQ(nvmap("NvMapMemUsed: 7 kB\n").value, 7 * 1024);
  EXPECT_EQ(nvmap("").missing, "meminfo: it has no NvMapMemUsed");
  for (const char* line : {"NvMapMemUsed: 7 MB\n", "NvMapMemUsed: 7\n", "NvMapMemUsed: -7 kB\n",
                           "NvMapMemUsed: 1e16 kB\n", "NvMapMemUsed: much kB\n"})
    EXPECT_EQ(nvmap(line).missing, "meminfo: NvMapMemUsed is no size in kB") << line;
  board.write("proc/meminfo", "NvMapMemUsed: 7 kB\n");
  EXPECT_EQ(board.state().carveout_bytes.missing, "meminfo: it has no MemTotal");
  board.remove("proc/meminfo");
  for (const Reading<int64_t>& one : {board.state().nvmap_bytes, board.state().carveout_bytes})
    EXPECT_EQ(one.missing, "meminfo: No such file or directory");
}

TEST(Board, CpusOfOtherGovernorsAreNamedTogether) {
  const FakeBoard board("agx64", 6);
  board.write("sys/devices/system/cpu/cpu3/cpufreq/scaling_governor", "performance\n");
  EXPECT_EQ(board.state().cpu_governor.value, "performance schedutil");
  board.remove("sys/devices/system/cpu/cpu3/cpufreq/scaling_governor");
  EXPECT_EQ(board.state().cpu_governor.missing, "scaling_governor: No such file or directory");
}

}  // namespace
}  // namespace attest::core
