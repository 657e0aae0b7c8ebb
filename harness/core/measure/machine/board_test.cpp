// The state of boards from descriptions of their files, which were written from NVIDIA's documents:
// no board has been seen. What a broken file costs, and that it costs no more.
#include "core/measure/machine/board.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "core/measure/machine/board_texts.hpp"
#include "core/measure/testing/fake_board.hpp"

namespace attest::core {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using Texts = std::map<std::string, std::string>;

BoardState read(const FakeBoard& board) { return read_board(board.path()).value(); }

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
      const BoardState board = read(FakeBoard(expected.board, jetpack));
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
  const BoardState board = read(FakeBoard("agx64", 6));
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
  const BoardFacts facts = core::facts(read(FakeBoard("thor", 7)));
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
    EXPECT_THAT(unlocked_clocks(read(board)), IsEmpty()) << name;
  }
  const FakeBoard board("agx64", 6);
  board.lock_clocks();
  board.write("sys/class/devfreq/17000000.gpu/min_freq", "306000000\n");
  EXPECT_THAT(unlocked_clocks(read(board)),
              ElementsAre("the clock of the GPU is not locked: 306 to 612 MHz"));
  board.lock_clocks();
  board.write("sys/devices/system/cpu/cpu5/cpufreq/scaling_min_freq", "729600\n");
  EXPECT_THAT(unlocked_clocks(read(board)),
              ElementsAre("the clock of the CPUs is not locked: 730 to 1728 MHz"));
  board.lock_clocks();  // a busy memory reaches its cap without a lock
  board.write("sys/kernel/debug/bpmp/debug/clk/emc/mrq_rate_locked", "0\n");
  EXPECT_THAT(unlocked_clocks(read(board)), ElementsAre(HasSubstr("memory is not locked")));
  board.lock_clocks();
  board.write("sys/kernel/debug/bpmp/debug/clk/emc/rate", "2133000000\n");
  EXPECT_THAT(unlocked_clocks(read(board)), ElementsAre(HasSubstr("memory is not locked")));
}

TEST(Board, WithoutRootTheMemorysClockIsNotSeen) {
  const FakeBoard fake("agx64", 6);
  fake.lock_clocks();
  fake.forbid("sys/kernel/debug");
  const Unprivileged nobody;
  const BoardState board = read(fake);
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
  EXPECT_EQ(read(board).memory.cap_mhz.value, 2133);
  board.write(cap, "0\n");  // it sets none
  EXPECT_EQ(read(board).memory.cap_mhz.value, 3199);
  board.remove(cap);
  EXPECT_EQ(read(board).memory.cap_mhz.value, 3199);
  for (const char* broken : {"3199000\n", "garbage\n", "", "-1\n"}) {
    board.write(cap, broken);
    EXPECT_FALSE(read(board).memory.cap_mhz.value) << broken;
    EXPECT_FALSE(read(board).memory_cap_gbs.value) << broken;
    EXPECT_NE(read(board).memory.cap_mhz.missing, "") << broken;
  }
}

TEST(Board, ThePowerModeIsRecordedByIdWithoutItsName) {
  const FakeBoard board("nx16", 6);
  board.write("etc/nvpmodel.conf", "< POWER_MODEL ID=2 NAME=15W >\n");
  EXPECT_EQ(power_mode(read(board)).value, "0");
  EXPECT_EQ(facts(read(board)).missing.at("power_mode_name"), "nvpmodel.conf: it has no mode 0");
  board.write("var/lib/nvpmodel/status", "pmode:\n");  // its service is being restarted
  EXPECT_EQ(facts(read(board)).missing.at("power_mode"), "status: it has no number after pmode:");
}

TEST(Board, FilesOfAnotherModuleContradict) {
  const FakeBoard board("nx16", 6);
  board.write("proc/device-tree/model", std::string("NVIDIA Jetson AGX Orin Developer Kit\0", 37));
  EXPECT_EQ(read(board).module.missing, "compatible names p3767-0000 and model AGX Orin");
  EXPECT_FALSE(read(board).memory_gbs.value) << "its bus is not known";
  EXPECT_FALSE(read(board).multiprocessors.value);

  const FakeBoard nano("nano8", 6);
  nano.write("sys/class/devfreq/17000000.gpu/max_freq", "1300500000\n");  // of AGX 64
  EXPECT_THAT(read(nano).gpu.cap_mhz.missing, HasSubstr("of Jetson Orin Nano 8GB"));
  EXPECT_FALSE(read(nano).gpu.locked.value);
  nano.write("proc/meminfo", "MemTotal: 64349780 kB\nNvMapMemUsed: 805068 kB\n");
  EXPECT_THAT(read(nano).carveout_bytes.missing, HasSubstr("is not that of Jetson Orin Nano"));

  const FakeBoard unknown("agx64", 6);
  unknown.write("proc/device-tree/compatible",
                std::string("nvidia,p3701-0099\0nvidia,tegra234", 33));
  EXPECT_EQ(read(unknown).module.missing, "compatible: it names no module that attest knows");
  EXPECT_EQ(read(unknown).gpu.cap_mhz.value, 612) << "which needs no module";
}

TEST(Board, KnowsEachPartByItsNumber) {
  const FakeBoard board("agx64", 6);
  for (const auto& [part, name, total_kib] :
       {std::tuple{"p3701-0008", "Jetson AGX Orin Industrial 64GB", "64349780"},
        {"p3701-0000", "Jetson AGX Orin 32GB (developer kit)", "32000000"}}) {
    board.write("proc/device-tree/compatible",
                "nvidia,p3737-0000+" + std::string(part) + std::string("\0nvidia,tegra234\0", 17));
    board.write("proc/meminfo", std::string("MemTotal: ") + total_kib + " kB\n");
    EXPECT_EQ(read(board).module.value, name) << read(board).module.missing;
    EXPECT_EQ(read(board).multiprocessors.value, 8) << "which the mask leaves";
    EXPECT_TRUE(read(board).carveout_bytes.value) << read(board).carveout_bytes.missing;
  }
}

TEST(Board, AMaskLeavesPairsOfMultiprocessors) {
  EXPECT_EQ(parse_mask("0", 16).value, 16);
  EXPECT_EQ(parse_mask("240", 16).value, 8);
  EXPECT_EQ(parse_mask("0xf0", 8).value, 8);
  EXPECT_EQ(parse_mask("248", 16).value, 6);  // 15 W of AGX 64
  EXPECT_EQ(parse_mask("252", 8).value, 4);
  EXPECT_EQ(parse_mask("0", 14).value, 14) << "what is fused off does not come back";
  for (const char* garbage : {"", "255", "256", "-1", "f0", "240 241", "0x", "1e2"})
    EXPECT_FALSE(parse_mask(garbage, 16).value) << garbage;
  EXPECT_FALSE(parse_mask("0", 20).value) << "Thor: no document says what its bits are";
}

TEST(BoardChanges, NoneIsNone) {
  const FakeBoard board("agx64", 6);
  board.lock_clocks();
  const BoardChanges none = changes(read(board), read(board));
  EXPECT_THAT(none.doubts, IsEmpty());
  EXPECT_THAT(none.remarks, IsEmpty());
  EXPECT_EQ(none.over_current, (std::map<int, int64_t>{{1, 0}, {2, 0}, {3, 0}}));
}

TEST(BoardChanges, EachIsTold) {
  const FakeBoard board("agx64", 6);
  board.lock_clocks();
  const BoardState before = read(board);
  const std::string events = "sys/devices/platform/soctherm-oc-event/hwmon/hwmon2/";
  const auto doubts = [&](const std::string& file, const std::string& text) {
    const std::string was = FakeBoard::text_of(board.path() / file);
    board.write(file, text);
    const std::vector<std::string> found = changes(before, read(board)).doubts;
    board.write(file, was);
    return found;
  };
  EXPECT_THAT(doubts("var/lib/nvpmodel/status", "pmode:0003\n"),
              ElementsAre("the power mode changed from 2 (MODE_30W) to 3 (MODE_50W)"));
  EXPECT_THAT(doubts("var/lib/nvpmodel/status", ""),
              ElementsAre("the power mode cannot be read any more (status: it is empty)"));
  EXPECT_THAT(doubts("sys/devices/platform/gpu.0/tpc_pg_mask", "248\n"),
              ElementsAre("the number of multiprocessors changed from 8 to 6"));
  EXPECT_THAT(doubts("sys/class/devfreq/17000000.gpu/min_freq", "306000000\n"),
              ElementsAre(HasSubstr("the clock of the GPU was locked and is not any more")));
  EXPECT_THAT(doubts("sys/kernel/nvpmodel_clk_cap/emc", "2133000000\n"),
              ElementsAre("the highest clock in MHz of the memory changed from 3199 to 2133"));
  EXPECT_THAT(doubts("sys/kernel/debug/bpmp/debug/clk/emc/mrq_rate_locked", "0\n"),
              ElementsAre(HasSubstr("the clock of the memory was locked")));
  EXPECT_THAT(doubts("sys/class/thermal/cooling_device2/cur_state", "1\n"),
              ElementsAre("clocks were held down: gpu-throttle-alert"));
  EXPECT_THAT(doubts(events + "oc1_event_cnt", "2\n"),
              ElementsAre("the voltage was too low: throttled 2 times (OC1)"));
  EXPECT_THAT(doubts(events + "oc2_event_cnt", "1\n"),
              ElementsAre("the mean current was too high: throttled 1 times (OC2)"));
  EXPECT_THAT(doubts(events + "oc3_event_cnt", "16\n"),
              ElementsAre("the counter of OC3 went back: the board was started anew"));
  EXPECT_THAT(doubts(events + "oc3_event_cnt", "20\n"), IsEmpty());
  board.write(events + "oc3_event_cnt", "20\n");
  const BoardChanges moment = changes(before, read(board));
  EXPECT_THAT(moment.remarks,
              ElementsAre("the current was too high for a moment: throttled 3 times (OC3)"));
  EXPECT_EQ(moment.over_current.at(3), 3);
}

/// What may be done to a file.
struct Mutation {
  const char* name;
  std::function<void(FakeBoard&, const std::string& file, const std::string& text)> apply;
};

const Mutation kMutations[] = {
    {"missing", [](FakeBoard& board, const std::string& file, auto&) { board.remove(file); }},
    {"empty", [](FakeBoard& board, const std::string& file, auto&) { board.write(file, ""); }},
    {"refused", [](FakeBoard& board, const std::string& file, auto&) { board.refuse(file); }},
    {"forbidden", [](FakeBoard& board, const std::string& file, auto&) { board.forbid(file); }},
    {"garbage", [](FakeBoard& board, const std::string& file,
                   auto&) { board.write(file, "\x7f\x01 garbage\n"); }},
    {"in another unit",  // a million times as much, or as little
     [](FakeBoard& board, const std::string& file, const std::string& text) {
       board.write(file, text.size() > 7 ? text.substr(0, text.size() - 7) + "\n"
                                         : text.substr(0, text.size() - 1) + "000000\n");
     }},
};

/// The files of a board that hold one number, of which most are missing before anything is done.
std::vector<std::string> number_files(const FakeBoard& board) {
  std::vector<std::string> files;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(board.path()))
    if (entry.is_regular_file() &&
        parse_value(
            FakeBoard::text_of(entry.path()).substr(0, FakeBoard::text_of(entry.path()).find('\n')))
            .value)
      files.push_back(std::filesystem::relative(entry.path(), board.path()).string());
  return files;
}

// A file in which something is wrong costs the values that come from it. Each has a reason; no
// other value changes, and none becomes 0.
TEST(Board, ABrokenFileCostsItsValuesAndChangesNone) {
  size_t costs = 0, tried = 0;
  for (const auto& [name, jetpack] : {std::pair{"nx16", 6}, {"thor", 7}}) {
    FakeBoard board(name, jetpack);
    const BoardFacts before = facts(read(board));
    for (const std::string& file : number_files(board)) {
      // Clocks of other devices, and what only lowers the cap of the memory
      if (file.find(".vic") != file.npos || file.find("gpu-nvd") != file.npos ||
          file.find("pwm") != file.npos || file.find("ucsi") != file.npos ||
          file.find("nvpmodel_clk_cap") != file.npos)
        continue;
      const std::string text = FakeBoard::text_of(board.path() / file);
      for (const Mutation& mutation : kMutations) {
        const bool flag = text.size() < 4;  // 0, 1 and counts have no unit
        if (std::string(mutation.name) == "in another unit" && flag) continue;
        SCOPED_TRACE(fmt::format("{} of {} is {}", file, name, mutation.name));
        mutation.apply(board, file, text);
        BoardFacts after;
        {
          const Unprivileged nobody;
          after = facts(read(board));
        }
        for (const auto& [key, value] : after.known) {
          const auto was = before.known.find(key);
          ASSERT_TRUE(was != before.known.end()) << key << " came from nothing";
          EXPECT_EQ(value, was->second) << key;
        }
        for (const auto& [key, reason] : after.missing) EXPECT_NE(reason, "") << key;
        costs += after.missing.size() > before.missing.size();
        ++tried;
        board.remove(file);
        board.write(file, text);
      }
    }
  }
  EXPECT_GT(tried, 500u);
  EXPECT_GT(costs, 0.9 * double(tried)) << "what is read of a board comes from its files";
}

}  // namespace
}  // namespace attest::core
