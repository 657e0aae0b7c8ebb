// What `attest new sketch --operation` writes builds: the operation is known to the program that it
// is linked into, and its implementation passes its suite.
#include <gtest/gtest.h>

#include "core/isolation/installation.hpp"
#include "core/problem/spec.hpp"
#include "core/problem/suite.hpp"
#include "core/run/runner.hpp"
#include "testing/named.hpp"

namespace attest::cli {
namespace {

TEST(NewOperation, IsKnownAndItsImplementationPasses) {
  ASSERT_NE(core::find_operation("sketch"), nullptr);
  const core::Suite suite =
      core::read_suite(ATTEST_BINARY_DIR "/harness/cli/written/sketch/sketch.json");
  EXPECT_EQ(suite.name, "sketch");
  ASSERT_EQ(suite.cases.size(), 1u);
  core::Plugin plugin(ATTEST_BINARY_DIR "/tests/plugins/sketch_cpu.so",
                      {.executable = core::find_worker(), .cpus = "", .limits = {.threads = 1}});
  const core::Problem problem = suite.cases[0].problem(ATTEST_F32, 0);
  const core::RunOptions options{.timed = false};
  core::Rates rates;
  core::CaseRunner runner(problem, core::print_problem(problem),
                          {suite.name, suite.cases[0].name, "random"}, nullptr, options, rates);
  const core::Record record = runner.run(plugin, testing::named(plugin, "sketch_cpu"));
  EXPECT_EQ(record.outcome.verdict(), core::Verdict::kPass) << record.outcome.reason;
}

}  // namespace
}  // namespace attest::cli
