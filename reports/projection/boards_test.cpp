// The targets of projections: peaks of data sheets, and modes within what their modules have.
#include "reports/projection/boards.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <utility>
#include <vector>

namespace attest::reports {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

TEST(Boards, HaveThePeaksOfTheirDataSheets) {
  std::set<std::string_view> names;
  for (const BoardMode& one : board_modes()) {
    EXPECT_TRUE(names.insert(one.name).second) << one.name << " is there twice";
    for (const Figure& figure : figures(one)) EXPECT_NE(figure.source, "") << figure.text;
  }
  const auto peak = [](const char* name) { return figures(*find_board_mode(name))[1].text; };
  for (const auto& [name, tflops] : {std::pair{"orin-agx64-maxn", "42.6 TFLOP/s"},
                                     {"orin-agx32-maxn", "26.7 TFLOP/s"},
                                     {"orin-nx16-maxn", "15.0 TFLOP/s"},
                                     {"orin-nx16-maxn-super", "19.2 TFLOP/s"},
                                     {"orin-nx8-maxn", "12.5 TFLOP/s"},
                                     {"orin-nx8-maxn-super", "19.2 TFLOP/s"},
                                     {"orin-nano8-15w", "10.2 TFLOP/s"},
                                     {"orin-nano8-maxn-super", "16.7 TFLOP/s"},
                                     {"orin-nano4-10w", "5.1 TFLOP/s"},
                                     {"orin-nano4-25w-super", "8.4 TFLOP/s"}})
    EXPECT_THAT(peak(name), HasSubstr(tflops)) << name;
  EXPECT_NEAR(find_board_mode("orin-nano8-maxn-super")->memory_gbs(), 102.4, 1e-9);
  EXPECT_NEAR(find_board_mode("orin-agx64-maxn")->memory_gbs(), 204.8, 1e-9);
  EXPECT_NEAR(find_board_mode("orin-agx64-15w")->memory_gbs(), 136.5, 0.1);
  EXPECT_NEAR(find_board_mode("orin-nano4-10w")->memory_gbs(), 34, 0.2);
  EXPECT_EQ(find_board_mode("orin"), nullptr);
  for (size_t figure : {0, 1}) {  // the clock, and what follows from it
    EXPECT_THAT(figures(*find_board_mode("orin-nx8-maxn"))[figure].source,
                HasSubstr("is not verified"));
    EXPECT_THAT(figures(*find_board_mode("orin-nx8-20w"))[figure].source,
                Not(HasSubstr("is not verified")));
  }
}

// Some mode of a module has its highest clocks and all of its multiprocessors.
TEST(Boards, HaveTheFiguresOfTheirModules) {
  std::set<const core::BoardModule*> modules;
  for (const BoardMode& mode : board_modes()) modules.insert(mode.module);
  EXPECT_EQ(modules.size(), 6u);
  for (const core::BoardModule* module : modules) {
    BoardMode most{};
    for (const BoardMode& mode : board_modes()) {
      if (mode.module != module) continue;
      most.multiprocessors = std::max(most.multiprocessors, mode.multiprocessors);
      most.gpu_mhz = std::max(most.gpu_mhz, mode.gpu_mhz);
      most.memory_mhz = std::max(most.memory_mhz, mode.memory_mhz);
      most.cpu_mhz = std::max(most.cpu_mhz, mode.cpu_mhz);
    }
    EXPECT_EQ(most.multiprocessors, module->multiprocessors) << module->part;
    EXPECT_EQ(most.gpu_mhz, module->gpu_mhz) << module->part;
    EXPECT_EQ(most.memory_mhz, module->memory_mhz) << module->part;
    EXPECT_EQ(most.cpu_mhz, module->cpu_mhz) << module->part;
  }
}

/// Runs of a whole model in a second, as published for two boards.
struct Published {
  const char *model, *from, *to;
  double from_hz, to_hz;
};

// Products take most of the time of these models. So the time on one board should follow from that
// on another by the peaks of both. Where no power mode was published, the largest is taken.
// Sources: MLPerf Inference 3.1, results of NVIDIA; NVIDIA's figures of the Super modes of
// JetPack 6.2; README of github.com/NVIDIA-AI-IOT/nanosam.
TEST(Boards, PeaksExplainPublishedTimesOfWholeModels) {
  const auto peak = [](const char* board) {
    const BoardMode& mode = *find_board_mode(board);
    return mode.multiprocessors * mode.gpu_mhz;
  };
  const char *agx64 = "orin-agx64-maxn", *nx16 = "orin-nx16-maxn", *nano8 = "orin-nano8-15w",
             *nano8_super = "orin-nano8-maxn-super";
  std::vector<double> ratios;  // published time / projected time
  for (const Published& one : {Published{"BERT, offline", agx64, nx16, 553.7, 194.5},
                               {"BERT, single stream", agx64, nx16, 1e3 / 5.70, 1e3 / 14.49},
                               {"ViT-B/16", nano8, nano8_super, 98, 158},
                               {"DINOv2-B/14", nano8, nano8_super, 75, 126},
                               {"MobileSAM", nano8, agx64, 6.85, 25.7},
                               {"NanoSAM", nano8, agx64, 37, 124}}) {
    const double projected_hz = one.from_hz * peak(one.to) / peak(one.from);
    ratios.push_back(projected_hz / one.to_hz);
    EXPECT_GT(ratios.back(), 0.85) << one.model << " from " << one.from << " to " << one.to;
    EXPECT_LT(ratios.back(), 1.3) << one.model << " from " << one.from << " to " << one.to;
  }
  // As reports/README.md says.
  EXPECT_NEAR(std::ranges::min(ratios), 0.90, 5e-3);
  EXPECT_NEAR(std::ranges::max(ratios), 1.24, 5e-3);
}

}  // namespace
}  // namespace attest::reports
