// attest probe, and the share of the roofline in records, as a user meets them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

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

}  // namespace
}  // namespace attest::cli
