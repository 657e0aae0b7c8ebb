// The benchmarks as a user meets them: a program of its own, with Google Benchmark's options.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "core/isolation/limits.hpp"
#include "frontends/attest_conformance.hpp"
#include "testing/folder_test.hpp"

namespace attest {
namespace {

using attest::testing::Outcome;
using nlohmann::json;
using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::Ge;
using ::testing::HasSubstr;
using ::testing::Le;
using ::testing::Not;
namespace fs = std::filesystem;

constexpr const char* kDense = "'--benchmark_filter=smoke/softmax/dense/f32/'";

// The header is installed without the core's, so it repeats their default.
TEST(ConformanceTimes, HaveTheBudgetOfTheCommandLine) {
  EXPECT_EQ(conformance::Options{}.budget_s, core::Limits{}.budget_s);
}

class GbenchAdapter : public testing::FolderTest {
 protected:
  Outcome run(const std::string& arguments, const std::string& suite = "smoke") const {
    return testing::run_shell(folder_, "EXAMPLE_SUITE=" + suite +
                                           " " ATTEST_BINARY_DIR "/tests/attest_gbench_example " +
                                           arguments);
  }
  json benchmarks(const std::string& file) const {
    return json::parse(std::ifstream(folder_ / file)).at("benchmarks");
  }
  /// The entries of a JSON file by name; the last of several.
  std::map<std::string, json> entries(const std::string& file) const {
    std::map<std::string, json> found;
    for (const json& entry : benchmarks(file)) found[entry["name"]] = entry;
    return found;
  }
};

TEST_F(GbenchAdapter, EveryCaseAndImplementationIsOneBenchmark) {
  const Outcome outcome = run("--benchmark_list_tests");
  EXPECT_EQ(outcome.code, 0) << outcome.text;
  EXPECT_THAT(outcome.text, HasSubstr("smoke/softmax/dense/f32/mutant_none/iterations:1/manual_time"
                                      "\nsmoke/softmax/dense/f32/mutant_dropped_key/"));
  EXPECT_THAT(outcome.text, HasSubstr("smoke/linear/masked/bf16/naive/"));
}

TEST_F(GbenchAdapter, AWrongImplementationIsAnErrorAndNotATime) {
  const Outcome outcome = run(std::string(kDense) + " --benchmark_out=out.json");
  EXPECT_EQ(outcome.code, 1) << outcome.text;
  EXPECT_THAT(outcome.text,
              ContainsRegex("mutant_dropped_key/[^\n]* ERROR OCCURRED: 'fail .fail:tolerance"));
  const auto all = entries("out.json");
  EXPECT_EQ(all.size(), 3u);
  EXPECT_FALSE(all.contains("smoke/softmax/dense/f32/mutant_dropped_key/iterations:1/manual_time"));
  const json& wrong =
      all.at("smoke/softmax/dense/f32/mutant_dropped_key (no time)/iterations:1/manual_time");
  EXPECT_EQ(wrong["error_occurred"], true);
  EXPECT_FALSE(wrong.contains("FLOP/s"));
  EXPECT_EQ(run(std::string(kDense) + "naive").code, 0);
}

TEST_F(GbenchAdapter, CountersAreRatesOfTheMedianRun) {
  ASSERT_EQ(run(std::string(kDense) + "naive --benchmark_out=out.json").code, 0);
  const json entry = entries("out.json").begin()->second;
  const double time_ns = entry["real_time"], bytes = entry["bytes"];
  // batch 1, num_heads 2, seq_len_q = seq_len_kv = 61, head_dim 64: q, k, v and o are f32.
  EXPECT_EQ(bytes, 4.0 * 2 * 61 * 64 * 4);
  EXPECT_NEAR(double(entry["FLOP/s"]) * time_ns * 1e-9, 4.0 * 2 * 61 * 61 * 64, 1);
  EXPECT_NEAR(double(entry["tokens/s"]) * time_ns * 1e-9, 61, 1e-6);
  EXPECT_NEAR(double(entry["bytes/s"]) * time_ns * 1e-9, bytes, 1e-3);
  EXPECT_THAT(time_ns,
              AllOf(Ge(double(entry["median_low_ns"])), Le(double(entry["median_high_ns"]))));
  EXPECT_GT(double(entry["roofline"]), 0);
  EXPECT_LT(double(entry["roofline"]), 1);
  EXPECT_GT(double(entry["runs"]), 2);
  EXPECT_LE(double(entry["max_ratio"]), 1);
  EXPECT_EQ(entry["cpu_time"], entry["real_time"]);
}

TEST_F(GbenchAdapter, EveryRepetitionIsTimedAnew) {
  ASSERT_EQ(
      run(std::string(kDense) + "naive --benchmark_repetitions=3 --benchmark_out=out.json").code,
      0);
  std::set<double> times;
  for (const json& entry : benchmarks("out.json"))
    if (entry["run_type"] == "iteration") times.insert(double(entry["real_time"]));
  EXPECT_EQ(times.size(), 3u);
}

TEST_F(GbenchAdapter, AnUnsupportedCaseIsNoFault) {
  const Outcome outcome = run("--benchmark_filter=smoke/linear/dense/f32/mutant_none");
  EXPECT_EQ(outcome.code, 0) << outcome.text;
  EXPECT_THAT(outcome.text, HasSubstr("unsupported (unsupported:table): is not an implementation"));
}

TEST_F(GbenchAdapter, OptionsThatMakeNoSenseAreNoBenchmarks) {
  const Outcome suite = run("", "smoky");
  EXPECT_EQ(suite.code, 64);
  EXPECT_THAT(suite.text, HasSubstr("no such suite file"));
  EXPECT_EQ(run("--benchmark_fliter=x").code, 64);
}

// As benchmark_min_time and the like are set by scripts: the environment counts too.
TEST_F(GbenchAdapter, TheEnvironmentNamesTheFileToo) {
  const Outcome outcome =
      testing::run_shell(folder_, "BENCHMARK_OUT=out.json EXAMPLE_SUITE=smoke " ATTEST_BINARY_DIR
                                  "/tests/attest_gbench_example " +
                                      std::string(kDense) + "naive");
  ASSERT_EQ(outcome.code, 0) << outcome.text;
  const json entry = entries("out.json").begin()->second;
  EXPECT_EQ(entry["cpu_time"], entry["real_time"]);
}

}  // namespace
}  // namespace attest
