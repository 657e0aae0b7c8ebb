// attest ab as a user starts it. A script plays attest run: its times are what the test wants them
// to be, so that verdicts do not depend on the machine.
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
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
namespace fs = std::filesystem;

// A "plugin" is a file that holds the time of its runs in nanoseconds. $EXTRA is added to it.
// STOP=N: the launch of the file N.jsonl interrupts attest ab, and waits for what follows.
constexpr const char* kPlayedRun = R"sh(#!/bin/sh
echo "$*" >>arguments
case "$*" in *--refused*) echo "attest: no option --refused" >&2; exit 64 ;; esac
while [ $# -gt 0 ]; do
  case $1 in
    --plugin) plugin=$2 ;;
    --records) records=$2 ;;
    -o) out=$2 ;;
  esac
  shift
done
case $(cat "$plugin") in *[!0-9]*) echo "attest: $plugin does not load" >&2; exit 70 ;; esac
ns=$(($(cat "$plugin") + ${EXTRA:-0}))
hash=$(cksum <"$plugin" | cut -c 1-8)00000000
head -n 1 template.jsonl | sed "s/@START@/$(date -u +%FT%T.%3NZ)/; s/@VARIABLES@/$EXTRA/" >"$out"
case $out in *."$STOP".jsonl) kill -INT $PPID; trap 'exit 130' TERM; sleep 30 & wait; esac
tail -n +2 template.jsonl | grep -F "$(sed 's/.*\///; s/ .*//' "$records")
\"type\":\"end\"" |
  sed "s/@NS@/$ns/g; s/@HASH@/$hash/" >>"$out"
)sh";

class AbCli : public testing::FolderTest {
 protected:
  void SetUp() override {
    const Outcome ran = attest(
        "run smoke --case softmax/dense,softmax/cross --dtype f32 --impl naive --judge-only "
        "--relations none -o ran.jsonl");
    ASSERT_EQ(ran.code, 0) << ran.text;
    std::ofstream out(folder_ / "template.jsonl");
    for (const json& line : lines("ran.jsonl")) out << as_template(line) << "\n";
    std::ofstream(folder_ / "played") << kPlayedRun;
    fs::permissions(folder_ / "played", fs::perms::owner_all);
    for (const auto& [name, ns] : {std::pair("old.so", 1000000), std::pair("copy.so", 1000000),
                                   std::pair("slow.so", 1100000)})
      std::ofstream(folder_ / name) << ns;
  }

  static std::string as_template(json line) {
    if (line["type"] == "header") {
      line["started"] = "@START@";
      line["environment"]["run"]["variables_hash"] = "@VARIABLES@ and the others";
    }
    if (line["type"] == "result") {
      line["plugin_hash"] = "@HASH@";
      line["libraries_hash"] = "00";
      json& time = line["time"];
      time["iterations_per_sample"] = 1;
      for (const char* one :
           {"median_ns", "q1_ns", "q3_ns", "min_ns", "max_ns", "median_low_ns", "median_high_ns",
            "cold_median_ns", "warmup_ns", "create_ns", "coverage"})
        time[one] = 0;
      time["cold_samples_ns"] = json::array();
      time["samples_ns"] = std::vector<std::string>(20, "@NS@");
    }
    std::string text = line.dump();
    for (size_t at; (at = text.find("\"@NS@\"")) != text.npos;) text.replace(at, 6, "@NS@");
    return text;
  }

  Outcome ab(const std::string& arguments) const {
    fs::remove_all(folder_ / "out");
    return attest(
        "ab --before-attest ./played --after-attest ./played -o out smoke --case "
        "softmax/dense,softmax/cross --dtype f32 " +
        arguments);
  }
  size_t count(const std::string& begin) const {
    size_t files = 0;
    for (const fs::directory_entry& entry : fs::directory_iterator(folder_ / "out"))
      files += entry.path().filename().string().starts_with(begin);
    return files;
  }
};

TEST_F(AbCli, FindsASlowerPlugin) {
  const Outcome outcome = ab("--before old.so --after slow.so --seed 7");
  EXPECT_EQ(outcome.code, 2) << outcome.text;
  EXPECT_THAT(outcome.text,
              AllOf(HasSubstr("2 cases, 11 rounds or more, seed 7; results: out"),
                    HasSubstr("round 11 of 11"), HasSubstr("SLOWER x1.100 [1.100 1.100] (fast)"),
                    HasSubstr("(fast): x is of the time that a tenth of the runs beat"),
                    HasSubstr("38 launches"), HasSubstr("2 of 2 slower when measured once more")));
  std::ifstream in(folder_ / "out/comparison.json");
  const json comparison = json::parse(in);
  EXPECT_EQ(comparison["cases"][0]["time"]["change"], "SLOWER");
  EXPECT_EQ(comparison["ab"]["seed"], 7);
  EXPECT_EQ(comparison["ab"]["launches"], 38);
  const Outcome again = attest("compare out/before.* --after out/after.* --json c.json");
  EXPECT_EQ(again.code, 2) << again.text;
  EXPECT_THAT(again.text, HasSubstr("SLOWER x1.100 [1.100 1.100]"));
}

TEST_F(AbCli, ACopyIsNeitherSlowerNorMeasuredAgain) {
  const Outcome outcome = ab("--before old.so --after copy.so");
  EXPECT_EQ(outcome.code, 0) << outcome.text;
  EXPECT_THAT(outcome.text, AllOf(HasSubstr("0 slower, 0 faster, 2 as fast"),
                                  HasSubstr("(same binary)"), HasSubstr("22 launches")));
}

// With a peer, attest's other implementations would be compared too, and make more rounds
// necessary.
TEST_F(AbCli, OnlyThePluginAndItsPeerRun) {
  const auto arguments_of = [this](const std::string& options) {
    fs::remove(folder_ / "arguments");
    ab("--before old.so --after copy.so --rounds 1 " + options);
    std::ifstream in(folder_ / "arguments");
    std::string first;
    std::getline(in, first);
    return first;
  };
  EXPECT_THAT(arguments_of(""), AllOf(HasSubstr("--only-plugins"), Not(HasSubstr("--impl"))));
  EXPECT_THAT(arguments_of("--relative-to roofline"),
              AllOf(HasSubstr("--only-plugins"), Not(HasSubstr("--impl"))));
  EXPECT_THAT(arguments_of("--relative-to naive"),
              AllOf(HasSubstr("--impl *@old.so --impl naive"), Not(HasSubstr("--only-plugins"))));
  EXPECT_THAT(arguments_of("--relative-to naive --impl mine"),
              AllOf(HasSubstr("--impl mine"), HasSubstr("--impl naive"), Not(HasSubstr("*@"))));
}

TEST_F(AbCli, SaysWhenRoundsAreTooFew) {
  const Outcome outcome = ab("--before old.so --after copy.so --rounds 2");
  EXPECT_THAT(outcome.text, HasSubstr("2 times are compared: with 2 rounds no change of one is "
                                      "certain; --rounds 8 may show it"));
}

TEST_F(AbCli, TwoEnvironmentsAreTwoSides) {
  const Outcome outcome = ab("--before old.so --after old.so --after-env EXTRA=50000");
  EXPECT_EQ(outcome.code, 2) << outcome.text;
  EXPECT_THAT(outcome.text,
              AllOf(HasSubstr("after: old.so, ./played, EXTRA=50000"), HasSubstr("SLOWER x1.050")));
}

TEST_F(AbCli, AnInterruptComparesTheRoundsThatAreOver) {
  setenv("STOP", "026", 1);  // the fourth launch of those that confirm
  const Outcome confirming = ab("--before old.so --after slow.so");
  EXPECT_EQ(confirming.code, 130) << confirming.text;
  EXPECT_THAT(confirming.text, AllOf(HasSubstr("INCONCLUSIVE x1.100"), HasSubstr("not-confirmed"),
                                     HasSubstr("interrupted after 11 whole rounds")));

  setenv("STOP", "006", 1);
  const Outcome outcome = ab("--before old.so --after slow.so");
  unsetenv("STOP");
  EXPECT_EQ(outcome.code, 130) << outcome.text;
  EXPECT_THAT(outcome.text, HasSubstr("interrupted after 2 whole rounds"));
  EXPECT_EQ(count("before."), 2u);
  EXPECT_EQ(count("after."), 2u);
  EXPECT_EQ(count("unpaired-"), 2u);
  EXPECT_EQ(attest("compare out/before.* --after out/after.*").code, 0);
}

TEST_F(AbCli, ASelfCheckWritesFloorsThatComparisonsUse) {
  const Outcome outcome = ab("--before old.so --self-check");
  EXPECT_EQ(outcome.code, 0) << outcome.text;
  EXPECT_THAT(
      outcome.text,
      AllOf(HasSubstr("both sides are old.so"), HasSubstr("2 cases, 16 rounds"),
            HasSubstr("A/A: 4 comparisons of identical builds: 0 slower, 0 faster"),
            HasSubstr("at most 52.7 % are false alarms"), HasSubstr("floors: out/floors.json")));
  std::ifstream in(folder_ / "out/floors.json");
  json floors = json::parse(in);
  for (json& floor : floors["cases"]) floor["paired"] = floor["fast"] = 0.2;
  std::ofstream(folder_ / "floors.json") << floors;
  const Outcome slower = ab("--before old.so --after slow.so --floor-from floors.json");
  EXPECT_EQ(slower.code, 0) << slower.text;
  EXPECT_THAT(slower.text, HasSubstr("INCONCLUSIVE x1.100 [1.100 1.100] (within-floor)"));
  EXPECT_EQ(attest("compare out/before.* --after out/after.*").code, 2);
  EXPECT_EQ(attest("compare out/before.* --after out/after.* --floor-from floors.json").code, 0);
  const Outcome wrong =
      attest("compare out/before.* --after out/after.* --floor-from out/comparison.json");
  EXPECT_EQ(wrong.code, 64);
  EXPECT_THAT(wrong.text, HasSubstr("--floor-from out/comparison.json: holds no floors"));
}

TEST_F(AbCli, SaysWhatIsWrong) {
  std::ofstream(folder_ / "poem.so") << "roses";
  const std::tuple<std::string, int, std::string> cases[] = {
      {"--before old.so", 64, "--before names a plugin, --after none; name one with --after too"},
      {"--before old.so --after old.so", 64, "ab: both sides are the same"},
      {"--before old.so --after none.so", 64, "none.so: there is no such file"},
      {"--before old.so --after old.so --after-env EXTRA", 64, "'EXTRA': must be NAME=VALUE"},
      {"--before old.so --after slow.so --rounds 0", 64, "--rounds"},
      {"--before old.so --after slow.so --self-check", 64, "--self-check runs one build"},
      {"--before old.so --after slow.so --floor-from none.json", 64,
       "none.json: cannot be read: No such file or directory; --floor-from takes what attest ab "
       "--self-check writes"},
      {"--before old.so --after slow.so --impl --refused", 64,
       "the launch before wrote no results (exit code 64): no option --refused"},
      {"--before old.so --after poem.so", 4,
       "the launch after wrote no results (exit code 70): poem.so does not load"},
      {"--before old.so --after slow.so --budget never", 64, "--budget"},
      {"--before old.so --after slow.so --relative-to nobody", 64, "no file has records of it"},
  };
  for (const auto& [arguments, code, said] : cases) {
    const Outcome outcome = ab(arguments);
    EXPECT_EQ(outcome.code, code) << arguments << "\n" << outcome.text;
    EXPECT_THAT(outcome.text, HasSubstr(said)) << arguments;
  }
  const auto compared = [this](const std::string& arguments) {
    return attest("ab --before old.so --after slow.so " + arguments);
  };
  EXPECT_THAT(compared("no_suite").text, HasSubstr("no_suite"));
  EXPECT_THAT(compared("'softmax head_dims=3'").text, HasSubstr("did you mean 'head_dim'?"));
  EXPECT_THAT(compared("'softmax head_dim=64' --quick").text, HasSubstr("select cases of suites"));
  const Outcome full = compared("smoke -o .");
  EXPECT_EQ(full.code, 64);
  EXPECT_THAT(full.text, HasSubstr("-o .: the folder is not empty"));
  std::ofstream(folder_ / "compile_commands.json") << "[]";
  const Outcome own = compared("smoke -o . --overwrite");
  EXPECT_EQ(own.code, 64);
  EXPECT_THAT(own.text, HasSubstr("is not of attest ab; name another folder"));
  EXPECT_TRUE(std::filesystem::exists(folder_ / "compile_commands.json"));
}

}  // namespace
}  // namespace attest::cli
