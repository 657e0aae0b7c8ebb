// Noise: what counts as noisy, and that a reader is told which records are.
#include "reports/words/noise.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace attest::reports {
namespace {

using ::testing::ElementsAre;

TEST(Noise, IsSpreadOrWhatHappened) {
  const auto noise = [](std::vector<std::pair<double, const char*>> times) {
    std::vector<core::Record> records;
    for (const auto& [spread, reason] : times) {
      core::Record& record = records.emplace_back();
      record.case_name = std::string(1, char('a' + records.size() - 1));
      record.dtype = "f16";
      record.impl = "mine";
      record.time =
          core::TimeRecord{.median_ns = 100, .q1_ns = 100 - spread / 2, .q3_ns = 100 + spread / 2};
      if (*reason) record.noisy = {reason};
    }
    Noise all;
    all.add(records);
    return all.print() + " " + all.names();
  };
  EXPECT_EQ(noise({{5, ""}, {2, ""}}), " ");
  EXPECT_EQ(noise({{5, ""}, {20, ""}}),
            "1 of 2 times is noisy: half of its samples spread over more than 10 % of the median "
            "(b f16 mine)");
  EXPECT_EQ(noise({{5, "the GPU was hot"}, {2, ""}}),
            "1 of 2 times is noisy: something happened to the machine during it, as notes say: "
            "the GPU was hot (a f16 mine)");
  EXPECT_EQ(
      noise({{20, ""}, {20, ""}}),
      "2 of 2 times are noisy: half of their samples spread over more than 10 % of the median "
      "(a f16 mine, b f16 mine)");
  EXPECT_EQ(noise({{20, ""}, {2, "b"}, {2, ""}, {2, "b"}, {30, "a"}}),
            "4 of 5 times are noisy: half of the samples of 2 spread over more than 10 % of the "
            "median; something happened to the machine during 3, as notes say: b ... (a f16 mine, "
            "b f16 mine, d f16 mine and 1 more)");
}

TEST(Noise, OfARecordIsSaidInItsFigures) {
  core::Record record;
  EXPECT_TRUE(noise_of(record).empty());
  record.time = core::TimeRecord{.median_ns = 100, .q1_ns = 90, .q3_ns = 113};
  record.noisy = {"the GPU was hot"};
  EXPECT_THAT(noise_of(record),
              ElementsAre("half of its samples spread over 23 % of the median", "the GPU was hot"));
  record.time->q3_ns = 99;
  record.noisy.reset();
  EXPECT_TRUE(noise_of(record).empty());
}

}  // namespace
}  // namespace attest::reports
