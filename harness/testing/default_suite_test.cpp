// What `attest run --plugin my.so` promises: of a slow kernel too, nothing that it declares goes
// unjudged, and no bug in a feature passes. The suite, its case limit and the order of its cases
// are those of the command.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <set>
#include <string>
#include <vector>

#include "core/problem/spec.hpp"
#include "core/problem/suite.hpp"
#include "core/run/runner.hpp"
#include "testing/shell.hpp"

namespace attest::testing {
namespace {

using core::Case, core::CaseRunner, core::Implementation, core::Plugin, core::Record;
using ::testing::HasSubstr;

constexpr double kCaseLimit_s = 1;  // of the command, where no suite is named
const std::string kPlugins = ATTEST_BINARY_DIR "/tests/plugins/";

struct Outcomes {
  std::map<std::string, std::string> caught;  // by implementation, the case that failed first
  std::map<std::string, int> passed;          // how many cases of each
};

/// Judges every implementation of a plugin on the default suite, each until it has failed;
/// `healthy` go through all that is tiny.
Outcomes run_default_suite(const std::string& library) {
  Plugin plugin(
      kPlugins + library,
      {.executable = core::find_worker(), .cpus = "", .limits = {.threads = 2, .timeout_s = 120}});
  core::RunOptions options;
  options.limits.threads = 2;
  options.timed = false;
  options.limits.case_limit_s = kCaseLimit_s;
  core::Rates rates;
  Outcomes found;
  const core::Suite suite = core::read_suite(ATTEST_SOURCE_DIR "/suites/default.json");
  for (const Case& one : suite.cases)
    for (const core::DType dtype : one.dtypes) {
      const core::Problem problem = one.problem(dtype, 0);
      CaseRunner runner(problem, core::print_problem(problem), {"default", one.name, "random", ""},
                        nullptr, options, rates);
      for (const Implementation& impl : plugin.implementations()) {
        const bool is_healthy = impl.name.ends_with("_none"),
                   is_tiny = one.name.starts_with("tiny/");
        if (found.caught.count(impl.name) || (is_healthy && !is_tiny)) continue;
        const Record record = runner.run(plugin, impl);
        if (record.outcome.is_bad())
          found.caught[impl.name] =
              one.name + " " + std::string(core::dtype_name(dtype)) + ": " + record.outcome.reason;
        found.passed[impl.name] += record.outcome.passes();
        EXPECT_FALSE(is_tiny && record.outcome.verdict() == core::Verdict::kSkipped)
            << one.name << " " << record.outcome.reason;
      }
    }
  return found;
}

TEST(DefaultSuite, FailsTheTemplateBrokenInEachFeature) {
  const Outcomes found = run_default_suite("template_bugs.so");
  EXPECT_EQ(found.passed.size(), 36u);
  for (const auto& [name, passed] : found.passed) {
    const auto caught = found.caught.find(name);
    EXPECT_EQ(caught == found.caught.end(), name.ends_with("_none"))
        << name
        << (caught == found.caught.end() ? " passes the default suite"
                                         : " fails " + caught->second);
  }
}

// Those that need more than a slow kernel's minute, with the smallest problem that shows them.
const std::map<std::string, std::string>& not_in_a_minute() {
  static const std::map<std::string, std::string> kMutants = {
      {"mutant_index_32",
       "softmax batch=2 num_heads=2 seq_len_q=61 head_dim=16 k.strides=[2147483648,1024,16,1]"},
  };
  return kMutants;
}

TEST(DefaultSuite, FailsThePlantedMutants) {
  const Outcomes found = run_default_suite("mutants.so");
  for (const auto& [name, passed] : found.passed) {
    const bool should = !name.ends_with("_none") && !not_in_a_minute().count(name);
    EXPECT_EQ(found.caught.count(name) == 1, should)
        << name << (should ? " passes the default suite" : " fails it");
  }
}

// The command itself: a healthy kernel leaves nothing unjudged, and says what a filter of cases
// left out.
TEST(DefaultSuite, LeavesNothingThatIsDeclaredUnjudged) {
  const std::string healthy = "run --judge-only --relations none --plugin " + kPlugins +
                              "template_bugs.so --impl template_none";
  const Outcome all = run_attest("/tmp", healthy + " --strict --case 'tiny/*'");
  EXPECT_EQ(all.code, 0) << all.text;
  EXPECT_THAT(all.text, ::testing::Not(HasSubstr("never judged")));
  const Outcome some = run_attest("/tmp", healthy + " --case 'tiny/dense,tiny/varlen' --dtype f32");
  EXPECT_EQ(some.code, 0) << some.text;
  EXPECT_THAT(
      some.text,
      HasSubstr(
          "template_none: declared, never judged: GQA, HEAD_DIM_V, CAUSAL, WINDOW, DIAGONAL, "
          "SOFTCAP, "
          "BIAS, MASK, SEQ_LENS, PAGES, ORDER, PATCHES, GRID, REL_BIAS, STRIDES, MIXED_DTYPE, "
          "UNALIGNED, ALIBI, SINKS, f16, bf16, f64"));
  EXPECT_EQ(run_attest("/tmp", healthy + " --case tiny/dense --strict").code, 3);
}

}  // namespace
}  // namespace attest::testing
