// attest run on a race that only some cases show: no pass of that implementation is left.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "testing/folder_test.hpp"

namespace attest::cli {
namespace {

using attest::testing::Outcome;
using nlohmann::json;
using ::testing::HasSubstr;
using ::testing::Not;
namespace fs = std::filesystem;

/// Of three cases the one in the middle has keys enough for the race.
class RacingRun : public testing::FolderTest {
 protected:
  RacingRun() {
    std::ofstream(folder_ / "three.json") << R"({"name": "three", "summary": "s",
      "defaults": {"operation": "softmax", "dtypes": ["f32"], "head_dim": 16},
      "cases": [{"name": "before", "seq_len_q": 8}, {"name": "race", "seq_len_q": 61},
                {"name": "after", "seq_len_q": 9}]})";
  }
  Outcome judge(const std::string& impl, const std::string& more = "") const {
    return attest("run three.json --judge-only --plugin " ATTEST_BINARY_DIR
                  "/tests/plugins/races.so --impl " +
                  impl + " -o r.jsonl" + more);
  }
};

TEST_F(RacingRun, HasNoPassOfTheImplementationThatRaced) {
  const Outcome outcome = judge("race_barrier,naive");
  EXPECT_EQ(outcome.code, 1);
  const std::string why = "a rerun of three/race f32 (";
  EXPECT_THAT(outcome.text, HasSubstr("race_barrier: 1 pass above is suspect: " + why));
  EXPECT_THAT(outcome.text, HasSubstr("\n3 pass, 1 fail, 2 suspect\n"));
  EXPECT_THAT(outcome.text, HasSubstr("\n  attest explain suspect:race "));

  const std::vector<json> found = lines("r.jsonl");
  ASSERT_EQ(found.size(), 8u);
  for (size_t i = 1; i < 7; ++i) {
    const json& line = found[i];
    if (line["impl"] == "naive") {
      EXPECT_EQ(line["verdict"], "pass") << line;
    } else if (line["case"] == "before") {
      EXPECT_EQ(line["verdict"], "pass") << "it was written before the race was seen";
    } else if (line["case"] == "after") {
      EXPECT_EQ(line["code"], "suspect:race");
      EXPECT_THAT(std::string(line["reason"]), HasSubstr(why));
    }
  }
  EXPECT_EQ(found[7]["verdicts"], json({{"pass", 3}, {"fail", 1}, {"suspect", 2}}));
  EXPECT_THAT(std::string(found[7]["races"]["race_barrier"]), HasSubstr(why));
  EXPECT_FALSE(found[7]["races"].contains("naive"));
}

TEST_F(RacingRun, IsReportedAndResumedAsItEnded) {
  judge("race_barrier");
  EXPECT_THAT(attest("report r.jsonl").text, HasSubstr("\n1 fail, 2 suspect\n"));
  EXPECT_THAT(attest("report r.jsonl -f md").text, HasSubstr("| race_barrier | 3 | 1 | 2 |"));
  fs::copy_file(folder_ / "r.jsonl", folder_ / "whole.jsonl");
  std::string text;
  {
    std::ifstream in(folder_ / "whole.jsonl");
    std::ofstream out(folder_ / "r.jsonl");
    for (int i = 0; i < 3 && std::getline(in, text); ++i) out << text << "\n";
  }
  const Outcome resumed = attest("run three.json --judge-only --plugin " ATTEST_BINARY_DIR
                                 "/tests/plugins/races.so --impl race_barrier --resume r.jsonl");
  EXPECT_THAT(resumed.text, HasSubstr("\n1 fail, 2 suspect\n"));
  EXPECT_EQ(lines("r.jsonl").back()["verdicts"], json({{"fail", 1}, {"suspect", 2}}));
}

// Sums in another order are no race: they fail where they are seen, and nowhere else.
TEST_F(RacingRun, LeavesSumsWhoseOrderVariesAlone) {
  const Outcome outcome = judge("race_order_undeclared,honest_order");
  EXPECT_THAT(outcome.text, Not(HasSubstr("suspect")));
}

}  // namespace
}  // namespace attest::cli
