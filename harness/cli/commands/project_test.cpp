// attest project as a user meets it: what it says, and the exit codes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "reports/testing/count.hpp"
#include "testing/folder_test.hpp"
#include "testing/json_schema.hpp"

namespace attest::cli {
namespace {

using nlohmann::json;
using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

constexpr const char* kH100 = " " ATTEST_SOURCE_DIR "/reports/published/device_h100.jsonl ";

class Project : public testing::FolderTest {
 protected:
  // What attest project prints with these arguments, without its warnings.
  json document(const std::string& arguments) {
    return json::parse(testing::run_shell(folder_, "(" + testing::attest_program() + " project " +
                                                       arguments + " --format json 2>/dev/null)")
                           .text);
  }
};

TEST_F(Project, SaysWhatItIsWithEachTime) {
  const testing::Outcome text =
      attest(std::string("project") + kH100 + "--to orin-agx64-maxn --impl flash_cuda,cublas_cuda");
  EXPECT_EQ(text.code, 0) << text.text;
  EXPECT_THAT(text.text,
              AllOf(HasSubstr("PROJECTION to orin-agx64-maxn: Jetson AGX Orin 64GB"),
                    HasSubstr("flash_cuda         PROJECTION "), HasSubstr("Intervals: none"),
                    HasSubstr("\nfrom device_h100.jsonl, NVIDIA"), HasSubstr("42.6 TFLOP/s"),
                    HasSubstr("204.8 GB/s"), HasSubstr("ATTEST_CUDA_CAPABILITY=80"),
                    HasSubstr("refused: cublas_cuda of gpu/dense_4k/head_dim_64 bf16: how often")));
  std::istringstream lines(text.text);
  for (std::string line; std::getline(lines, line);) {
    if (line.find(" of what ") == line.npos) continue;
    EXPECT_THAT(line, AnyOf(HasSubstr("PROJECTION"),
                            AllOf(StartsWith("refused: "), HasSubstr(", less than a sixteenth"))));
  }

  const std::string arguments =
      std::string("project") + kH100 + "--to orin-nx16-25w --case 'gpu/*' ";
  const testing::Outcome page = attest(arguments + "--format markdown");
  EXPECT_THAT(page.text, AllOf(HasSubstr("# PROJECTION to orin"), HasSubstr("| PROJECTION ")));
  const json all = document(kH100 + std::string("--to orin-nx16-25w --case 'gpu/*'"));
  EXPECT_EQ(all["label"], "PROJECTION");
  ASSERT_FALSE(all["projections"].empty());
  for (const json& one : all["projections"]) {
    EXPECT_EQ(one["label"], "PROJECTION");
    EXPECT_GT(one["projected_ns"], one["least_ns"]);
    EXPECT_EQ(one["file"], "device_h100.jsonl");
  }
  for (const json& one : all["refused"]) {
    EXPECT_FALSE(one.contains("projected_ns"));
    EXPECT_NE(one["refused"], "");
    EXPECT_EQ(one["file"], "device_h100.jsonl");
  }
}

// A label, an interval with two ends, and a time that was projected or refused.
TEST_F(Project, WritesJsonAsItsSchemaSays) {
  const testing::JsonSchema schema("reports/projection.schema.json");
  const json good = document(kH100 + std::string("--to orin-nx16-25w --case 'gpu/*'"));
  EXPECT_EQ(schema.errors(good), "");
  ASSERT_FALSE(good["refused"].empty());
  const struct {
    const char *list, *key;
    json value;
  } kWrong[] = {{"projections", "label", "MEASURED"}, {"projections", "projected_low_ns", 1.0},
                {"projections", "projected_ns", 0},   {"projections", "share", 1.5},
                {"projections", "limit", ""},         {"projections", "cores", 0},
                {"refused", "refused", ""},           {"refused", "projected_ns", 1.0}};
  for (const auto& [list, key, value] : kWrong) {
    json wrong = good;
    wrong[list][0][key] = value;
    EXPECT_NE(schema.errors(wrong), "") << list << " " << key;
  }
  json unlabelled = good;
  unlabelled["projections"][0].erase("label");
  EXPECT_NE(schema.errors(unlabelled), "");
}

TEST_F(Project, IsPartOfReports) {
  const auto report = [&](const std::string& arguments) {
    return attest(std::string("report") + kH100 + arguments);
  };
  const testing::Outcome both = report("--project orin-nx16-25w -f md,html --no-charts -o out");
  ASSERT_EQ(both.code, 0) << both.text;
  EXPECT_THAT(
      testing::run_shell(folder_, "cat out.md").text,
      AllOf(HasSubstr("<details open><summary>PROJECTION to orin-nx16-25w: Jetson Orin NX 16GB"),
            HasSubstr("| PROJECTION "), HasSubstr("| refused | ")));
  EXPECT_THAT(
      testing::run_shell(folder_, "sed -n '/id=\"projection\"/,/<.section/p' out.html").text,
      AllOf(HasSubstr("<td class=\"projected\">PROJECTION "), HasSubstr("<td>refused</td>"),
            HasSubstr("No run on this board was measured")));
  const struct {
    const char *arguments, *why;
  } kRefused[] = {
      {"--project orin -o out.md", "--project 'orin': is no target; there are orin-agx"},
      {"--project orin-nx16-25w -f csv", "csv does not show projections; choose one of"},
      {"--calibrate a b -o out.md", "--calibrate goes with --project TARGET; there are"}};
  for (const auto& [arguments, why] : kRefused) {
    const testing::Outcome refused = report(arguments);
    EXPECT_EQ(refused.code, 64) << arguments;
    EXPECT_THAT(refused.text, HasSubstr(why));
  }
  write("calibration.jsonl", "{}");
  const testing::Outcome over = report(
      "--project orin-nx16-25w --calibrate a.jsonl calibration.jsonl -o calibration.jsonl "
      "-f md");
  EXPECT_EQ(over.code, 64);
  EXPECT_THAT(over.text, HasSubstr("is one of the files that are read"));
}

// An interval of a busy machine's times is one of its load.
TEST_F(Project, WarnsOfWhatWeakensTheRecords) {
  const std::string golden = ATTEST_SOURCE_DIR "/reports/golden/results.jsonl";
  const char* busy =
      "busy.jsonl: the machine was busy with something else: programs waited for a "
      "CPU 97 % of the time";
  rewrite_header(golden, "calm.jsonl", [](json& header) {
    header["environment"]["state"]["cpu_pressure_percent"] = "1";
  });
  rewrite_header("calm.jsonl", "busy.jsonl", [](json& header) {
    header["environment"]["state"]["cpu_pressure_percent"] = "97";
    header["environment"]["cpu"]["model"] = "Another";
  });
  EXPECT_THAT(attest("project calm.jsonl --to orin-agx64-maxn").text, Not(HasSubstr("was busy")));
  for (const char* arguments :
       {"project busy.jsonl --to orin-agx64-maxn", "project --calibrate calm.jsonl busy.jsonl",
        "report calm.jsonl --project orin-agx64-maxn --calibrate calm.jsonl busy.jsonl -f md"}) {
    const testing::Outcome outcome = attest(arguments);
    EXPECT_EQ(outcome.code, 0) << arguments;
    EXPECT_THAT(outcome.text, HasSubstr(busy)) << arguments;
    EXPECT_THAT(outcome.text, Not(HasSubstr("the runs are from 2 machines"))) << arguments;
  }
  const std::string twice = "--calibrate calm.jsonl busy.jsonl";
  for (const std::string& arguments :
       {"project busy.jsonl --to orin-agx64-maxn " + twice,
        "report busy.jsonl --project orin-agx64-maxn -o out.md " + twice}) {
    const testing::Outcome outcome = attest(arguments);
    EXPECT_EQ(outcome.code, 0) << arguments;
    EXPECT_EQ(testing::count(outcome.text, busy), 1u) << arguments << outcome.text;
  }
}

TEST_F(Project, ExitCodes) {
  const testing::Outcome unknown = attest(std::string("project") + kH100 + "--to orin-agx64");
  EXPECT_EQ(unknown.code, 64);
  EXPECT_THAT(unknown.text, HasSubstr("is no target; there are orin-agx64-maxn, orin-agx64-50w"));
  EXPECT_EQ(attest(std::string("project") + kH100).code, 64);
  EXPECT_EQ(attest("project").code, 64);
  EXPECT_EQ(attest("project nowhere.jsonl --to orin-agx64-maxn").code, 64);
  write("empty.jsonl", "");
  EXPECT_EQ(attest("project empty.jsonl --to orin-agx64-maxn").code, 64);
  const testing::Outcome none =
      attest(std::string("project") + kH100 +
             "--to orin-agx64-maxn --impl cublas_cuda --case 'dense_4k/*'");
  EXPECT_EQ(none.code, 4) << none.text;
  EXPECT_THAT(none.text, HasSubstr("published/device_h100.jsonl: no time could be projected to"));
  const testing::Outcome same = attest(std::string("project --calibrate") + kH100 + kH100);
  EXPECT_EQ(same.code, 64);
  EXPECT_THAT(same.text, HasSubstr("--calibrate needs two machines"));
}

// The second machine is the first one with a processor of another name, and half as near to its
// limits on every case.
TEST_F(Project, TheIntervalComesFromTwoMachines) {
  ASSERT_EQ(attest("run smoke --case 'softmax/*' --impl flash_cpu --dtype f32 --relations none "
                   "--fill random --budget 0.02 -o one.jsonl")
                .code,
            0);
  rewrite_header("one.jsonl", "other.jsonl",
                 [](json& header) { header["environment"]["cpu"]["model"] = "Another"; });
  const auto slow = [&](json& record, double ns) {
    if (!record.contains("roofline")) return;
    record.erase("noisy");
    record["time"]["median_ns"] = ns;
    record["roofline"]["share"] = 1e5 / ns;
    record["roofline"]["least_ns"] = 1e5;
    record["roofline"]["limit"] = "f32 AVX3";
  };
  rewrite_records("one.jsonl", "one.jsonl", [&](json& record) { slow(record, 2e5); });
  rewrite_records("other.jsonl", "other.jsonl", [&](json& record) { slow(record, 4e5); });
  const testing::Outcome outcome = attest("project --calibrate one.jsonl other.jsonl");
  const testing::JsonSchema schema("reports/projection.schema.json");
  json alone = document("--calibrate one.jsonl other.jsonl");
  EXPECT_EQ(schema.errors(alone), "");
  EXPECT_EQ(alone["label"], "PROJECTION");
  alone.erase("label");
  EXPECT_NE(schema.errors(alone), "");
  EXPECT_EQ(outcome.code, 0) << outcome.text;
  EXPECT_THAT(outcome.text,
              AllOf(HasSubstr("measured / projected 2.00 to 2.00"), HasSubstr("  cpu arithmetic: "),
                    HasSubstr("nine of ten within a factor of 2.00"), Not(HasSubstr("reads:"))));
  const json projected =
      document("one.jsonl --to orin-agx64-maxn --calibrate one.jsonl other.jsonl");
  EXPECT_EQ(schema.errors(projected), "");
  ASSERT_FALSE(projected["projections"].empty());
  for (const json& one : projected["projections"])
    EXPECT_NEAR(one["projected_high_ns"].get<double>() / one["projected_ns"].get<double>(), 2,
                1e-9);
}

}  // namespace
}  // namespace attest::cli
