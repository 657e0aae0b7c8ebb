// The runner on a private operation: whatever an implementation does is one record with its
// verdict, and the next case goes on.
#include "core/run/runner.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <set>

#include "core/operations/relation.hpp"
#include "core/problem/spec.hpp"
#include "core/tensor/error.hpp"
#include "core/tensor/stopwatch.hpp"
#include "testing/named.hpp"
#include "testing/scale_operation.hpp"

namespace attest::core {
namespace {

using ::testing::HasSubstr;

class Runner : public ::testing::Test {
 protected:
  Runner()
      : plugin_(
            ATTEST_BINARY_DIR "/tests/plugins/scale.so",
            {.executable = find_worker(), .cpus = "", .limits = {.threads = 1, .timeout_s = 1}}) {
    options_.limits.timeout_s = 1;
    options_.limits.budget_s = 0.05;
  }

  Record run(const std::string& name) {
    return runner_.run(plugin_, attest::testing::named(plugin_, name));
  }

  Problem problem_ = attest::testing::scale_problem(100, 64);
  Plugin plugin_;
  RunOptions options_;
  Rates rates_;
  CaseRunner runner_{problem_,
                     "scale rows=100 width=64",
                     {"test", "scale/100x64", "random", ""},
                     nullptr,
                     options_,
                     rates_};
};

TEST_F(Runner, JudgesAndTimesTheRightOne) {
  const Record record = run("scale_right");
  EXPECT_EQ(record.outcome.verdict(), Verdict::kPass) << record.outcome.reason;
  ASSERT_EQ(record.fills.size(), 1u);
  EXPECT_EQ(record.fills[0].judgement.exact_elements, 6400);
  EXPECT_EQ(record.fills[0].inputs_hash.size(), 16u);
  ASSERT_TRUE(record.time);
  EXPECT_GE(record.time->samples_ns.size(), 2u);
  EXPECT_LE(record.time->min_ns, record.time->median_ns);
  EXPECT_GT(record.gflops(), 0);
  EXPECT_EQ(record.spec, "scale rows=100 width=64");
  EXPECT_EQ(record.operation, "scale");
}

TEST_F(Runner, FailsTheWrongOnes) {
  const Record wrong = run("scale_wrong");
  EXPECT_EQ(wrong.outcome.code, ReasonCode::kFailTolerance);
  const std::optional<Location>& location = wrong.fills.back().judgement.location;
  ASSERT_TRUE(location);
  EXPECT_EQ(location->tensor, "y");
  EXPECT_GT(location->wrong_elements, 0);
  EXPECT_EQ(run("scale_short").outcome.code, ReasonCode::kFailUnwritten);
  EXPECT_EQ(run("scale_zeros").outcome.code, ReasonCode::kSuspectZeros);
}

// Then a record has the verdict alone.
TEST_F(Runner, DiagnosesWrongOutputsOnlyIfAsked) {
  const Record diagnosed = run("scale_wrong");
  options_.diagnosed = false;
  const Record judged = run("scale_wrong");
  const FillRecord &with = diagnosed.fills.back(), &without = judged.fills.back();
  EXPECT_EQ(judged.outcome.code, diagnosed.outcome.code);
  EXPECT_EQ(judged.outcome.reason, diagnosed.outcome.reason);
  EXPECT_EQ(without.judgement.max_ratio, with.judgement.max_ratio);
  EXPECT_TRUE(with.judgement.location && with.judgement.guess && with.reruns);
  EXPECT_FALSE(without.judgement.location || without.judgement.guess || without.reruns);
}

TEST(EnoughFills, AreAsManyAsTheLimitOfASlowCaseAllows) {
  const auto judged = [](double run_s, size_t count) {
    return std::vector<FillRun>(count, {.run_ns = run_s * 1e9});
  };
  EXPECT_FALSE(enough_fills(judged(2.4, 5), 20));
  EXPECT_TRUE(enough_fills(judged(2.6, 5), 20));
  EXPECT_FALSE(enough_fills(judged(6, 1), 20));  // two at least
  EXPECT_TRUE(enough_fills(judged(6, 2), 20));
  EXPECT_FALSE(enough_fills(judged(0.9, 100), 20));
}

TEST_F(Runner, OfATrialTheFirstOutcomeAndTheQuickestFillCount) {
  Record record;
  Trial trial{plugin_, plugin_.implementations().front(), record};
  EXPECT_EQ(trial.quickest_run_ns(), 0);
  trial.fills = {{.run_ns = 30}, {.run_ns = 0}, {.run_ns = 20}};
  EXPECT_EQ(trial.quickest_run_ns(), 20) << "a run that gave nothing is not quick";
  trial.note({});
  trial.note({ReasonCode::kFailRange, "first"});
  trial.note({ReasonCode::kFailNan, "second"});
  EXPECT_EQ(trial.outcome.code, ReasonCode::kFailRange);
}

// The tolerance follows from what is declared of the operation's own stages.
TEST_F(Runner, JudgesByTheStagesOfTheOperation) {
  const Record declared = run("scale_bf16");
  EXPECT_EQ(declared.outcome.verdict(), Verdict::kPass) << declared.outcome.reason;
  EXPECT_EQ(declared.arithmetic, "operand=bf16");
  EXPECT_EQ(run("scale_bf16_undeclared").outcome.code, ReasonCode::kFailTolerance);
  const Record lost = run("scale_declares_lost");
  EXPECT_EQ(lost.outcome.code, ReasonCode::kErrorDeclaration);
  EXPECT_THAT(lost.outcome.reason, HasSubstr("stage[1] is declared, which scale does not have"));
}

TEST_F(Runner, TimesNothingThatDoesNotPass) { EXPECT_FALSE(run("scale_wrong").time); }

// 25,600 bytes are a multiple of 64 but not of the page: the element behind the last one is a
// canary.
TEST_F(Runner, SeesAWriteBeyondTheEnd) {
  const Record record = run("scale_beyond");
  EXPECT_EQ(record.outcome.code, ReasonCode::kCrashCanary);
  EXPECT_THAT(record.outcome.reason, HasSubstr("y was written past its end, at byte 0 behind it"));
}

TEST_F(Runner, NamesTheInputThatWasWritten) {
  const Record record = run("scale_input");
  EXPECT_EQ(record.outcome.verdict(), Verdict::kCrash);
  EXPECT_EQ(record.outcome.code, ReasonCode::kCrashInputWritten);
  EXPECT_THAT(record.outcome.reason, HasSubstr("in run at byte 20 of x"));
}

TEST_F(Runner, SurvivesDeath) {
  EXPECT_THAT(run("scale_null").outcome.reason, HasSubstr("SIGSEGV in run"));
  const Record exits = run("scale_exits");
  EXPECT_EQ(exits.outcome.code, ReasonCode::kCrashExit);
  EXPECT_THAT(exits.outcome.reason, HasSubstr("exited with 0 in run"));
  const Record query = run("scale_dies_in_query");
  EXPECT_EQ(query.outcome.code, ReasonCode::kCrashSignal);
  EXPECT_THAT(query.outcome.reason, HasSubstr("SIGABRT in query"));
  EXPECT_EQ(run("scale_right").outcome.verdict(), Verdict::kPass);
}

TEST_F(Runner, EndsAHang) {
  const auto start = Clock::now();
  const Record record = run("scale_hangs");
  EXPECT_EQ(record.outcome.verdict(), Verdict::kTimeout);
  EXPECT_THAT(record.outcome.reason, HasSubstr("was in run for more than 1 s"));
  EXPECT_LT(seconds_since(start), 5);
  EXPECT_EQ(run("scale_right").outcome.verdict(), Verdict::kPass);
}

TEST_F(Runner, PassesOnWhatTheImplementationSays) {
  const Record fails = run("scale_fails");
  EXPECT_EQ(fails.outcome.code, ReasonCode::kErrorMemory);
  EXPECT_THAT(fails.outcome.reason, HasSubstr("the scale is not to be had"));
  EXPECT_EQ(run("scale_not_created").outcome.code, ReasonCode::kErrorRuntime);
  EXPECT_THAT(run("scale_talks").outcome.reason,
              HasSubstr("it said:  [31mhello"));  // the escape is not passed on
}

TEST_F(Runner, SkipsWhatCannotFitWithTheFigures) {
  const Record record = run("scale_huge");
  EXPECT_EQ(record.outcome.code, ReasonCode::kSkippedMemory);
  EXPECT_THAT(record.outcome.reason, HasSubstr("3.28e+04 GiB of it declared workspace"));
}

TEST_F(Runner, RefusesWhatTheTableDoesNotList) {
  const Problem half = attest::testing::scale_problem(4, 4, ATTEST_F16);
  CaseRunner runner(half, "scale dtype=f16", {}, nullptr, options_, rates_);
  const Record record = runner.run(plugin_, plugin_.implementations()[0]);
  EXPECT_EQ(record.outcome.verdict(), Verdict::kUnsupported);
  EXPECT_EQ(record.outcome.reason, "does not take f16 (takes f32)");
}

TEST_F(Runner, PassesOnTheReasonOfQuery) {
  const Problem wide = attest::testing::scale_problem(1, 5000);
  CaseRunner runner(wide, "scale width=5000", {}, nullptr, options_, rates_);
  EXPECT_EQ(runner.run(plugin_, plugin_.implementations()[0]).outcome.reason,
            "width is more than 4096");
}

TEST_F(Runner, SkipsWhatTakesTooLong) {
  rates_.note("scale_right", {"f32", ""}, 1e9, 1e12);  // one flop a microsecond
  const Problem large = attest::testing::scale_problem(1 << 16, 1 << 8);
  CaseRunner runner(large, "scale rows=65536 width=256", {}, nullptr, options_, rates_);
  const Record record = runner.run(plugin_, plugin_.implementations()[0]);
  EXPECT_EQ(record.outcome.code, ReasonCode::kSkippedTime);
  EXPECT_THAT(record.outcome.reason, HasSubstr("16.8 s a run"));
}

TEST_F(Runner, RefusesLessArithmeticThanAskedFor) {
  options_.least = parse_min_arithmetic("operand=f64", all_operations());
  const Record record = run("scale_right");
  EXPECT_EQ(record.outcome.code, ReasonCode::kUnsupportedArithmetic);
  EXPECT_THAT(record.outcome.reason, HasSubstr("operand=f32"));
}

TEST_F(Runner, GivesTheSameInputsAgain) {
  const std::string first = run("scale_right").fills.at(0).inputs_hash;
  CaseRunner again(problem_, "scale rows=100 width=64", {}, nullptr, options_, rates_);
  EXPECT_EQ(again.run(plugin_, plugin_.implementations()[0]).fills.at(0).inputs_hash, first);
  CaseRunner other(problem_, "scale rows=100 width=65", {}, nullptr, options_, rates_);
  EXPECT_NE(other.run(plugin_, plugin_.implementations()[0]).fills.at(0).inputs_hash, first);
}

// What a relation says of itself has a code.
TEST(ReasonCodes, EveryRelationHasOne) {
  std::set<std::string> names;
  for (const char* line :
       {"softmax num_heads=4 num_kv_heads=2 seq_len_q=16 seq_len_kv=16 head_dim=8 lse",
        "softmax num_heads=2 seq_len_q=16 seq_len_kv=16 head_dim=8 mask bias",
        "linear num_heads=2 seq_len_q=16 seq_len_kv=16 head_dim=8"}) {
    const Problem problem = parse_problem(line);
    const SharedTensors inputs(problem, ATTEST_READ);
    problem.operation->fill(problem, {}, inputs.tensors(), false);
    for (const auto& relation : problem.operation->relations(problem, inputs.tensors()))
      names.insert(std::string(relation->name()));
  }
  EXPECT_GE(names.size(), 9u);
  for (const std::string& name : names) EXPECT_TRUE(find_reason("fail:" + name)) << name;
}

}  // namespace
}  // namespace attest::core
