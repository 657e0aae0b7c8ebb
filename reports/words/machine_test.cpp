// Machines: what names them, and that records of two are never taken together.
#include "reports/words/machine.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "reports/choice/problems.hpp"
#include "reports/compare/comparison.hpp"
#include "reports/compare/launches.hpp"
#include "reports/testing/golden.hpp"
#include "reports/testing/records.hpp"

namespace attest::reports {
namespace {

using attest::testing::file;
using attest::testing::passed;
using core::Record;
using core::Results;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

const std::vector<std::string> kBoth{"cuda", "cpu"};

/// A run on an Orin. Its records are of `device`.
Results orin(const std::string& device) {
  Results run = file({passed()});
  run.records[0].device = device;
  run.header.environment = {{"cpu", {{"part", "0xd42"}}},
                            {"system", {{"power_mode", "2 (MODE_30W)"}}},
                            {"board",
                             {{"module", "Jetson AGX Orin 64GB"},
                              {"multiprocessors", "8"},
                              {"gpu_locked", "yes"},
                              {"memory_locked", "yes"},
                              {"cpu_locked", "yes"}}}};
  return run;
}

std::string machine_of(const Results& run) { return machine(run, run.records.at(0)); }

TEST(Machine, IsTheDeviceOfTheRecord) {
  Results run = file({passed(), passed()});
  run.records[1].device = "cpu";
  run.header.environment["cuda"]["multiprocessors"] = "132";
  EXPECT_EQ(machine(run, run.records[0]), "H200 (132 multiprocessors)");
  EXPECT_EQ(machine(run, run.records[1]), "EPYC");
  EXPECT_EQ(machine(run), "H200 (132 multiprocessors) with EPYC");
  run.records.erase(run.records.begin());
  EXPECT_EQ(machine(run), "EPYC") << "nothing ran on the GPU";
  EXPECT_EQ(machine(run, kBoth), "H200 (132 multiprocessors) with EPYC");
  run.header.environment.erase("cuda");
  EXPECT_EQ(machine(run, kBoth), "EPYC") << "it has none";
}

TEST(Machine, OfAGpuRunIsTheGpu) {
  const Results run = core::read_results(ATTEST_SOURCE_DIR "/reports/published/device_h100.jsonl");
  EXPECT_EQ(machine_of(run), "NVIDIA H100 80GB HBM3 (132 multiprocessors)");
  EXPECT_EQ(machine(run),
            "NVIDIA H100 80GB HBM3 (132 multiprocessors) with Intel(R) Xeon(R) Processor");
}

TEST(Machine, ACpuWithoutANameIsItsPart) {
  Results run = file({passed()});
  run.header.environment = {{"cpu", {{"implementer", "0x41"}, {"part", "0xd4f"}, {"cores", "72"}}},
                            {"cuda", {{"name", "GH200"}}},
                            {"system", {{"architecture", "aarch64"}}}};
  EXPECT_EQ(machine(run), "GH200 with CPU 0x41/0xd4f (aarch64, 72 cores)");
  run.header.environment["system"]["board"] = "Some Board";
  EXPECT_EQ(machine(run, std::vector<std::string>{"cpu"}), "Some Board") << "that says more";
}

TEST(Machine, ABoardIsItsModuleModeAndClocks) {
  Results run = orin("cpu");
  auto& facts = run.header.environment;
  const std::string name = "Jetson AGX Orin 64GB (8 multiprocessors), power mode 2 (MODE_30W), ";
  EXPECT_EQ(machine_of(run), name + "clocks locked");
  EXPECT_EQ(machine(run, kBoth), name + "clocks locked") << "it is named once";
  facts["cuda"] = {{"name", "Orin"}, {"multiprocessors", "6"}};
  EXPECT_EQ(machine_of(run), name + "clocks locked");
  EXPECT_THAT(machine(run, kBoth), HasSubstr("64GB (6 multiprocessors), power")) << "CUDA counts";
  facts["board"].erase("memory_locked");
  EXPECT_EQ(machine_of(run), name + "clocks locked as far as they can be seen");
  facts["board"]["cpu_locked"] = "no";
  EXPECT_EQ(machine_of(run), name + "clocks not locked");
  facts["board"]["gpu_cap_mhz"] = "612";
  facts["board"]["cpu_cap_mhz"] = "1728";
  EXPECT_EQ(machine_of(run), name + "clocks not locked, GPU up to 612 MHz, CPU up to 1728 MHz");
}

TEST(Machine, ARecordHasTheModeOfItsOwnRuns) {
  Results run = orin("cuda");
  run.header.environment["cuda"] = {{"name", "Orin"}, {"multiprocessors", "8"}};
  run.header.environment["board"]["gpu_cap_mhz"] = "918";
  EXPECT_EQ(power_mode(run, run.records[0]), "2 (MODE_30W)");
  core::BoardRecord& board = run.records[0].board.emplace();
  board.before = {{"power_mode", "2 (MODE_30W)"}, {"gpu_cap_mhz", "408"}};
  board.after = board.before;
  EXPECT_THAT(machine_of(run), HasSubstr("GPU up to 918 MHz")) << "it is only hot";
  board.before = {{"power_mode", "1 (MODE_15W)"}, {"gpu_cap_mhz", "408"}, {"multiprocessors", "4"}};
  board.after = board.before;
  EXPECT_EQ(machine_of(run),
            "Jetson AGX Orin 64GB (4 multiprocessors), power mode 1 (MODE_15W), clocks locked as "
            "far as they can be seen, GPU up to 408 MHz");
  board.after["power_mode"] = "2 (MODE_30W)";
  EXPECT_EQ(power_mode(run, run.records[0]), "1 (MODE_15W), then 2 (MODE_30W)");
}

/// Two runs on machines that differ in one fact alone.
struct Pair {
  const char *group, *name, *value;
};

class TwoMachines : public ::testing::TestWithParam<Pair> {
 protected:
  Results one_ = orin("cuda"), other_ = orin("cuda");
  void SetUp() override {
    one_.header.environment["cuda"] = {{"name", "Orin"}, {"multiprocessors", "8"}};
    const std::string group = GetParam().group;
    if (group == "cuda" || group == "cpu") {  // a desktop, a server
      one_.header.environment.erase("board");
      one_.header.environment.erase("system");
    }
    if (group == "cpu") {
      one_.header.environment.erase("cuda");
      one_.header.environment["cpu"] = {
          {"implementer", "0x41"}, {"part", "0xd4f"}, {"cores", "72"}};
      one_.header.environment["system"]["architecture"] = "aarch64";
      one_.records[0].device = other_.records[0].device = "cpu";
    }
    other_.header.environment = one_.header.environment;
    other_.header.environment[GetParam().group][GetParam().name] = GetParam().value;
    other_.header.started = "2026-01-02T00:00:00Z";
    other_.records[0].time = attest::testing::time_of(2e6);
  }
};

TEST_P(TwoMachines, AreNeverTakenTogether) {
  EXPECT_NE(machine_of(one_), machine_of(other_));
  const Comparison found = compare({one_}, {other_}, {.rule = {.floor = 0.03}});
  EXPECT_THAT(found.cases.at(0).time.code, ::testing::StartsWith("other-"));
  EXPECT_NE(machine(one_), machine(other_));
  const Input input = make_input({one_, other_});
  EXPECT_EQ(cases(input).size(), 2u);
  EXPECT_EQ(families(input).size(), 2u);
  EXPECT_EQ(cases(input).at(0).machine, machine(one_));
}

INSTANTIATE_TEST_SUITE_P(
    DifferIn, TwoMachines,
    ::testing::Values(Pair{"cuda", "name", "Thor"}, Pair{"cuda", "multiprocessors", "4"},
                      Pair{"board", "module", "Jetson Orin NX"},
                      Pair{"board", "gpu_cap_mhz", "612"}, Pair{"board", "gpu_locked", "no"},
                      Pair{"system", "power_mode", "0 (MAXN)"}, Pair{"cpu", "part", "0xd40"},
                      Pair{"cpu", "implementer", "0xc0"}, Pair{"cpu", "cores", "36"}),
    [](const auto& pair) {
      return std::string(pair.param.group) + "_" + std::string(pair.param.name);
    });

// On one machine, its CPU and its GPU answer together.
TEST(Machine, OneMachineHasAllItsImplementations) {
  Record on_cpu = passed("flash_cpu");
  on_cpu.device = "cpu";
  Results alone = file({on_cpu}, "2026-01-02T00:00:00Z");
  const Input input = make_input({file({passed(), on_cpu}), alone});
  ASSERT_EQ(cases(input).size(), 1u);
  EXPECT_EQ(cases(input)[0].machine, "H200 with EPYC");
  EXPECT_EQ(cases(input)[0].records.size(), 3u);
}

}  // namespace
}  // namespace attest::reports
