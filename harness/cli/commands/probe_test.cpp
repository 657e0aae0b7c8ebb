// attest probe, and the share of the roofline in records, as a user meets them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

#include "testing/folder_test.hpp"

namespace attest::cli {
namespace {

using attest::testing::Outcome;
using nlohmann::json;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;

using Probe = testing::FolderTest;

TEST_F(Probe, PrintsEveryLimitAndWritesIt) {
  const Outcome outcome = attest("probe --threads 1 --json limits.json");
  EXPECT_EQ(outcome.code, 0) << outcome.text;
  for (const char* line :
       {"f32 multiply-add +[0-9.]+ +[0-9.]+ GFLOP/s", "f32 exp +[0-9.]+ +[0-9.]+ Gexp/s",
        "memory read +[0-9.]+ +[0-9.]+ GB/s", "memory triad +[0-9.]+ +[0-9.]+ GB/s"})
    EXPECT_THAT(outcome.text, ContainsRegex(line));
  const json limits = json::parse(std::ifstream(folder_ / "limits.json"))["limits"];
  for (const char* key : {"fma_gflops", "all_fma_gflops", "exp_gps", "read_gbs", "triad_gbs"})
    EXPECT_TRUE(limits.contains(key)) << key;
  EXPECT_EQ(limits["threads"], "1");
}

// A run that times nothing starts without a probe.
TEST_F(Probe, IsInTheHeaderIfSomethingIsTimed) {
  const std::string run = "run 'softmax seq_len_q=5 head_dim=16' --impl naive --relations none ";
  EXPECT_EQ(attest(run + "--budget 0.01 -o timed.jsonl").code, 0);
  EXPECT_EQ(attest(run + "--judge-only -o judged.jsonl").code, 0);
  EXPECT_TRUE(lines("timed.jsonl")[0]["environment"].contains("limits"));
  EXPECT_FALSE(lines("judged.jsonl")[0]["environment"].contains("limits"));
}

// What the CPU reaches says nothing of implementations on devices.
TEST_F(Probe, IsInListForIfAnImplementationIsOnTheCpu) {
  const std::string list =
      "list --plugin " ATTEST_BINARY_DIR
      "/tests/plugins/device.so --for 'softmax seq_len_q=5 head_dim=16' --impl ";
  const Outcome device = attest(list + "device_none"), both = attest(list + "'device_none,naive'");
  EXPECT_THAT(device.text, ContainsRegex("1.25 KiB of tensors\ndevice_none +[yn]"));
  EXPECT_THAT(both.text, ContainsRegex("1.25 KiB of tensors\nestimate: a run takes at least .*\n"
                                       "device_none +.*\nnaive +yes"));
}

// The threads are those of another process than the one that measures.
TEST_F(Probe, WarnsOfABusyMachine) {
  std::atomic<bool> ends = false;
  std::vector<std::thread> busy;
  for (unsigned i = 0; i < 2 * std::thread::hardware_concurrency(); ++i)
    busy.emplace_back([&] {
      while (!ends) {
      }
    });
  const Outcome outcome = attest("probe --json limits.json");
  ends = true;
  for (std::thread& one : busy) one.join();
  EXPECT_EQ(outcome.code, 0) << outcome.text;
  EXPECT_THAT(outcome.text, ContainsRegex("warning: other processes kept [0-9.]+ of [0-9]+ CPUs? "
                                          "busy meanwhile, which lowers these figures; run it "
                                          "again on a quiet machine"));
  EXPECT_GT(json::parse(std::ifstream(folder_ / "limits.json"))["cpus_of_others"], 0.25);
}

TEST_F(Probe, HasALineForEachDtype) {
  const Outcome outcome = attest("probe --threads 1");
  for (const char* dtype : {"f32", "f16", "bf16"})
    EXPECT_THAT(outcome.text, ContainsRegex(std::string("\n") + dtype +
                                            " multiply-add +([0-9]|none: attest found no unit)"));
}

// The fake device has four multiprocessors of sm_90 at 2 GHz, and 512 bits of memory at 1 GHz.
TEST_F(Probe, NamesTheLimitsOfAGpu) {
  setenv("ATTEST_CUDA_DRIVER", ATTEST_BINARY_DIR "/tests/fake_cuda.so", 1);
  const Outcome outcome = attest("probe --threads 1 --json limits.json");
  unsetenv("ATTEST_CUDA_DRIVER");
  EXPECT_THAT(outcome.text, ContainsRegex("f16 multiply-add +32768 +GFLOP/s +tensor cores"));
  EXPECT_THAT(outcome.text, ContainsRegex("memory read +128 +GB/s"));
  const json devices = json::parse(std::ifstream(folder_ / "limits.json"))["devices"];
  EXPECT_EQ(devices["cuda"]["f16_tensor_cores_gflops"], "3.277e+04");
  EXPECT_EQ(devices["cuda"]["read_gbs"], "128");
}

TEST_F(Probe, SaysWhatIsWrong) {
  EXPECT_EQ(attest("probe --threads 0").code, 64);
  const Outcome outcome = attest("probe --threads 1 --json no/such/folder.json");
  EXPECT_EQ(outcome.code, 4);
  EXPECT_THAT(outcome.text, HasSubstr("--json no/such/folder.json: cannot be written"));
}

TEST_F(Probe, EveryTimedRecordHasItsShareOfTheRoofline) {
  const Outcome outcome = attest(
      "bench 'softmax num_heads=4 seq_len_q=512 head_dim=64' --dtype f32,bf16 --impl flash_cpu "
      "--threads 1 --relations none --budget 100ms -o r.jsonl");
  EXPECT_EQ(outcome.code, 0) << outcome.text;
  EXPECT_THAT(outcome.text, HasSubstr("roofline: the least time"));
  const std::vector<json> records = results("r.jsonl");
  EXPECT_EQ(records.size(), 2u);
  for (const json& one : records) {
    ASSERT_TRUE(one.contains("roofline")) << one;
    const json& roofline = one["roofline"];
    EXPECT_GT(roofline["share"], 0.001);
    EXPECT_THAT(roofline["limit"].get<std::string>(), ContainsRegex("^b?f(16|32) ."));
    EXPECT_NEAR(roofline["share"].get<double>(),
                roofline["least_ns"].get<double>() / one["time"]["median_ns"].get<double>(), 1e-9);
    // 512 * 512 pairs, 2 * 128 flops each, over four tensors of 512 * 64 elements, in each head.
    EXPECT_DOUBLE_EQ(roofline["flops_per_byte"], one["dtype"] == "f32" ? 128 : 256);
  }
}

// The fake device has four multiprocessors of sm_90 at 2 GHz.
TEST_F(Probe, ATimeOfAGpuHasItsShareOfTheGpusLimits) {
  setenv("ATTEST_CUDA_DRIVER", ATTEST_BINARY_DIR "/tests/fake_cuda.so", 1);
  const Outcome outcome = attest(
      "bench 'softmax num_heads=2 seq_len_q=61 head_dim=16' --impl device_none "
      "--plugin " ATTEST_BINARY_DIR
      "/tests/plugins/device.so --relations none --budget 50ms -o r.jsonl");
  unsetenv("ATTEST_CUDA_DRIVER");
  EXPECT_EQ(outcome.code, 0) << outcome.text;
  const std::vector<json> records = results("r.jsonl");
  ASSERT_EQ(records.size(), 1u);
  ASSERT_TRUE(records[0].contains("roofline")) << records[0];
  const json& roofline = records[0]["roofline"];
  EXPECT_EQ(roofline["limit"], "f32 tensor cores");
  const double gflops = 4 * 2 * 4096 / 6.0;
  EXPECT_NEAR(roofline["least_ns"].get<double>(), 2 * 61 * 61 * 4 * 16 / gflops, 1e-6);
}

}  // namespace
}  // namespace attest::cli
