// The adapter as a user meets it: a program of its own, with GoogleTest's options.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>

#include "core/isolation/limits.hpp"
#include "core/vectors/testing/files_by_hand.hpp"
#include "frontends/attest_conformance.hpp"
#include "testing/folder_test.hpp"

namespace attest {
namespace {

using attest::testing::Outcome;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;
namespace fs = std::filesystem;

// The header is installed without the core's, so it repeats their default.
TEST(Conformance, TimesOutAsTheCommandLineDoes) {
  EXPECT_EQ(conformance::Options{}.timeout_s, core::Limits{}.timeout_s);
}

class GtestAdapter : public testing::FolderTest {
 protected:
  Outcome run(const std::string& arguments,
              const std::string& environment = "EXAMPLE_SUITE=smoke") const {
    return testing::run_shell(
        folder_, environment + " " ATTEST_BINARY_DIR "/tests/attest_gtest_example " + arguments);
  }
  /// "suite.test" of every test that ran.
  std::multiset<std::string> ran(const std::string& arguments,
                                 const std::string& environment = "EXAMPLE_SUITE=smoke") const {
    std::istringstream lines(run(arguments, environment).text);
    std::multiset<std::string> names;
    for (std::string line; std::getline(lines, line);)
      if (line.starts_with("[ RUN      ] ")) names.insert(line.substr(13));
    return names;
  }
};

TEST_F(GtestAdapter, EveryCaseAndImplementationIsOneTest) {
  const Outcome outcome = run("--gtest_list_tests");
  EXPECT_EQ(outcome.code, 0) << outcome.text;
  EXPECT_THAT(
      outcome.text,
      HasSubstr("smoke/softmax/dense/f32.\n  mutant_none\n  mutant_dropped_key\n  naive\n"));
  EXPECT_THAT(outcome.text, HasSubstr("smoke/linear/masked/bf16.\n"));
  EXPECT_EQ(run("--gtest_list_tests").text, outcome.text);
}

TEST_F(GtestAdapter, PassesFailsAndSkipsWithTheReason) {
  EXPECT_EQ(run("--gtest_filter=smoke/softmax/dense/f32.naive").code, 0);
  const Outcome bad = run("--gtest_filter=smoke/softmax/dense/f32.mutant*");
  EXPECT_EQ(bad.code, 1);
  EXPECT_THAT(bad.text, HasSubstr("[       OK ] smoke/softmax/dense/f32.mutant_none"));
  EXPECT_THAT(bad.text, HasSubstr("[  FAILED  ] smoke/softmax/dense/f32.mutant_dropped_key"));
  EXPECT_THAT(bad.text, ContainsRegex("fail .fail:tolerance.: .*\nsoftmax dtype=f32"));
  const Outcome skipped = run("--gtest_filter=smoke/linear/dense/f32.mutant_none");
  EXPECT_EQ(skipped.code, 0);
  EXPECT_THAT(skipped.text, HasSubstr("unsupported: is not an implementation of linear"));
  EXPECT_THAT(skipped.text, HasSubstr("[  SKIPPED ] smoke/linear/dense/f32.mutant_none"));
}

TEST_F(GtestAdapter, ShardsShareTheTests) {
  const std::string filter = "--gtest_filter=smoke/softmax/c*/f32.naive";
  const std::multiset<std::string>
      all = ran(filter),
      first = ran(filter, "GTEST_TOTAL_SHARDS=2 GTEST_SHARD_INDEX=0 EXAMPLE_SUITE=smoke");
  std::multiset<std::string> both =
      ran(filter, "GTEST_TOTAL_SHARDS=2 GTEST_SHARD_INDEX=1 EXAMPLE_SUITE=smoke");
  EXPECT_EQ(first.size(), 2u);
  EXPECT_EQ(both.size(), 2u);
  both.insert(first.begin(), first.end());
  EXPECT_EQ(both, all);
}

TEST_F(GtestAdapter, XmlSaysHowNearTheGateItWas) {
  run("--gtest_filter=smoke/softmax/dense/f16.naive:smoke/linear/dense/f32.mutant_none "
      "--gtest_output=xml:out.xml");
  std::stringstream text;
  text << std::ifstream(folder_ / "out.xml").rdbuf();
  EXPECT_THAT(text.str(), HasSubstr("testsuite name=\"smoke/softmax/dense/f16\""));
  EXPECT_THAT(text.str(), HasSubstr("testcase name=\"naive\""));
  EXPECT_THAT(text.str(), ContainsRegex("property name=\"max_ratio\" value=\"0\\.[0-9]*[1-9]"));
  EXPECT_THAT(text.str(), HasSubstr("<skipped message="));
}

TEST_F(GtestAdapter, VectorsAreTestsToo) {
  fs::create_directories(folder_ / "given/mean-of-two");
  fs::create_directories(folder_ / "given/unknown");
  const std::string tensors = R"({"q":{"dtype":"F32","shape":[1,1,1,2],"data_offsets":[0,8]},)"
                              R"("v":{"dtype":"F32","shape":[1,1,2,2],"data_offsets":[8,24]},)"
                              R"("o":{"dtype":"F32","shape":[1,1,1,2],"data_offsets":[24,32]}})";
  const auto say = [&](float said) {
    std::ofstream(folder_ / "given/mean-of-two/t.safetensors", std::ios::binary)
        << core::safetensors_file(tensors, core::packed_values<float>({0, 0, 1, 2, 3, 4, 2, said}));
    std::ofstream(folder_ / "given/mean-of-two/case.json")
        << R"({"tolerance": 1e-6, "tensors": {"q": "t.safetensors:q", "k": "t.safetensors:v",
                                              "v": "t.safetensors:v", "o": "t.safetensors:o"}})";
  };
  say(3);
  std::ofstream(folder_ / "given/unknown/case.json") << R"({"operation":"hyena","tensors":{}})";
  const std::string given = "EXAMPLE_VECTORS=" + (folder_ / "given").string();
  const Outcome good = run("--gtest_filter=-*dropped_key", given);
  EXPECT_EQ(good.code, 0) << good.text;
  EXPECT_THAT(good.text, HasSubstr("[       OK ] given/mean_of_two.reference"));
  EXPECT_THAT(good.text, HasSubstr("[       OK ] given/mean_of_two.naive"));
  EXPECT_THAT(good.text, HasSubstr("[  SKIPPED ] given/unknown.naive"));
  EXPECT_THAT(good.text, HasSubstr("unsupported: operation 'hyena'"));
  EXPECT_THAT(run("--gtest_filter=*dropped_key", given).text,
              HasSubstr("[  FAILED  ] given/mean_of_two.mutant_dropped_key"));
  say(4);
  EXPECT_THAT(run("", given).text, HasSubstr("[  FAILED  ] given/mean_of_two.reference"));
}

TEST_F(GtestAdapter, OptionsThatMakeNoSenseAreNoTests) {
  EXPECT_EQ(run("", "EXAMPLE_SUITE=smoky").code, 64);
  EXPECT_THAT(run("", "EXAMPLE_SUITE=smoky").text, HasSubstr("no such suite file"));
  EXPECT_EQ(run("", "").code, 64);
  EXPECT_THAT(run("", "").text, HasSubstr("no case is left to judge"));
  EXPECT_THAT(run("", "EXAMPLE_VECTORS=nowhere").text, HasSubstr("nowhere: no such folder"));
}

}  // namespace
}  // namespace attest
