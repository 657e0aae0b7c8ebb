// attest gate as a build server meets it: results with one thing planted, and the exit codes.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "core/record/record.hpp"
#include "testing/folder_test.hpp"

namespace attest::cli {
namespace {

using attest::testing::Outcome;
using nlohmann::json;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
namespace fs = std::filesystem;

class Gate : public testing::FolderTest {
 protected:
  void SetUp() override {
    const Outcome outcome = attest(
        "run smoke --case softmax/dense,softmax/cross --dtype f32 --impl naive --budget 0.05 "
        "--relations none -o ran.jsonl");
    ASSERT_EQ(outcome.code, 0) << outcome.text;
    // However busy the machine is.
    rewrite_records("ran.jsonl", "base.jsonl",
                    [](json& line) { line["time"]["samples_ns"] = std::vector<double>(20, 1e6); });
    std::ofstream(folder_ / "rules.json") << R"({"rules": [
        {"verdict": "pass", "time": {"slower_than": "5 %"}, "memory": {"bigger_than": "5 %"},
         "error": {"larger_than": "1 %"}}]})";
    const Outcome same = gate("base.jsonl --baseline base.jsonl --strict");
    ASSERT_EQ(same.code, 0) << same.text;
  }
  Outcome gate(const std::string& arguments, const std::string& rules = "rules.json") const {
    return attest("gate " + arguments + " --rules " + rules);
  }

  // base.jsonl as that of another build, with its first record changed, as new.jsonl.
  void change(const std::function<void(json&)>& change) const {
    bool is_first = true;
    rewrite_records("base.jsonl", "new.jsonl", [&](json& line) {
      line["plugin_hash"] = "1111111111111111";
      if (std::exchange(is_first, false)) change(line);
    });
  }
  Outcome gate_changed(const std::function<void(json&)>& with,
                       const std::string& options = "") const {
    change(with);
    return gate("new.jsonl --baseline base.jsonl " + options);
  }
  static void fail(json& line) {
    line["verdict"] = "fail";
    line["code"] = "fail:tolerance";
  }
};

TEST_F(Gate, ExitCodesSayWhatIsBroken) {
  EXPECT_EQ(gate_changed([](json&) {}, "--strict").code, 0) << "another build, as good";
  const Outcome slower =
      gate_changed([](json& line) { line["time"]["samples_ns"] = std::vector<double>(20, 3e6); });
  EXPECT_EQ(slower.code, 2) << slower.text;
  EXPECT_THAT(slower.text,
              AllOf(HasSubstr("naive: time: slower x3.000 [3.000 3.000]; rule 1 allows 5 %\n"
                              "      attest repro --impl naive"),
                    HasSubstr("8 limits of 2 cases: 1 broken (1 time), 0 waived, 0 undecided")));
  EXPECT_EQ(gate_changed([](json& line) {
              line["memory"]["workspace_bytes"] = line["memory"]["peak_bytes"] = 1 << 30;
            }).code,
            2);
  EXPECT_EQ(
      gate_changed([](json& line) { line["fills"][0]["judgement"]["max_ratio"] = 0.99; }).code, 2);
  const Outcome failing = gate_changed(fail);
  EXPECT_EQ(failing.code, 1) << failing.text;
  EXPECT_THAT(failing.text, HasSubstr("verdict: fail, was pass"));
  const Outcome untimed = gate_changed([](json& line) { line.erase("time"); });
  EXPECT_EQ(untimed.code, 0) << untimed.text;
  EXPECT_THAT(untimed.text, HasSubstr("time: cannot be compared (timed-once); rule 1 allows 5 %"));
  EXPECT_EQ(gate("new.jsonl --baseline base.jsonl --strict").code, 3);
}

TEST_F(Gate, WaiversHoldUntilTheyExpire) {
  change(fail);
  const auto with_waiver = [this](const std::string& keys) {
    std::ofstream(folder_ / "waiver.json")
        << R"({"rules": [{"verdict": "pass"}], "waivers": [{"reason": "issue 12", )" << keys
        << "}]}";
    return gate("new.jsonl", "waiver.json");
  };
  const Outcome waived = with_waiver(R"("impl": "naive", "expires": "2999-12-31")");
  EXPECT_EQ(waived.code, 0) << waived.text;
  EXPECT_THAT(waived.text, AllOf(HasSubstr("; waived until 2999-12-31: issue 12\n"),
                                 HasSubstr("0 broken, 1 waived")));
  const Outcome expired = with_waiver(R"("impl": "naive", "expires": "2001-12-31")");
  EXPECT_EQ(expired.code, 1);
  EXPECT_THAT(expired.text, HasSubstr("waiver 1 expired on 2001-12-31 and waives nothing"));
  const Outcome unused = with_waiver(R"("impl": "other", "expires": "2999-12-31")");
  EXPECT_EQ(unused.code, 1);
  EXPECT_THAT(unused.text, HasSubstr("waiver 1 waives nothing: remove it (issue 12)"));
}

TEST_F(Gate, CasesOfOneSideAreListed) {
  change([](json& line) { line["case"] = "another"; });
  const Outcome outcome = gate("new.jsonl --baseline base.jsonl");
  EXPECT_EQ(outcome.code, 0) << outcome.text;
  EXPECT_THAT(outcome.text,
              AllOf(HasSubstr("in the baseline, but not in the results:\n  smoke/softmax/"),
                    HasSubstr("not in the baseline:\n  smoke/another f32 naive"),
                    HasSubstr("1 missing, 1 new")));
  EXPECT_EQ(gate("new.jsonl --baseline base.jsonl --strict").code, 3);
}

TEST_F(Gate, ABaselineThatTellsNothingIsNoPass) {
  rewrite_records("base.jsonl", "other.jsonl",
                  [](json& line) { line["case"] = "other/" + line["case"].get<std::string>(); });
  const Outcome none = gate("base.jsonl --baseline other.jsonl");
  EXPECT_EQ(none.code, 4) << none.text;
  EXPECT_THAT(none.text, HasSubstr("attest: the baseline has none of these cases"));

  rewrite_header("base.jsonl", "elsewhere.jsonl",
                 [](json& header) { header["environment"]["cpu"]["model"] = "another"; });
  const Outcome elsewhere = gate("base.jsonl --baseline elsewhere.jsonl");
  EXPECT_EQ(elsewhere.code, 4) << elsewhere.text;
  EXPECT_THAT(elsewhere.text, HasSubstr("attest: no time could be judged: the baseline is of "
                                        "another machine"));
  EXPECT_EQ(gate("base.jsonl --baseline elsewhere.jsonl --across-machines").code, 0);
}

TEST_F(Gate, WritesWhatItFoundAsJson) {
  const Outcome outcome =
      gate_changed([](json& line) { line["time"]["samples_ns"] = std::vector<double>(20, 3e6); },
                   "--json g.json");
  EXPECT_EQ(outcome.code, 2);
  const json found = json::parse(text("g.json"));
  EXPECT_EQ(found["exit_code"], 2);
  ASSERT_EQ(found["broken"].size(), 1u) << found;
  EXPECT_EQ(found["broken"][0]["limit"], "time");
  EXPECT_THAT(std::string(found["broken"][0]["repro"]), HasSubstr("attest repro --impl naive"));
  for (const std::string file : {"base.jsonl", "rules.json"}) {
    const Outcome refused = gate("base.jsonl --baseline base.jsonl --json " + file);
    EXPECT_EQ(refused.code, 64);
    EXPECT_THAT(refused.text, HasSubstr("--json " + file + ": is one of the files that are read"));
  }
  EXPECT_EQ(gate("base.jsonl --baseline base.jsonl --json /nowhere/g.json").code, 4);
}

TEST_F(Gate, SaysInOneLineWhatIsWrong) {
  std::ofstream(folder_ / "typo.json") << R"({"rules": [{"verdict": "pass", "tim": {}}]})";
  std::ofstream(folder_ / "newer.jsonl") << R"({"type": "header", "schema": 99})"
                                         << "\n";
  std::ofstream(folder_ / "unmatched.json") << R"({"rules": [{"impl": "x", "verdict": "pass"}]})";
  const std::tuple<std::string, std::string, int, std::string> cases[] = {
      {"base.jsonl", "none.json", 64, "attest: none.json: cannot be read"},
      {"base.jsonl", "typo.json", 64,
       "attest: typo.json: rule 1: unknown key 'tim', did you mean 'time'?"},
      {"base.jsonl", "rules.json", 64,
       "attest: rules.json: rule 1: time.slower_than needs a baseline; name it with --baseline"},
      {"none.jsonl --baseline base.jsonl", "rules.json", 64, "attest: none.jsonl: cannot be read"},
      {"base.jsonl --baseline newer.jsonl", "rules.json", 64, "attest: newer.jsonl: line 1: "},
      {"base.jsonl --baseline base.jsonl --relative-to nobody", "rules.json", 64,
       "attest: --relative-to 'nobody': no file has records of it"},
      {"base.jsonl", "unmatched.json", 4, "attest: no rule matches a case of the results"},
  };
  for (const auto& [arguments, rules, code, said] : cases) {
    const Outcome outcome = gate(arguments, rules);
    EXPECT_EQ(outcome.code, code) << arguments << "\n" << outcome.text;
    EXPECT_THAT(outcome.text, HasSubstr(said)) << arguments;
  }
  const Outcome bare = attest("gate base.jsonl");
  EXPECT_EQ(bare.code, 64);
  EXPECT_THAT(bare.text, HasSubstr("--rules is required"));
}

class UnwritableBaseline : public testing::FolderTest {
 protected:
  void SetUp() override {
    write_lines("empty.jsonl",
                {core::to_json(core::Header{}), core::to_json(core::Closing::of({}, "today"))});
  }
  void expect_nothing_left_of(const std::string& baseline) const {
    const Outcome outcome = attest("baseline update --replace " + baseline + " empty.jsonl");
    EXPECT_EQ(outcome.code, 4);
    EXPECT_THAT(outcome.text, HasSubstr("attest: " + baseline + ": cannot be written"));
    EXPECT_FALSE(fs::exists(fs::symlink_status(folder_ / (baseline + ".partial"))));
  }
};

TEST_F(UnwritableBaseline, LeavesNoPartOfItself) {
  fs::create_symlink("/dev/full", folder_ / "full.jsonl.partial");  // no write ends well
  expect_nothing_left_of("full.jsonl");
  EXPECT_FALSE(fs::exists(folder_ / "full.jsonl"));
  fs::create_directories(folder_ / "folder.jsonl/inside");  // no file takes its place
  expect_nothing_left_of("folder.jsonl");
  EXPECT_TRUE(fs::exists(folder_ / "folder.jsonl/inside"));
}

// Baselines of the results of Gate.
class Baseline : public Gate {
 protected:
  Outcome update(const std::string& arguments) const {
    return attest("baseline update " + arguments);
  }
};

TEST_F(Baseline, SaysWhereItComesFrom) {
  rewrite_header("base.jsonl", "run.jsonl", [](json& header) {
    header["started"] = "2026-01-02T03:04:05Z";
    header["environment"]["build"]["commit"] = "1a2b3c4";
  });
  const Outcome outcome = update("fresh.jsonl run.jsonl");
  EXPECT_EQ(outcome.code, 0) << outcome.text;
  EXPECT_EQ(
      outcome.text,
      "fresh.jsonl: 2 records of 1 launch from run.jsonl (2026-01-02T03:04:05Z, commit 1a2b3c4)\n");
  const json header = lines("fresh.jsonl").front();
  EXPECT_EQ(header["command"], "attest baseline update fresh.jsonl run.jsonl");
  EXPECT_EQ(header["environment"]["baseline"]["from"],
            "run.jsonl (2026-01-02T03:04:05Z, commit 1a2b3c4)");
  EXPECT_EQ(header["environment"]["cpu"], lines("base.jsonl").front()["environment"]["cpu"]);
  const Outcome gated = gate("base.jsonl --baseline fresh.jsonl --strict");
  EXPECT_EQ(gated.code, 0) << gated.text;
  EXPECT_THAT(gated.text, AllOf(HasSubstr("fresh.jsonl: baseline of 20"),
                                HasSubstr(" from run.jsonl (2026-01-02T03:04:05Z")));
}

TEST_F(Baseline, KeepsTheCasesThatResultsLack) {
  ASSERT_EQ(update("kept.jsonl base.jsonl").code, 0);
  std::vector<json> all = lines("base.jsonl");
  all.erase(all.begin() + 1);
  all.front()["environment"]["build"]["commit"] = "another";
  all[1]["time"]["samples_ns"] = std::vector<double>(20, 5e5);
  write_lines("part.jsonl", all);
  const Outcome outcome = update("kept.jsonl part.jsonl");
  EXPECT_EQ(outcome.code, 0) << outcome.text;
  EXPECT_THAT(outcome.text, HasSubstr("kept: 1 records of 20"));
  const std::vector<json> now = lines("kept.jsonl");
  ASSERT_EQ(now.size(), 4u);
  EXPECT_EQ(now[1]["case"], lines("base.jsonl")[1]["case"]);
  EXPECT_EQ(now[1]["time"]["samples_ns"][0], 1e6);
  EXPECT_EQ(now[2]["time"]["samples_ns"][0], 5e5);
  EXPECT_EQ(now[3]["results"], 2);
  EXPECT_FALSE(now[0]["environment"]["build"].contains("commit")) << "they are of two commits";
}

// Launches of one build differ by 2 %. A change of 10 % is shown by eight of them, not by one.
TEST_F(Baseline, KeepsLaunchesApart) {
  std::string before, after;
  for (int launch = 0; launch < 8; ++launch)
    for (const auto& [side, more] : {std::pair("was", 0.0), std::pair("is", 1e5)}) {
      const std::string name = side + std::to_string(launch) + ".jsonl";
      rewrite_records("base.jsonl", name, [&](json& line) {
        line["time"]["samples_ns"] = std::vector<double>(20, 1e6 + more + 2e4 * (launch % 2));
        if (more > 0) line["plugin_hash"] = "1111111111111111";
      });
      rewrite_header(name, name, [&](json& header) {
        header["started"] = fmt::format("2026-01-0{}T03:04:05Z", launch + 1);
      });
      (more > 0 ? after : before) += name + " ";
    }
  const Outcome outcome = update("many.jsonl " + before);
  EXPECT_EQ(outcome.code, 0) << outcome.text;
  EXPECT_THAT(outcome.text, HasSubstr("many.jsonl: 16 records of 8 launches from was0.jsonl"));
  EXPECT_EQ(lines("many.jsonl").front()["environment"]["baseline"]["launches"], "8");
  const Outcome shown = gate(after + "--baseline many.jsonl");
  EXPECT_EQ(shown.code, 2) << shown.text;
  const size_t told = shown.text.find("many.jsonl: baseline of");
  EXPECT_EQ(shown.text.find("many.jsonl: baseline of", told + 1), std::string::npos) << "told once";
  EXPECT_EQ(gate(after + "--baseline " + before).code, 2) << "as by their files";
  ASSERT_EQ(update("one.jsonl was0.jsonl").code, 0);
  const Outcome weak = attest("compare one.jsonl is0.jsonl");
  EXPECT_EQ(weak.code, 0) << "without a floor one launch shows nothing\n" << weak.text;
  EXPECT_EQ(attest("compare many.jsonl --after " + after).code, 2);

  const Outcome mixed = update("x.jsonl was0.jsonl is1.jsonl");
  EXPECT_EQ(mixed.code, 64);
  EXPECT_THAT(mixed.text, HasSubstr("was0.jsonl and is1.jsonl have two builds of smoke/softmax/"));

  // One case of another build is measured, in two launches; the other keeps its eight.
  const auto part = [&](const std::string& name, const std::string& started) {
    std::vector<json> all = lines("base.jsonl");
    all.erase(all.begin() + 1);
    all.front()["started"] = started;
    all[1]["plugin_hash"] = "2222222222222222";
    write_lines(name, all);
  };
  part("p.jsonl", "2026-02-01T03:04:05Z");
  part("q.jsonl", "2026-02-02T03:04:05Z");
  const Outcome again = update("many.jsonl p.jsonl q.jsonl");
  EXPECT_EQ(again.code, 0) << again.text;
  EXPECT_THAT(again.text, AllOf(HasSubstr("many.jsonl: 10 records of 2 launches from p.jsonl"),
                                HasSubstr("kept: 8 records of 20"),
                                HasSubstr("\nreplaced: 8 launches by 2 in 1 case (smoke/softmax/"),
                                HasSubstr(" f32 naive): gates see less of how much launches "
                                          "differ; give as many results files\n")));
  EXPECT_EQ(lines("many.jsonl")[8]["launch"], "2026-01-08T03:04:05Z");
  EXPECT_EQ(gate(after + "--baseline many.jsonl").code, 2) << "each case is of one build";
  // A baseline of several launches may itself be the results of another.
  EXPECT_EQ(update("copy.jsonl many.jsonl").code, 0);
  EXPECT_EQ(lines("copy.jsonl")[8]["launch"], "2026-01-08T03:04:05Z");
  // As many launches replace some without a word, and so do more.
  rewrite_records("was0.jsonl", "was0.jsonl",
                  [](json& line) { line["plugin_hash"] = "2222222222222222"; });
  for (const char* results : {"copy.jsonl many.jsonl", "copy.jsonl p.jsonl q.jsonl was0.jsonl"}) {
    const Outcome as_many = update(results);
    EXPECT_EQ(as_many.code, 0) << as_many.text;
    EXPECT_THAT(as_many.text, Not(HasSubstr("replaced: 2 ")));
  }
  ASSERT_EQ(update("copy.jsonl many.jsonl").code, 0);
  EXPECT_THAT(update("copy.jsonl was0.jsonl").text,
              AllOf(HasSubstr("replaced: 2 launches by 1 in 1 case (smoke/softmax/"),
                    HasSubstr("replaced: 8 launches by 1 in 1 case (smoke/softmax/")));
}

TEST_F(Baseline, SaysHowManyTimesAreDoubtful) {
  rewrite_records("base.jsonl", "quiet.jsonl", [](json& line) { line.erase("noisy"); });
  EXPECT_THAT(update("of_quiet.jsonl quiet.jsonl").text, Not(HasSubstr("doubtful")));
  rewrite_records("quiet.jsonl", "busy.jsonl", [is_first = true](json& line) mutable {
    if (std::exchange(is_first, false)) line["noisy"] = {"load"};
  });
  const Outcome outcome = update("of_busy.jsonl busy.jsonl");
  EXPECT_EQ(outcome.code, 0) << outcome.text;
  EXPECT_THAT(outcome.text, HasSubstr("\ndoubtful: 1 of 2 times, because something happened"));
}

TEST_F(Baseline, CountsTheCasesWhoseLaunchesAreReplacedByFewer) {
  rewrite_header("base.jsonl", "later.jsonl",
                 [](json& header) { header["started"] = "2026-02-01T03:04:05Z"; });
  ASSERT_EQ(update("two.jsonl base.jsonl later.jsonl").code, 0);
  EXPECT_THAT(update("two.jsonl base.jsonl").text,
              HasSubstr("\nreplaced: 2 launches by 1 in 2 cases (smoke/softmax/"));
}

TEST_F(Baseline, IsOfOneBuildOfEachCase) {
  // Records of vectors have no hash, as a build may have none: that is no other build.
  rewrite_records("base.jsonl", "none.jsonl", [](json& line) { line["plugin_hash"] = ""; });
  rewrite_header("none.jsonl", "none.jsonl",
                 [](json& header) { header["started"] = "2026-02-01T03:04:05Z"; });
  change([](json&) {});
  for (const char* results : {"none.jsonl base.jsonl", "base.jsonl none.jsonl"}) {
    const Outcome taken = update(std::string("x.jsonl --replace ") + results);
    EXPECT_EQ(taken.code, 0) << taken.text;
  }
  rewrite_header("new.jsonl", "new.jsonl",
                 [](json& header) { header["started"] = "2026-02-02T03:04:05Z"; });
  const Outcome between = update("x.jsonl none.jsonl base.jsonl new.jsonl");
  EXPECT_EQ(between.code, 64) << "one without a hash hides no other build";
  EXPECT_THAT(between.text, HasSubstr("base.jsonl and new.jsonl have two builds of smoke/softmax"));

  // Two builds in one file, as of a baseline that was joined by hand.
  std::vector<json> all = lines("base.jsonl");
  all.insert(all.begin() + 2, all[1]);
  all[2]["plugin_hash"] = "1111111111111111";
  write_lines("joined.jsonl", all);
  const Outcome joined = update("y.jsonl joined.jsonl");
  EXPECT_EQ(joined.code, 64);
  EXPECT_THAT(joined.text, HasSubstr("attest: joined.jsonl has two builds of smoke/softmax/"));
}

TEST_F(Baseline, TakesNoTimeThatIsNone) {
  for (const json& bad : {json(0.0), json(-5.0), json("nan"), json("inf")}) {
    change([&](json& line) { line["time"]["samples_ns"][3] = bad; });
    for (const char* option : {"", " --allow-failing"}) {
      const Outcome refused = update(std::string("x.jsonl new.jsonl") + option);
      EXPECT_EQ(refused.code, 64) << bad << refused.text;
      EXPECT_THAT(refused.text, AllOf(HasSubstr("attest: new.jsonl: smoke/softmax/"),
                                      HasSubstr(" f32 naive: a sample of its time is "),
                                      HasSubstr("ns, which is no time; run it again")));
    }
  }
  EXPECT_FALSE(fs::exists(folder_ / "x.jsonl"));
}

TEST_F(Baseline, TakesNothingBadUnlessAsked) {
  ASSERT_EQ(update("good.jsonl base.jsonl").code, 0);
  const std::vector<json> before = lines("good.jsonl");
  change(fail);
  const Outcome refused = update("good.jsonl new.jsonl");
  EXPECT_EQ(refused.code, 1);
  EXPECT_THAT(refused.text, AllOf(HasSubstr("new.jsonl: smoke/softmax/"), HasSubstr(": fail\n"),
                                  HasSubstr("attest: 1 results are bad; ")));
  EXPECT_EQ(lines("good.jsonl"), before);
  EXPECT_EQ(update("good.jsonl new.jsonl --allow-failing").code, 0);
  EXPECT_EQ(lines("good.jsonl")[1]["verdict"], "fail");
}

TEST_F(Baseline, IsOfOneMachineAndOneBuild) {
  ASSERT_EQ(update("here.jsonl base.jsonl").code, 0);
  for (const auto& [group, name, said] :
       {std::tuple("cpu", "model", "is of another machine than here.jsonl: other, not "),
        std::tuple("build", "build_type", "is of another kind of build than here.jsonl: other")}) {
    rewrite_header("base.jsonl", "there.jsonl",
                   [&](json& header) { header["environment"][group][name] = "other"; });
    const Outcome refused = update("here.jsonl there.jsonl");
    EXPECT_EQ(refused.code, 64);
    EXPECT_THAT(refused.text, AllOf(HasSubstr(said), HasSubstr("--replace begins a new baseline")));
    EXPECT_EQ(update("mixed.jsonl base.jsonl there.jsonl").code, 64);
  }
  EXPECT_EQ(update("here.jsonl there.jsonl --replace").code, 0);
  EXPECT_EQ(lines("here.jsonl")[0]["environment"]["build"]["build_type"], "other");
}

TEST_F(Baseline, SaysInOneLineWhatIsWrong) {
  std::vector<json> all = lines("base.jsonl");
  all.pop_back();
  write_lines("cut.jsonl", all);
  rewrite_header("base.jsonl", "again.jsonl", [](json&) {});
  const std::tuple<std::string, int, std::string> cases[] = {
      {"x.jsonl cut.jsonl", 64, "attest: cut.jsonl: its run was cut short; finish it"},
      {"x.jsonl base.jsonl again.jsonl", 64,
       "attest: base.jsonl and again.jsonl are of one launch ("},
      {"base.jsonl base.jsonl", 64, "attest: base.jsonl: is the baseline itself"},
      {"/nowhere/x.jsonl base.jsonl", 4, "attest: /nowhere/x.jsonl: cannot be written"},
  };
  for (const auto& [arguments, code, said] : cases) {
    const Outcome outcome = update(arguments);
    EXPECT_EQ(outcome.code, code) << outcome.text;
    EXPECT_THAT(outcome.text, HasSubstr(said));
  }
  EXPECT_FALSE(fs::exists(folder_ / "x.jsonl"));
  EXPECT_EQ(attest("baseline upgrade x.jsonl base.jsonl").code, 64);
}

}  // namespace
}  // namespace attest::cli
