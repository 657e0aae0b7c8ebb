// The line of a record repeats the record, and its own record has the same line, whichever options
// decide what is judged.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "testing/folder_test.hpp"

namespace attest::cli {
namespace {

using attest::testing::Outcome;
using nlohmann::json;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;
namespace fs = std::filesystem;

class ReproLine : public testing::FolderTest {
 protected:
  // The only record of `attest ARGUMENTS`.
  json record_of(const std::string& arguments) const {
    const Outcome outcome = attest(arguments + " -o r.jsonl --overwrite");
    const std::vector<json> all = results("r.jsonl");
    EXPECT_EQ(all.size(), 1u) << arguments << "\n" << outcome.text;
    return all.empty() ? json() : all[0];
  }
  // Expects that the line of the record makes the record again; returns the line.
  std::string expect_repeated(const std::string& arguments) const {
    const json first = record_of(arguments);
    const std::string line = first.value("repro", "none");
    EXPECT_THAT(line, StartsWith("attest "));
    const json again = record_of(line.substr(line.find(' ') + 1) + " --judge-only");
    EXPECT_EQ(again.value("repro", "none"), line);
    EXPECT_EQ(again["spec"], first["spec"]) << line;
    EXPECT_EQ(again["verdict"], first["verdict"]) << line;
    EXPECT_EQ(again["arithmetic"], first["arithmetic"]) << line;
    EXPECT_EQ(again["fills"].size(), first["fills"].size()) << line;
    for (size_t i = 0; i < std::min(first["fills"].size(), again["fills"].size()); ++i)
      EXPECT_EQ(again["fills"][i]["inputs_hash"], first["fills"][i]["inputs_hash"]) << line;
    return line;
  }
};

constexpr const char* kProblem = " 'softmax dtype=f16 seq_len_q=16 head_dim=16 window_right=0'";

TEST_F(ReproLine, HasTheProblemTheImplementationAndTheThreads) {
  EXPECT_EQ(expect_repeated("run --judge-only --relations none --impl naive --threads 2" +
                            std::string(kProblem)),
            "attest repro --impl naive --threads 2 --relations none" + std::string(kProblem));
}

TEST_F(ReproLine, HasEveryOptionThatDecidesWhatIsJudged) {
  fs::copy(ATTEST_BINARY_DIR "/plugins/flash_cpu.so", folder_ / "my flash.so");
  const std::string line = expect_repeated(
      "run --judge-only --relations none --impl 'flash_cpu@my flash.so' --plugin 'my flash.so' "
      "--threads 1 "
      "--timeout 7 --memory 2GiB --min-arithmetic acc=f32 --host-golden --fill "
      "random,codebook" +
      std::string(kProblem));
  for (const char* words :
       {"--impl 'flash_cpu@my flash.so'", "--plugin 'my flash.so'", "--threads 1", "--timeout 7s",
        "--memory 2GiB", "--min-arithmetic acc=f32", "--host-golden", "--relations none",
        "--fill random,codebook"})
    EXPECT_THAT(line, HasSubstr(words));
}

TEST_F(ReproLine, HasNoOptionThatWasNotGiven) {
  const std::string line =
      expect_repeated("repro --judge-only --impl naive" + std::string(kProblem));
  for (const char* words : {"--plugin", "--timeout", "--memory", "--min-arithmetic",
                            "--host-golden", "--relations", "--fill", "--inputs", "--tokens"})
    EXPECT_THAT(line, Not(HasSubstr(words)));
}

TEST_F(ReproLine, OfACaseHasItsFillsAndTokens) {
  write("t.json", R"({"name": "t", "summary": "s", "cases": [{"name": "a", "operation": "softmax",
    "dtypes": ["f32"], "inputs": "lidar:first=64", "fills": ["tokens"], "seq_len_q": "tokens",
    "head_dim": 16}]})");
  const std::string line =
      expect_repeated("run t.json --judge-only --relations none --impl naive --threads 1");
  EXPECT_THAT(line, HasSubstr(" --inputs lidar:"));
  EXPECT_THAT(line, HasSubstr("first=64"));
  EXPECT_THAT(line, HasSubstr(" --fill tokens"));
}

}  // namespace
}  // namespace attest::cli
