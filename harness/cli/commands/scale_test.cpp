// attest scale as a user meets it: points become records, and reports say the same from the file.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <set>

#include "testing/folder_test.hpp"
#include "testing/json_schema.hpp"

namespace attest::cli {
namespace {

using attest::testing::Outcome;
using nlohmann::json;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

class Scale : public testing::FolderTest {
 protected:
  Outcome scale(const std::string& arguments) const {
    return attest("scale --budget 20ms --relations none " + arguments);
  }
  std::set<std::string> cases(const std::string& name) const {
    std::set<std::string> found;
    for (const json& one : results(name)) found.insert(one["case"]);
    return found;
  }
};

const std::string kSmall = "'softmax num_heads=2 head_dim=32' --over seq_len_q=64..512:2 ";

TEST_F(Scale, EveryPointIsARecord) {
  const Outcome outcome = scale(kSmall +
                                "--impl 'flash_cpu,naive' --threads 1 --doublings 0 "
                                "--deadline 50ms --memory 64MiB -o s.jsonl --json s.json");
  EXPECT_EQ(outcome.code, 0) << outcome.text;
  EXPECT_EQ(
      cases("s.jsonl"),
      (std::set<std::string>{"softmax/smallest", "softmax/seq_len_q=64", "softmax/seq_len_q=128",
                             "softmax/seq_len_q=256", "softmax/seq_len_q=512"}));
  const attest::testing::JsonSchema schema("reports/results.schema.json");
  for (const json& one : results("s.jsonl")) {
    EXPECT_EQ(schema.errors(one), "");
    EXPECT_EQ(one["verdict"], "pass");
    EXPECT_EQ(one["sweep"]["sweep"], "softmax");
    EXPECT_EQ(one["sweep"]["deadline_ns"], 5e7);
    EXPECT_EQ(one["sweep"]["memory_bytes"], 64 << 20);
    EXPECT_THAT(one["repro"].get<std::string>(), HasSubstr("attest repro --impl "));
  }
  EXPECT_THAT(outcome.text,
              AllOf(HasSubstr("softmax f32 over seq_len_q, 1 thread"), HasSubstr("time grows as"),
                    HasSubstr("in 50.0 ms"), HasSubstr("crossovers"),
                    HasSubstr("in a time or an amount of memory: the largest size")));
  // What is printed comes from records only.
  ASSERT_EQ(attest("report s.jsonl -o s.scaling.txt").code, 0);
  std::ifstream in(folder_ / "s.scaling.txt");
  const std::string report((std::istreambuf_iterator<char>(in)), {});
  EXPECT_THAT(report, HasSubstr("time grows as"));
  EXPECT_THAT(outcome.text, HasSubstr(report));
  EXPECT_THAT(attest("report s.jsonl").text, HasSubstr(report));
  EXPECT_EQ(json::parse(std::ifstream(folder_ / "s.json"))["sweeps"][0]["series"].size(), 2u);
}

TEST_F(Scale, EveryReportReadsItAgainFromTheFile) {
  ASSERT_EQ(scale(kSmall + "--impl 'flash_cpu,naive' --threads 1 --doublings 0 --deadline 50ms "
                           "--memory 64MiB -o s.jsonl")
                .code,
            0);
  ASSERT_EQ(attest("report s.jsonl -f markdown,json,html --no-charts -o s").code, 0);
  const auto text = [&](const char* name) {
    std::ifstream in(folder_ / name);
    return std::string((std::istreambuf_iterator<char>(in)), {});
  };
  json summary = json::parse(text("s.json"));
  EXPECT_EQ(attest::testing::JsonSchema("reports/summary.schema.json").errors(summary), "");
  ASSERT_EQ(summary["scaling"].size(), 1u);
  EXPECT_EQ(summary["scaling"][0]["sweeps"][0]["series"].size(), 2u);
  for (const char* name : {"s.md", "s.html"})
    EXPECT_THAT(text(name),
                AllOf(HasSubstr("Scaling of softmax f32 over seq"), HasSubstr("Crossovers"),
                      HasSubstr("in 50.0 ms"), HasSubstr("in 64.0 MiB")))
        << name;
}

TEST_F(Scale, PointsAreAddedWhereTheFitIsLoose) {
  const Outcome outcome = scale(
      "'softmax num_heads=2 head_dim=32' --over seq_len_q=64..1k:16 --impl naive --threads 1 "
      "--doublings 2 -o s.jsonl");
  EXPECT_EQ(outcome.code, 0) << outcome.text;
  const std::set<std::string> found = cases("s.jsonl");
  EXPECT_TRUE(found.contains("softmax/seq_len_q=256")) << "two points are too few for a fit";
  EXPECT_TRUE(found.contains("softmax/seq_len_q=128"));
  EXPECT_EQ(found.size(), 6u) << "two doublings of one gap, and the smallest problem";
  EXPECT_THAT(
      outcome.text,
      ::testing::StartsWith("2 points for each implementation: 2 sizes of seq_len_q (64 .. 1024); "
                            "before them the smallest problem, and after them up to 2 rounds of "
                            "points between others (--doublings 0: none)\n"));
  EXPECT_THAT(outcome.text, HasSubstr("\nadded between others, where a fit is loose or "
                                      "implementations cross: softmax/seq_len_q=256\n"));
}

TEST_F(Scale, SaysWhatOnePointIs) {
  const Outcome outcome = scale(
      "'softmax head_dim=16' --over seq_len_q=64 --impl naive --threads 1 --doublings 0 -o "
      "s.jsonl");
  EXPECT_THAT(outcome.text,
              ::testing::StartsWith("1 point for each implementation: 1 size of seq_len_q (64); "
                                    "before it the smallest problem\n"));
}

TEST_F(Scale, TakesDtypesAsBenchDoes) {
  const Outcome outcome =
      scale(kSmall + "--impl naive --threads 1 --doublings 0 --dtype f32,bf16 -o s.jsonl");
  EXPECT_EQ(outcome.code, 0) << outcome.text;
  EXPECT_THAT(outcome.text,
              ::testing::StartsWith("8 points for each implementation: 4 sizes of seq_len_q (64 .. "
                                    "512) in 2 dtypes; before them the smallest problem\n"));
  std::set<std::string> dtypes;
  for (const json& one : results("s.jsonl")) dtypes.insert(one["dtype"]);
  EXPECT_EQ(dtypes, (std::set<std::string>{"f32", "bf16"}));
}

TEST_F(Scale, RunsWithEachNumberOfThreads) {
  const Outcome outcome = scale(kSmall + "--impl flash_cpu --threads 1,2 --doublings 0 -o s.jsonl");
  EXPECT_EQ(outcome.code, 0) << outcome.text;
  std::set<int> threads;
  for (const json& one : results("s.jsonl")) {
    threads.insert(one["threads"].get<int>());
    EXPECT_THAT(one["case"].get<std::string>(),
                ::testing::EndsWith("/threads=" + std::to_string(one["threads"].get<int>())));
  }
  EXPECT_EQ(threads, (std::set<int>{1, 2}));
  EXPECT_THAT(outcome.text, AllOf(HasSubstr("scaling over threads"), HasSubstr("efficiency")));
}

TEST_F(Scale, SkipsWhatIsTooDearWithFigures) {
  const Outcome outcome = scale(
      "'softmax num_heads=8 head_dim=64' --over seq_len_q=256,512k "
      "--impl flash_cpu --doublings 0 --case-limit 1s -o s.jsonl");
  EXPECT_EQ(outcome.code, 0) << outcome.text;
  EXPECT_THAT(outcome.text, HasSubstr("flash_cpu at 524288: skipped: "));
  EXPECT_EQ(results("s.jsonl").back()["verdict"], "skipped");
}

TEST_F(Scale, GoesOnWithAFileThatWasCutShort) {
  const std::string arguments = kSmall + "--impl flash_cpu --threads 1,2 --doublings 0 ";
  ASSERT_EQ(scale(arguments + "-o s.jsonl").code, 0);
  std::vector<std::string> lines;
  std::ifstream in(folder_ / "s.jsonl");
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  std::ofstream(folder_ / "cut.jsonl") << lines[0] << "\n" << lines[1] << "\n" << lines[2] << "\n";
  const Outcome outcome = scale(arguments + "--resume cut.jsonl");
  EXPECT_EQ(outcome.code, 0) << outcome.text;
  EXPECT_EQ(cases("cut.jsonl"), cases("s.jsonl"));
  EXPECT_EQ(results("cut.jsonl")[1], json::parse(lines[2])) << "finished records stay";
}

TEST_F(Scale, SuitesHaveASectionForIt) {
  std::ofstream(folder_ / "mine.json") << R"({"name": "mine", "summary": "sizes",
    "defaults": {"operation": "softmax", "dtypes": ["f32", "f16"], "head_dim": 16},
    "scaling": [{"name": "dense", "over": "seq_len_q=64,128,256", "impls": ["naive"]},
                {"name": "more", "seq_len_q": 64, "over": "batch=1,2,4"}]})";
  const Outcome outcome = scale(
      "mine.json --case dense --dtype f16 --threads 1 --impl 'naive,flash_cpu' --doublings 0 "
      "-o s.jsonl");
  EXPECT_EQ(outcome.code, 0) << outcome.text;
  EXPECT_THAT(outcome.text, HasSubstr("mine/dense f16 over seq_len_q, 1 thread"));
  for (const json& one : results("s.jsonl")) EXPECT_EQ(one["impl"], "naive");
  EXPECT_EQ(results("s.jsonl").size(), 4u);
  EXPECT_THAT(attest("run mine.json").text, HasSubstr("attest scale mine.json"));
  EXPECT_THAT(attest("list mine.json").text, HasSubstr("dense"));
}

TEST_F(Scale, SaysWhatIsWrong) {
  for (const auto& [arguments, said] : std::vector<std::pair<std::string, std::string>>{
           {"", "required"},
           {"'softmax head_dim=64'", "needs --over, e.g. --over seq_len_q=1k..256k"},
           {"'softmax head_dim=64' --over seq_len=1k..4k", "did you mean 'seq_len_q'?"},
           {"'sofmax head_dim=64' --over seq_len_q=1k..4k", "did you mean 'softmax'?"},
           {kSmall + "--deadline 0ms", "--deadline: '0ms': must be from"},
           {kSmall + "--memory 0", "--memory: '0': must be at least"},
           {kSmall + "--threads 0", "--threads '0': must be numbers of threads"},
           {kSmall + "--quick", "--quick and --case select from suites; leave them out"},
           {kSmall + "--dtype f33", "'dtype=f33': must be f32, f16"},
           {"'softmax head_dim=64 dtype=f16' --over seq_len_q=1k..4k --dtype f32",
            "--dtype: the problem has dtype= too; leave one out"},
           {"vit", "vit: has no section scaling"},
           {"vit --over seq_len_q=1k..4k", "--over goes with a problem"},
           {kSmall + "--impl nobody", "--impl nobody: matches none of"}}) {
    const Outcome outcome = scale(arguments);
    EXPECT_EQ(outcome.code, 64) << arguments << "\n" << outcome.text;
    EXPECT_THAT(outcome.text, HasSubstr(said)) << arguments;
    EXPECT_THAT(outcome.text, Not(HasSubstr("worst"))) << "said before anything runs";
  }
}

}  // namespace
}  // namespace attest::cli
