// attest compare as a build server meets it: files that were made worse in one way each, and the
// exit codes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "testing/folder_test.hpp"

namespace attest::cli {
namespace {

using attest::testing::Outcome;
using nlohmann::json;
using ::testing::HasSubstr;

class Compare : public testing::FolderTest {
 protected:
  void SetUp() override {
    const Outcome outcome = attest(
        "run smoke --case softmax/dense,softmax/cross --dtype f32 --impl naive --budget 0.05 "
        "--relations none -o ran.jsonl");
    ASSERT_EQ(outcome.code, 0) << outcome.text;
    // However busy the machine is.
    rewrite_records("ran.jsonl", "a.jsonl",
                    [](json& line) { line["time"]["samples_ns"] = std::vector<double>(20, 1e6); });
    ASSERT_EQ(attest("compare --floor 5 a.jsonl a.jsonl").code, 0);
  }
  Outcome compare(const std::string& arguments) const { return attest("compare " + arguments); }

  // a.jsonl with its first record changed, as b.jsonl.
  void change(const std::function<void(json&)>& change) const {
    bool changed = false;
    rewrite_records("a.jsonl", "b.jsonl", [&](json& line) {
      if (!changed) change(line);
      changed = true;
    });
  }
  static void scale_times(json& line, double factor) {
    for (json& sample : line["time"]["samples_ns"]) sample = sample.get<double>() * factor;
  }
};

TEST_F(Compare, ExitCodesSayWhatIsWorse) {
  bool is_first = true;
  rewrite_records("a.jsonl", "b.jsonl", [&](json& line) {
    line["plugin_hash"] = "1111111111111111";  // another build
    if (std::exchange(is_first, false)) scale_times(line, 3);
  });
  const Outcome slower = compare("--floor 5 a.jsonl b.jsonl --json c.json");
  EXPECT_EQ(slower.code, 2) << slower.text;
  EXPECT_THAT(slower.text, HasSubstr("SLOWER x3.000"));
  EXPECT_THAT(slower.text, HasSubstr("1 slower, 0 faster"));
  EXPECT_THAT(compare("--changed --floor 5 a.jsonl b.jsonl").text,
              HasSubstr("1 of 2 did not change"));
  EXPECT_EQ(compare("--floor 5 a.jsonl b.jsonl --report c.html").code, 2);
  EXPECT_THAT(text("c.html"),
              HasSubstr("Comparison with an earlier build: 1 of 2 cases got worse"));
  EXPECT_THAT(text("c.html"), HasSubstr("\"axis\":\"head_dim\"")) << "and the new results";
  const Outcome csv = compare("--floor 5 a.jsonl b.jsonl --report c.csv");
  EXPECT_EQ(csv.code, 64);
  EXPECT_THAT(csv.text, HasSubstr("--report c.csv: must end in .html or .md"));
  EXPECT_EQ(json::parse(text("c.json"))["cases"][0]["time"]["change"], "SLOWER");
  EXPECT_EQ(compare("--floor 5 b.jsonl a.jsonl").code, 0) << "faster is not worse";
  EXPECT_EQ(compare("--floor 5% a.jsonl --after b.jsonl").code, 2);
  EXPECT_EQ(compare("--floor nan a.jsonl b.jsonl").code, 64);

  change([](json& line) {
    line["memory"]["workspace_bytes"] = 1 << 30;
    line["memory"]["peak_bytes"] = 1 << 30;
  });
  EXPECT_EQ(compare("--floor 5 a.jsonl b.jsonl").code, 2);
  change([](json& line) { line["fills"][0]["judgement"]["max_ratio"] = 0.99; });
  EXPECT_EQ(compare("--floor 5 a.jsonl b.jsonl").code, 2);
  change([](json& line) {
    line["verdict"] = "fail";
    line["code"] = "fail:tolerance";
  });
  EXPECT_EQ(compare("--floor 5 a.jsonl b.jsonl").code, 1);
}

// What ran is the same to the last bit: a build server is not to be failed by its machine.
TEST_F(Compare, TheSameBuildIsNeverSlower) {
  change([](json& line) { scale_times(line, 3); });
  const Outcome outcome = compare("--floor 5 a.jsonl b.jsonl");
  EXPECT_EQ(outcome.code, 0) << outcome.text;
  EXPECT_THAT(outcome.text, HasSubstr("SLOWER x3.000 [3.000 3.000] (machine)"));
}

TEST_F(Compare, AForgottenAfterIsNoPoolOfBuilds) {
  rewrite_records("a.jsonl", "new.jsonl",
                  [](json& line) { line["plugin_hash"] = "1111111111111111"; });
  const Outcome outcome = compare("--floor 5 a.jsonl a.jsonl new.jsonl new.jsonl");
  EXPECT_EQ(outcome.code, 64) << outcome.text;
  EXPECT_THAT(
      outcome.text,
      HasSubstr("compare them by: attest compare a.jsonl a.jsonl --after new.jsonl new.jsonl"));
  EXPECT_EQ(compare("--floor 5 a.jsonl a.jsonl --after new.jsonl new.jsonl").code, 0);
}

// Without a floor two files say nothing of a machine's noise.
TEST_F(Compare, TwoFilesAloneAreInconclusive) {
  change([](json& line) { scale_times(line, 3); });
  const Outcome outcome = compare("a.jsonl b.jsonl");
  EXPECT_EQ(outcome.code, 0);
  EXPECT_THAT(outcome.text, HasSubstr("INCONCLUSIVE x3.000"));
  EXPECT_THAT(outcome.text, HasSubstr("state it with --floor"));
  EXPECT_EQ(compare("--strict a.jsonl b.jsonl").code, 3);
}

TEST_F(Compare, TimesMayBeSharesOfTheRoofline) {
  const Outcome same = compare("--floor 5 --relative-to roofline a.jsonl a.jsonl");
  EXPECT_EQ(same.code, 0) << same.text;
  EXPECT_THAT(same.text, HasSubstr("2 as fast"));
  // Another build on a day when the machine is a third as fast.
  rewrite_records("a.jsonl", "b.jsonl", [](json& line) {
    line["plugin_hash"] = "1111111111111111";
    scale_times(line, 3);
    line["roofline"]["least_ns"] = 3 * line["roofline"]["least_ns"].get<double>();
  });
  EXPECT_EQ(compare("--floor 5 --relative-to roofline a.jsonl b.jsonl").code, 0);
  EXPECT_EQ(compare("--floor 5 a.jsonl b.jsonl").code, 2);
}

TEST_F(Compare, SaysInOneLineWhatIsWrong) {
  rewrite_records("a.jsonl", "old.jsonl", [](json& line) { line.erase("roofline"); });
  write("poem.jsonl", "roses\nare red\n");
  write("empty.jsonl", "");
  change([](json& line) { line["case"] = "another"; });
  const std::tuple<std::string, int, std::string> cases[] = {
      {"a.jsonl", 64, "one file alone"},
      {"", 64, "required"},
      {"a.jsonl poem.jsonl", 64, "attest: poem.jsonl: line 1 is no line of results"},
      {"a.jsonl none.jsonl", 64, "attest: none.jsonl: cannot be read"},
      {"a.jsonl empty.jsonl", 64, "attest: empty.jsonl: holds no results"},
      {"a.jsonl a.jsonl --floor -3", 64, "--floor"},
      {"a.jsonl a.jsonl --json /nowhere/c.json", 4, "--json /nowhere/c.json: cannot be written"},
      {"a.jsonl a.jsonl --relative-to nobody --floor 5", 64,
       "--relative-to 'nobody': no file has records of it"},
      {"old.jsonl old.jsonl --relative-to roofline --floor 5", 64,
       "--relative-to roofline: no record has it"},
      {"a.jsonl a.jsonl --relative-to naive --floor 5", 64,
       "--relative-to 'naive': no file has records of another"},
      {"a.jsonl a.jsonl --json a.jsonl", 64, "--json a.jsonl: is one of the files that are read"},
  };
  for (const auto& [arguments, code, said] : cases) {
    const Outcome outcome = compare(arguments);
    EXPECT_EQ(outcome.code, code) << arguments << "\n" << outcome.text;
    EXPECT_THAT(outcome.text, HasSubstr(said)) << arguments;
    EXPECT_THAT(outcome.text, ::testing::Not(HasSubstr(" compared:")))
        << arguments << ": said before anything is printed";
  }
  const Outcome outcome = compare("--floor 5 a.jsonl b.jsonl");
  EXPECT_THAT(outcome.text, HasSubstr("only after:\n  smoke/another f32 naive"));
}

TEST_F(Compare, NothingInCommonIsNothingMeasured) {
  write_lines("begun.jsonl", {lines("a.jsonl").front()});
  EXPECT_EQ(compare("a.jsonl begun.jsonl").code, 4);
}

TEST_F(Compare, NoTimeOfAnotherMachineIsNothingMeasured) {
  rewrite_header("a.jsonl", "elsewhere.jsonl",
                 [](json& header) { header["environment"]["cpu"]["model"] = "another"; });
  const Outcome outcome = compare("--floor 5 elsewhere.jsonl a.jsonl");
  EXPECT_EQ(outcome.code, 4) << outcome.text;
  EXPECT_THAT(outcome.text, HasSubstr("attest: no time could be compared"));
  EXPECT_EQ(compare("--floor 5 --across-machines elsewhere.jsonl a.jsonl").code, 0);
  change([](json& line) { line["memory"]["peak_bytes"] = 1 << 30; });
  EXPECT_EQ(compare("--floor 5 elsewhere.jsonl b.jsonl").code, 2) << "memory can be compared";
}

TEST_F(Compare, TimesThatAreNoTimesAreUndecided) {
  for (const double ns : {0.0, -1e6}) {
    rewrite_records("a.jsonl", "b.jsonl",
                    [&](json& line) { line["time"]["samples_ns"] = std::vector<double>(20, ns); });
    EXPECT_EQ(compare("--floor 5 a.jsonl b.jsonl").code, 0);
    EXPECT_EQ(compare("--floor 5 --strict a.jsonl b.jsonl").code, 3);
    const Outcome both = compare("--floor 5 --strict b.jsonl b.jsonl");
    EXPECT_EQ(both.code, 3) << both.text;
    EXPECT_THAT(both.text, HasSubstr("bad-times: a measured time is not above zero"));
  }
}

TEST_F(Compare, CasesOfOneSideAreListedAndCounted) {
  change([](json& line) { line["case"] = "another"; });
  const Outcome outcome = compare("--floor 5 a.jsonl b.jsonl");
  EXPECT_EQ(outcome.code, 0) << outcome.text;
  EXPECT_THAT(outcome.text, HasSubstr("only before:\n  smoke/softmax/"));
  EXPECT_THAT(outcome.text, HasSubstr("1 only before, 1 only after\n"));
  EXPECT_EQ(compare("--floor 5 --strict a.jsonl b.jsonl").code, 3);
}

TEST_F(Compare, ATornFileIsReadAsFarAsItGoes) {
  const std::string whole = text("a.jsonl");
  write("torn.jsonl", whole.substr(0, whole.rfind('\n', whole.size() - 2) - 10));  // in a record
  const Outcome outcome = compare("--floor 5 a.jsonl torn.jsonl");
  EXPECT_EQ(outcome.code, 0) << outcome.text;
  EXPECT_THAT(outcome.text, HasSubstr("torn.jsonl was cut short"));
  EXPECT_THAT(outcome.text, HasSubstr("only before:"));
}

}  // namespace
}  // namespace attest::cli
