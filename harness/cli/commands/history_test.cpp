// attest history as a user meets it: twenty runs, of which one commit made a case slower.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <vector>

#include "testing/folder_test.hpp"
#include "testing/json_schema.hpp"

namespace attest::cli {
namespace {

using attest::testing::Outcome;
using nlohmann::json;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
namespace fs = std::filesystem;

constexpr int kRuns = 20, kSlowerFrom = 12;

class HistoryCommand : public testing::FolderTest {
 protected:
  HistoryCommand() {
    for (int i = 1; i <= kRuns; ++i) write_run(i);
  }

  // A run of the published example on day `i`; flash_cpu is a tenth slower from kSlowerFrom on.
  void write_run(int i) const {
    std::vector<json> run = lines(ATTEST_SOURCE_DIR "/reports/golden/results.jsonl");
    for (json& line : run)
      if (line["type"] == "header") {
        line["started"] = fmt::format("2026-03-{:02}T04:00:00Z", i);
        line["environment"]["build"]["commit"] = fmt::format("commit{:02}", i);
      } else if (line["type"] == "end") {
        line["finished"] = fmt::format("2026-03-{:02}T05:00:00Z", i);
      } else if (line["impl"] == "flash_cpu" && line.contains("time")) {
        line["time"]["median_ns"] = (8e6 + 1e4 * (i * 7 % 5)) * (i >= kSlowerFrom ? 1.1 : 1.0);
      }
    write_lines(fmt::format("r{:02}.jsonl", i), run);
  }
  Outcome history(const std::string& arguments) const { return attest("history " + arguments); }
  json show_json(const std::string& filters) const {
    const Outcome outcome = history("show --json shown.json " + filters);
    EXPECT_EQ(outcome.code, 0) << outcome.text;
    return json::parse(text("shown.json"));
  }
};

TEST_F(HistoryCommand, FindsTheCommitThatMadeACaseSlower) {
  const Outcome added = history("add r*.jsonl");
  ASSERT_EQ(added.code, 0) << added.text;
  EXPECT_THAT(added.text, HasSubstr("the index has 20 results files and "));
  const Outcome shown = history("show --case 'vit*' --impl 'flash_*' --changed");
  EXPECT_EQ(shown.code, 0) << shown.text;
  EXPECT_THAT(shown.text, AllOf(HasSubstr("vit/vit_b_16_224/self f16 flash_cpu, Example CPU"),
                                HasSubstr("step"), HasSubstr("commit12"), HasSubstr("+10.0 %"),
                                HasSubstr("after commit commit11"),
                                HasSubstr("The first and the last 2 runs of a series cannot")));
  EXPECT_THAT(history("show --changed").text,
              AllOf(HasSubstr(" series have no step."), Not(HasSubstr("naive"))));
}

TEST_F(HistoryCommand, WritesJsonAsItsSchemaSays) {
  ASSERT_EQ(history("add r*.jsonl").code, 0);
  const json all = show_json("");
  EXPECT_EQ(testing::JsonSchema("reports/history.schema.json").errors(all), "");
  EXPECT_GT(all["series"].size(), 5u);
  const json one = show_json("--case vit_b_16_224/self --impl flash_cpu --dtype f16");
  ASSERT_EQ(one["series"].size(), 1u);
  const json& time = one["series"][0]["quantities"][0];
  ASSERT_EQ(time["steps"].size(), 1u);
  EXPECT_EQ(time["steps"][0]["point"], kSlowerFrom - 1);
  EXPECT_EQ(time["steps"][0]["commit"], "commit12");
  EXPECT_EQ(time["steps"][0]["same_build"], false);
}

TEST_F(HistoryCommand, CountsAFileOnce) {
  ASSERT_EQ(history("add r01.jsonl r02.jsonl").code, 0);
  fs::copy(folder_ / "r02.jsonl", folder_ / "copy.jsonl");
  const Outcome again = history("add r01.jsonl copy.jsonl r03.jsonl");
  EXPECT_THAT(again.text,
              AllOf(HasSubstr("r01.jsonl: 0 of 11 records are new; the index has this run already"),
                    HasSubstr("copy.jsonl: 0 of 11 records are new"),
                    HasSubstr("r03.jsonl: 11 of 11 records are new\n")));
  EXPECT_EQ(show_json("--case vit_b_16_224/self --impl flash_cpu")["series"][0]["points"].size(),
            3u);
}

TEST_F(HistoryCommand, OneRunShowsNoStep) {
  ASSERT_EQ(history("add r01.jsonl").code, 0);
  const Outcome shown = history("show --case vit_b_16_224/self --impl flash_cpu");
  EXPECT_EQ(shown.code, 0);
  EXPECT_THAT(shown.text, AllOf(HasSubstr("1 run, 2026-03-01"), HasSubstr("too few runs"),
                                HasSubstr("1 of at least 11")));
}

TEST_F(HistoryCommand, RefusesBadInput) {
  const auto refused = [&](const std::string& arguments, int code, const std::string& text) {
    const Outcome outcome = history(arguments);
    EXPECT_EQ(outcome.code, code) << arguments << "\n" << outcome.text;
    EXPECT_THAT(outcome.text, HasSubstr(text)) << arguments;
  };
  refused("show", 64, "history.sqlite: is not there; attest history add");
  refused("add", 64, "names no results files");
  refused("add nowhere.jsonl", 64, "nowhere.jsonl");
  refused("forget", 64, "forget");
  std::ofstream(folder_ / "newer.jsonl")
      << R"({"type":"header","schema":99,"command":"x","started":"2026-01-01T00:00:00Z",)"
      << R"("environment":{}})" << "\n";
  refused("add r01.jsonl newer.jsonl", 64, "newer.jsonl");
  EXPECT_FALSE(fs::exists(folder_ / "history.sqlite")) << "all files or none";
  std::ofstream(folder_ / "empty.jsonl").close();
  refused("add empty.jsonl", 64, "holds no results");
  EXPECT_FALSE(fs::exists(folder_ / "history.sqlite")) << "of refused files";
  refused("add r01.jsonl --changed", 64, "--changed: is an option of attest history show");
  refused("rebuild --json x.json", 64, "--json: is an option of attest history show");
  refused("add r01.jsonl --index r01.jsonl", 64, "is one of the files that are read");
  refused("add r01.jsonl --index r02.jsonl", 64, "is no index of attest");
  ASSERT_EQ(history("add r01.jsonl").code, 0);
  refused("show --case nothing", 64, "--case nothing: matches none of: ");
  refused("show --impl flsh", 64, "--impl flsh: matches none of: ");
  refused("show --case vit_b_16_224/self --impl nan_maker", 64, "no series matches all filters");
  refused("show r01.jsonl", 64, "shows the index alone");
  refused("add r01.jsonl --index nowhere/h.sqlite", 4, "unable to open database file");
}

TEST_F(HistoryCommand, ADiskThatIsFullLeavesTheIndexAsItWas) {
  ASSERT_EQ(history("add r01.jsonl").code, 0);
  const json before = show_json("");
  const std::string limited =
      fmt::format("trap '' XFSZ; ulimit -f {}; {} history add r*.jsonl",
                  fs::file_size(folder_ / "history.sqlite") / 512, testing::attest_program());
  const Outcome full = testing::run_shell(folder_, limited);
  EXPECT_EQ(full.code, 4) << full.text;
  EXPECT_EQ(show_json(""), before);
}

TEST_F(HistoryCommand, IsGivenToReports) {
  ASSERT_EQ(history("add r*.jsonl").code, 0);
  const auto report = [&](const std::string& arguments) {
    return attest("report r20.jsonl " + arguments);
  };
  const Outcome both = report("--history history.sqlite -f md,html --no-charts -o out");
  ASSERT_EQ(both.code, 0) << both.text;
  const Outcome text = testing::run_shell(folder_, "cat out.md out.html");
  EXPECT_THAT(text.text, AllOf(HasSubstr("<summary>History: 1 of 11 series have a step"),
                               HasSubstr("<svg class=\"history\"")));
  const Outcome over = report("--history history.sqlite -f md -o history.sqlite");
  EXPECT_EQ(over.code, 64);
  EXPECT_THAT(over.text, HasSubstr("is one of the files that are read"));
  const Outcome nowhere = report("--history nowhere.sqlite -o out.md");
  EXPECT_EQ(nowhere.code, 64);
  EXPECT_THAT(nowhere.text, HasSubstr("attest: nowhere.sqlite: is not there"));
  const Outcome csv = report("--history history.sqlite -f csv");
  EXPECT_EQ(csv.code, 64);
  EXPECT_THAT(csv.text, HasSubstr("csv does not show histories; choose one of markdown, html"));
  ASSERT_EQ(history("add r01.jsonl --index other.sqlite").code, 0);
  testing::run_shell(folder_, "sed -i 's/Example CPU/Another CPU/' r20.jsonl");
  const Outcome apart = report("--history other.sqlite -o out.md");
  EXPECT_EQ(apart.code, 0) << apart.text;
  EXPECT_THAT(apart.text, HasSubstr("has no series of these records"));
}

TEST_F(HistoryCommand, RebuildsADamagedIndex) {
  ASSERT_EQ(history("add r*.jsonl").code, 0);
  const json before = show_json("");
  EXPECT_EQ(history("rebuild").code, 0) << "from the files that it names";
  EXPECT_EQ(show_json(""), before);
  {
    std::fstream file(folder_ / "history.sqlite", std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(100);
    file << std::string(20000, 'x');
  }
  const Outcome damaged = history("show");
  EXPECT_EQ(damaged.code, 64);
  EXPECT_THAT(damaged.text, HasSubstr("attest history rebuild RESULTS.jsonl..."));
  EXPECT_EQ(history("rebuild r*.jsonl").code, 0);
  EXPECT_EQ(show_json(""), before);
  fs::remove(folder_ / "r05.jsonl");
  const Outcome missing = history("rebuild");
  EXPECT_EQ(missing.code, 64);
  EXPECT_THAT(missing.text, HasSubstr("r05.jsonl"));
  EXPECT_EQ(show_json(""), before) << "it stays as it was";
}

}  // namespace
}  // namespace attest::cli
