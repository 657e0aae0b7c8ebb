// The options --paced, --contend and --energy: their words, their errors, and the repro line.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "testing/folder_test.hpp"

namespace attest::cli {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr const char* kRepro =
    "repro --impl naive --judge-only --relations none --fill random --threads 1 ";
constexpr const char* kSpec = " 'softmax seq_len_q=61 head_dim=16'";

class Pacing : public testing::FolderTest {
 protected:
  testing::Outcome repro(const std::string& options) const {
    return attest(kRepro + options + kSpec);
  }
};

TEST_F(Pacing, IsRecordedWithItsReproLine) {
  const testing::Outcome outcome =
      repro("--paced 50Hz --paced-for 200ms --contend compute:1,stream:1@0.5 --energy -o r.jsonl");
  ASSERT_EQ(outcome.code, 0) << outcome.text;
  EXPECT_THAT(outcome.text,
              AllOf(HasSubstr("50Hz alone: "), HasSubstr("of 10 frames missed (queue-all), "),
                    HasSubstr("50Hz beside compute:1 ("), HasSubstr("energy")));
  std::ifstream in(folder_ / "r.jsonl");
  std::string line;
  std::getline(in, line);  // the header
  ASSERT_TRUE(std::getline(in, line));
  const nlohmann::json record = nlohmann::json::parse(line);
  EXPECT_THAT(std::string(record["repro"]),
              HasSubstr(" --energy --paced 50Hz --paced-for 200ms --contend compute:1 --contend "
                        "stream:1@0.5"));
  EXPECT_EQ(record["paced"]["contended"]["neighbours"].size(), 2u);
}

// Frames and windows of energy last as long as they were asked to: they are no cost of the harness.
TEST_F(Pacing, ClosingLineCountsFramesAndEnergyAlone) {
  const std::string run =
      "run 'softmax seq_len_q=61 head_dim=16' --impl naive --judge-only "
      "--relations none --fill random --threads 1";
  const testing::Outcome paced = attest(run + " --paced 50Hz --paced-for 200ms");
  EXPECT_EQ(paced.code, 0) << paced.text;
  EXPECT_THAT(paced.text,
              AllOf(HasSubstr(" s in frames and energy, "), Not(HasSubstr(", 0.0 s in frames"))));
  const testing::Outcome other = attest(run);
  EXPECT_EQ(other.code, 0) << other.text;
  EXPECT_THAT(other.text, AllOf(HasSubstr(" in the harness"), Not(HasSubstr("frames and energy"))));
}

TEST_F(Pacing, WrongWordsAreExplained) {
  const std::pair<const char*, const char*> wrong[] = {
      {"--paced 12Hzz", "must be a rate such as 12Hz, or a time such as 50ms"},
      {"--paced 0", "'0': must be"},
      {"--paced 1MHz", "from 100us to 60s"},
      {"--paced 12", "12 has no unit: say 12Hz or 12ms"},
      {"--paced-for 2s", "--paced-for goes with --paced RATE"},
      {"--paced-for 10s", "--paced-for goes with --paced RATE"},
      {"--contend stream:1", "--contend goes with --paced RATE"},
      {"--paced 12Hz --contend disk", "there are stream, cache, compute, camera, same. Write"},
      {"--paced 12Hz --contend 'stream:2;camera:1'",
       "'2;camera:1' must be a number from 1 to 256. Write KIND:N, and commas between several: "
       "stream:2,camera:1"}};
  for (const auto& [options, message] : wrong) {
    const testing::Outcome outcome = repro(options);
    EXPECT_EQ(outcome.code, 64) << options;
    EXPECT_THAT(outcome.text, HasSubstr(message)) << options;
  }
}

}  // namespace
}  // namespace attest::cli
