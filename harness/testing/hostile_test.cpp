// What an implementation does to its process is a verdict with its code; the next one goes on, and
// nothing stays behind.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <ostream>

#include "core/measure/machine/affinity.hpp"
#include "core/problem/spec.hpp"
#include "core/run/runner.hpp"
#include "core/tensor/stopwatch.hpp"
#include "testing/named.hpp"

namespace attest::core {
namespace {

using ::testing::HasSubstr;
namespace fs = std::filesystem;

constexpr const char* kSpec = "softmax seq_len_q=61 head_dim=16";

struct Expected {
  const char* name;
  ReasonCode code;
  const char* words;
};
void PrintTo(const Expected& expected, std::ostream* out) { *out << expected.name; }

// One plugin, and so one worker after another, for all of them: what one leaves broken would show
// in the next.
class Hostile : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    plugin_ = std::make_unique<Plugin>(ATTEST_BINARY_DIR "/tests/plugins/hostile.so", options());
  }
  static void TearDownTestSuite() { plugin_.reset(); }
  static WorkerOptions options() {
    return {.executable = find_worker(),
            .cpus = "",
            .limits = {.threads = 1, .timeout_s = 2, .memory_bytes = 256 << 20}};
  }

  Record run(const std::string& name, bool timed = false) {
    return testing::run_named(*plugin_, name, kSpec,
                              {.limits = {.budget_s = 0.05}, .timed = timed});
  }

  static std::unique_ptr<Plugin> plugin_;
};
std::unique_ptr<Plugin> Hostile::plugin_;

class Harm : public Hostile, public ::testing::WithParamInterface<Expected> {};

TEST_P(Harm, HasItsCodeAndStaysWithItsCase) {
  const Expected& expected = GetParam();
  const Record record = run(expected.name);
  EXPECT_EQ(record.outcome.code, expected.code) << record.outcome.reason;
  EXPECT_THAT(record.outcome.reason, HasSubstr(expected.words));
  const Record next = run("hostile_none");
  EXPECT_EQ(next.outcome.verdict(), Verdict::kPass) << next.outcome.reason;
}

INSTANTIATE_TEST_SUITE_P(
    All, Harm,
    ::testing::Values(
        Expected{"hostile_segfault", ReasonCode::kCrashSignal,
                 "SIGSEGV in run at an address outside of every tensor"},
        Expected{"hostile_divides", ReasonCode::kCrashSignal, "SIGFPE in run"},
        Expected{"hostile_illegal", ReasonCode::kCrashSignal, "SIGILL in run"},
        Expected{"hostile_aborts", ReasonCode::kCrashSignal, "SIGABRT in run"},
        Expected{"hostile_signals", ReasonCode::kCrashSignal, "signal 35 in run"},
        Expected{"hostile_exits", ReasonCode::kCrashExit, "exited with 0 in run"},
        Expected{"hostile_leaves", ReasonCode::kCrashExit, "exited with 3 in run"},
        Expected{"hostile_stack", ReasonCode::kCrashStackOverflow, "the stack ran out in run"},
        Expected{"hostile_hangs", ReasonCode::kTimeoutRun, "was in run for more than 2 s"},
        Expected{"hostile_hangs_blocked", ReasonCode::kTimeoutRun, "was in run for more than 2 s"},
        Expected{"hostile_hangs_in_query", ReasonCode::kTimeoutRun,
                 "was in query for more than 2 s"},
        Expected{"hostile_hogs", ReasonCode::kCrashOom, "GiB resident in run"},
        Expected{"hostile_closes", ReasonCode::kCrashExit, "closed its connection"},
        Expected{"hostile_throws", ReasonCode::kCrashException,
                 "run threw: the kernel lost its way"},
        Expected{"hostile_thread_throws", ReasonCode::kCrashException, "nobody catches this"},
        Expected{"hostile_rounding", ReasonCode::kFailEnvironment,
                 "floating-point mode of its thread: rounding"},
        Expected{"hostile_flush", ReasonCode::kFailEnvironment,
                 "floating-point mode of its thread: flush-to-zero"},
        Expected{"hostile_mask", ReasonCode::kFailEnvironment, "signal mask"},
        Expected{"hostile_threads", ReasonCode::kFailThreads, "more with each run"},
        Expected{"hostile_descriptors", ReasonCode::kFailDescriptors, "more with each run"},
        Expected{"hostile_late", ReasonCode::kCrashLateWrite,
                 "a thread used after run had returned"},
        Expected{"hostile_later", ReasonCode::kCrashLateWrite,
                 "a thread used after run had returned"},
        Expected{"hostile_heap", ReasonCode::kCrashSignal, "SIGABRT"},
        Expected{"hostile_garbage", ReasonCode::kErrorProtocol,
                 "did the plugin write into its connection?"},
        Expected{"hostile_boasts", ReasonCode::kErrorDeclaration, ""},
        Expected{"hostile_unknown", ReasonCode::kErrorDeclaration, ""}),
    [](const auto& harm) { return std::string(harm.param.name).substr(8); });

TEST_F(Hostile, AffinityIsNotItsToChange) {
  if (allowed_cpus().size() < 2) GTEST_SKIP() << "one CPU: nothing to change";
  const Record record = run("hostile_affinity");
  EXPECT_EQ(record.outcome.code, ReasonCode::kFailEnvironment);
  EXPECT_THAT(record.outcome.reason, HasSubstr("run changed the CPUs of its thread"));
}

TEST_F(Hostile, HonestHabitsPass) {
  for (const char* name :
       {"hostile_none", "honest_pool", "honest_binds", "hostile_shrinks", "honest_helpers"}) {
    const Record record = run(name);
    EXPECT_EQ(record.outcome.verdict(), Verdict::kPass) << name << ": " << record.outcome.reason;
  }
}

TEST_F(Hostile, ModesSetAtLoadAndFloodsAreNoted) {
  Plugin fresh(ATTEST_BINARY_DIR "/tests/plugins/hostile.so", options());
  (void)fresh.implementations();
  EXPECT_THAT(fresh.habits(),
              ::testing::ElementsAre(
                  HasSubstr("changes the floating-point mode when it is loaded (flush-to-zero)")));
  const Record record = run("hostile_floods");
  EXPECT_EQ(record.outcome.verdict(), Verdict::kPass) << record.outcome.reason;
  EXPECT_THAT(record.notes, ::testing::Contains(HasSubstr("floods its output")));
}

TEST_F(Hostile, WhatQuerySaysOfAProblemThatItTakesIsNoted) {
  const Record record = run("hostile_notes");
  EXPECT_EQ(record.outcome.verdict(), Verdict::kPass) << record.outcome.reason;
  const std::string printable = " " + std::string(sizeof(attest_support::reason) - 2, 'x');
  EXPECT_THAT(record.notes, ::testing::Contains(printable));
  EXPECT_THAT(run("hostile_none").notes, ::testing::Not(::testing::Contains("")));
}

// Its 41st run: long after the judged ones, far within what all timed runs together may take.
TEST_F(Hostile, ATimedRunHasALimitOfItsOwn) {
  WorkerOptions roomy = options();  // cold runs go through twice the cache
  roomy.limits.memory_bytes = 0;
  // A worker of its own: the implementation counts the runs of all tests before.
  plugin_ = std::make_unique<Plugin>(ATTEST_BINARY_DIR "/tests/plugins/hostile.so", roomy);
  const auto start = Clock::now();
  // No relations: repetition runs a plan 50 times before anything is timed.
  const RunOptions often{.limits = {.budget_s = 0.5}, .relations = RelationChoice::kNone};
  const Record record = testing::run_named(*plugin_, "hostile_hangs_later", kSpec, often);
  EXPECT_EQ(record.outcome.code, ReasonCode::kTimeoutRun);
  EXPECT_THAT(record.outcome.reason, HasSubstr("was in timed run "));
  EXPECT_LT(seconds_since(start), 30);
  SetUpTestSuite();
}

std::vector<pid_t> read_pids(const fs::path& path) {
  std::ifstream file(path);
  std::vector<pid_t> pids;
  for (pid_t pid = 0; file >> pid;) pids.push_back(pid);
  return pids;
}

TEST_F(Hostile, NoProcessStaysBehind) {
  const fs::path path =
      fs::path(::testing::TempDir()) / ("attest_hostile_" + std::to_string(getpid()));
  setenv("ATTEST_HOSTILE_PIDS", path.c_str(), 1);
  plugin_ = std::make_unique<Plugin>(ATTEST_BINARY_DIR "/tests/plugins/hostile.so", options());
  EXPECT_EQ(run("hostile_forks").outcome.code, ReasonCode::kFailChildren);
  EXPECT_EQ(run("hostile_daemon").outcome.code, ReasonCode::kFailChildren);
  EXPECT_EQ(run("hostile_forks_and_dies").outcome.code, ReasonCode::kCrashSignal);
  EXPECT_EQ(run("hostile_none").outcome.verdict(), Verdict::kPass);
  unsetenv("ATTEST_HOSTILE_PIDS");
  const std::vector<pid_t> pids = read_pids(path);
  EXPECT_GE(pids.size(), 2u);
  for (const pid_t pid : pids) EXPECT_NE(kill(pid, 0), 0) << pid << " lives on";
  fs::remove(path);
}

}  // namespace
}  // namespace attest::core
