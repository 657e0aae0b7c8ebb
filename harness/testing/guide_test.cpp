// The guide to adding an operation (core/operations/README.md): its excerpts are of files that are
// built, and its suite runs.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "core/isolation/installation.hpp"
#include "core/problem/spec.hpp"
#include "core/problem/suite.hpp"
#include "core/run/runner.hpp"
#include "testing/named.hpp"
#include "testing/scale_operation.hpp"

namespace attest::testing {
namespace {

using ::testing::HasSubstr;

std::string text_of(const std::string& file) {
  std::ostringstream text;
  text << std::ifstream(std::string(ATTEST_SOURCE_DIR "/harness/") + file).rdbuf();
  return text.str();
}

/// The blocks of the guide that are in that language.
std::vector<std::string> blocks(const std::string& language) {
  const std::string guide = text_of("core/operations/README.md"), mark = "```" + language + "\n";
  std::vector<std::string> found;
  for (size_t at = guide.find(mark); at != guide.npos; at = guide.find(mark, at)) {
    at += mark.size();
    found.push_back(guide.substr(at, guide.find("```", at) - at));
  }
  return found;
}

TEST(Guide, ExcerptsAreOfWhatIsBuilt) {
  const std::string sources =
      text_of("testing/scale_operation.hpp") + text_of("testing/scale_operation.cpp");
  EXPECT_GE(blocks("cpp").size(), 6u);
  for (const std::string& block : blocks("cpp")) EXPECT_THAT(sources, HasSubstr(block));
  EXPECT_EQ(blocks("json").at(0), text_of("testing/scale.json"));
}

TEST(Guide, ItsSuitePassesTheRightOneAndFailsTheWrongOne) {
  scale_operation();
  const core::Suite suite = core::parse_suite(blocks("json").at(0), "the guide");
  core::Plugin plugin(ATTEST_BINARY_DIR "/tests/plugins/scale.so",
                      {.executable = core::find_worker(), .cpus = "", .limits = {.threads = 1}});
  const core::RunOptions options{.timed = false};
  core::Rates rates;
  int problems = 0;
  for (const core::Case& one : suite.cases)
    for (const core::DType dtype : one.dtypes) {
      const core::Problem problem = one.problem(dtype, 0);
      core::CaseRunner runner(problem, core::print_problem(problem),
                              {suite.name, one.name, "random"}, nullptr, options, rates);
      const auto verdict = [&](const char* impl) {
        return runner.run(plugin, named(plugin, impl)).outcome.verdict();
      };
      EXPECT_EQ(verdict("scale_right"), core::Verdict::kPass);
      EXPECT_EQ(verdict("scale_wrong"), core::Verdict::kFail);
      ++problems;
    }
  EXPECT_EQ(problems, 1);
}

}  // namespace
}  // namespace attest::testing
