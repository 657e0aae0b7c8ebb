// Outputs that change from run to run: races and uninitialised memory are told from bugs that are
// always the same, from state, and from sums whose order may vary.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/run/runner.hpp"
#include "reports/table.hpp"
#include "testing/named.hpp"

namespace attest::core {
namespace {

using ::testing::AnyOf;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr const char *kSmall = "softmax num_heads=2 seq_len_q=16 head_dim=8",
                     *kLarge = "softmax num_heads=2 seq_len_q=61 head_dim=16";

class Races : public ::testing::Test {
 protected:
  Races() {
    options_.timed = false;
    options_.relations = RelationChoice::kAll;
  }
  Record run(const std::string& name, const std::string& spec, const std::string& library = "races",
             int threads = 1) {
    Plugin plugin(
        ATTEST_BINARY_DIR "/tests/plugins/" + library + ".so",
        {.executable = find_worker(), .cpus = "", .limits = {.threads = threads, .timeout_s = 60}});
    return testing::run_named(plugin, name, spec, options_);
  }
  static bool is_apart(const std::optional<RerunRecord>& reruns) { return reruns && reruns->apart; }
  /// Whether reruns of a fill or a relation were further apart than rounding.
  static bool is_unsteady(const Record& record) {
    return std::ranges::any_of(record.fills, [](const auto& f) { return is_apart(f.reruns); }) ||
           std::ranges::any_of(record.relations, [](const auto& r) { return is_apart(r.reruns); });
  }
  static std::string shown(const Record& record) { return reports::print_table({record}, false); }

  RunOptions options_;
};

TEST_F(Races, AreSeenByARerun) {
  for (const char* name : {"race_barrier", "race_uninitialised"}) {
    SCOPED_TRACE(name);
    EXPECT_EQ(run(name, kSmall).outcome.verdict(), Verdict::kPass) << "too few keys for it";
    const Record record = run(name, kLarge);
    EXPECT_EQ(record.outcome.verdict(), Verdict::kFail);
    EXPECT_TRUE(is_unsteady(record)) << shown(record);
    EXPECT_THAT(shown(record), HasSubstr("race or uninitialised memory\n"));
  }
}

// Runs with one thread tell what kind of fault it is.
TEST_F(Races, AreToldFromWhatDiffersWithOneThreadToo) {
  const std::string between = "a race between threads, since all runs with one thread agree",
                    memory = "uninitialised memory, since runs with one thread differ too";
  EXPECT_THAT(shown(run("race_threads", kLarge, "races", 2)), HasSubstr(between));
  EXPECT_THAT(shown(run("race_uninitialised", kLarge, "races", 2)), HasSubstr(memory));
  EXPECT_EQ(run("race_threads", kLarge).outcome.verdict(), Verdict::kPass);
  EXPECT_THAT(shown(run("race_uninitialised", kLarge)), HasSubstr("race or uninitialised memory"));
}

TEST_F(Races, AreNotSeenInWhatIsAlwaysWrongInTheSameWay) {
  const Record record = run("mutant_last_row", kLarge, "mutants");
  ASSERT_TRUE(record.fills.back().reruns);
  EXPECT_GE(record.fills.back().reruns->runs, 1);
  EXPECT_EQ(record.fills.back().reruns->differing(), 0);
  EXPECT_FALSE(is_unsteady(record));
  EXPECT_THAT(shown(record), Not(AnyOf(HasSubstr("rerun"), HasSubstr("memory that it"))));
}

// What a plan keeps from run to run, another plan keeps in the same way.
TEST_F(Races, AreNotSeenInState) {
  for (const char* name : {"state_run_2", "state_run_3", "state_semaphore_left"}) {
    SCOPED_TRACE(name);
    const Record record = run(name, kLarge, "state");
    EXPECT_EQ(record.outcome.code, ReasonCode::kFailRepetition);
    ASSERT_TRUE(record.relations.back().reruns);
    EXPECT_EQ(record.relations.back().reruns->differing(), 0);
    EXPECT_FALSE(is_unsteady(record)) << shown(record);
  }
}

// Sums in another order differ in the last bits. That is a fault only of those who do not say so,
// and not the fault that other cases have to be suspected of.
TEST_F(Races, AreNotSeenInSumsWhoseOrderVaries) {
  const Record declared = run("honest_order", kLarge);
  EXPECT_EQ(declared.outcome.verdict(), Verdict::kPass) << declared.outcome.reason;
  const Record undeclared = run("race_order_undeclared", kLarge);
  EXPECT_EQ(undeclared.outcome.code, ReasonCode::kFailRepetition);
  EXPECT_FALSE(is_unsteady(undeclared)) << shown(undeclared);
}

TEST_F(Races, AreToldFromAWorkspaceThatIsReadUnwritten) {
  const Record record = run("state_fractions", kLarge, "state");
  ASSERT_FALSE(record.fills.back().judgement.outcome.passes());
  ASSERT_TRUE(record.fills.back().reruns);
  EXPECT_EQ(record.fills.back().reruns->workspace, "NaN");
  EXPECT_FALSE(is_unsteady(record));
  EXPECT_THAT(shown(record), HasSubstr("it gives other bits if its workspace held NaN before"));
}

// As often as was asked for, whatever the first run was.
TEST_F(Races, RerunsAreCountedAndJudged) {
  options_.relations = RelationChoice::kNone;
  options_.fills = {"random"};
  options_.reruns = 30;
  const RerunRecord same = run("race_none", kLarge).fills.at(0).reruns.value();
  EXPECT_EQ(same.runs, 30);
  EXPECT_EQ(same.differing(), 0);
  EXPECT_FALSE(same.apart);

  const Record record = run("race_barrier", kLarge);
  const RerunRecord barrier = record.fills.at(0).reruns.value();
  EXPECT_EQ(barrier.runs, 30);
  EXPECT_GT(barrier.differing(), 0);
  for (const RerunRecord::Other& other : barrier.others)
    EXPECT_TRUE(other.runs == 1 || other.outcome.passes()) << "no two wrong runs are the same";
  EXPECT_TRUE(barrier.apart);
  EXPECT_EQ(record.outcome.verdict(), Verdict::kFail) << "even if the first run passed";

  const Record order = run("honest_order", kLarge);
  EXPECT_EQ(order.outcome.verdict(), Verdict::kPass);
  EXPECT_GT(order.fills.at(0).reruns->differing(), 0);
  EXPECT_FALSE(order.fills.at(0).reruns->apart);
  const Record undeclared = run("race_order_undeclared", kLarge);
  EXPECT_EQ(undeclared.outcome.code, ReasonCode::kFailRepetition);
  EXPECT_THAT(undeclared.outcome.reason, HasSubstr("does not declare itself nondeterministic"));
  EXPECT_FALSE(undeclared.fills.at(0).reruns->apart);
}

}  // namespace
}  // namespace attest::core
