// What happened to a made-up board between two readings of its state.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/measure/machine/board/board.hpp"
#include "core/measure/testing/fake_board.hpp"

namespace attest::core {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

TEST(BoardChanges, NoneIsNone) {
  const FakeBoard board("agx64", 6);
  board.lock_clocks();
  const BoardChanges none = changes(board.state(), board.state());
  EXPECT_THAT(none.doubts, IsEmpty());
  EXPECT_THAT(none.remarks, IsEmpty());
  EXPECT_EQ(none.over_current, (std::map<int, int64_t>{{1, 0}, {2, 0}, {3, 0}}));
}

// Its service rewrites both files while it starts.
TEST(BoardChanges, AModeIsAnotherByItsIdOrItsName) {
  const FakeBoard board("agx64", 6);
  const BoardState before = board.state();
  board.remove("etc/nvpmodel.conf");
  EXPECT_THAT(changes(before, board.state()).doubts, IsEmpty());
  EXPECT_THAT(changes(board.state(), before).doubts, IsEmpty());
  board.write("etc/nvpmodel.conf", "< POWER_MODEL ID=2 NAME=MAXN_SUPER >\n");
  EXPECT_THAT(changes(before, board.state()).doubts,
              ElementsAre("the power mode changed from 2 (MODE_30W) to 2 (MAXN_SUPER)"));
  board.remove("etc/nvpmodel.conf");
  board.write("var/lib/nvpmodel/status", "pmode:0003\n");
  EXPECT_THAT(changes(before, board.state()).doubts,
              ElementsAre("the power mode changed from 2 (MODE_30W) to 3"));
}

TEST(BoardChanges, EachIsTold) {
  const FakeBoard board("agx64", 6);
  board.lock_clocks();
  const BoardState before = board.state();
  const std::string events = "sys/devices/platform/soctherm-oc-event/hwmon/hwmon2/";
  const auto doubts = [&](const std::string& file, const std::string& text) {
    const std::string was = FakeBoard::text_of(board.path() / file);
    board.write(file, text);
    const std::vector<std::string> found = changes(before, board.state()).doubts;
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
  const BoardChanges moment = changes(before, board.state());
  EXPECT_THAT(moment.remarks,
              ElementsAre("the current was too high for a moment: throttled 3 times (OC3)"));
  EXPECT_EQ(moment.over_current.at(3), 3);
}

TEST(BoardChanges, WhatCannotBeSeenAnyMoreIsADoubt) {
  const FakeBoard board("agx64", 6);
  board.lock_clocks();
  const BoardState before = board.state();
  board.remove("sys/devices/platform/gpu.0/tpc_pg_mask");
  board.remove("sys/class/devfreq/17000000.gpu/max_freq");
  const BoardState after = board.state();
  EXPECT_THAT(changes(before, after).doubts,
              ElementsAre("the number of multiprocessors cannot be read any more (tpc_pg_mask: No "
                          "such file or directory)",
                          HasSubstr("MHz of the GPU cannot be read any more (max_freq: No such"),
                          "whether the clock of the GPU is still locked cannot be seen (max_freq: "
                          "No such file or directory)"));
  EXPECT_THAT(changes(after, before).doubts, IsEmpty()) << "what can be read again is none";
}

}  // namespace
}  // namespace attest::core
