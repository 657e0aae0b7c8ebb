// Timed runs are honest work: who does less while it is timed is caught, and who does the work
// passes.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "core/problem/spec.hpp"
#include "core/run/runner.hpp"
#include "testing/named.hpp"

namespace attest::core {
namespace {

using ::testing::AnyOf;
using ::testing::HasSubstr;

constexpr const char* kShort =
    "softmax num_heads=2 seq_len_q=61 head_dim=16";                   // some 0.2 ms a run_cheat
constexpr const char* kLonger = "softmax seq_len_q=515 head_dim=32";  // some 10 ms
constexpr const char* kSlow = "softmax seq_len_q=1531 head_dim=64";   // 55 to 180 ms
constexpr double kBudget_s = 0.3;  // enough for a golden of changed inputs on a busy machine
constexpr double kSmallBudget_s = 0.02;

Record run_cheat(const std::string& name, const std::string& spec, double budget_s = kBudget_s) {
  Plugin plugin(
      ATTEST_BINARY_DIR "/tests/plugins/cheats.so",
      {.executable = find_worker(), .cpus = "", .limits = {.threads = 1, .timeout_s = 60}});
  RunOptions options;
  options.limits.budget_s = budget_s;
  options.relations = RelationChoice::kNone;  // these are seen by comparing runs too
  return testing::run_named(plugin, name, spec, options);
}

struct Cheat {
  const char *name, *spec;
  double budget_s = kBudget_s;
};
void PrintTo(const Cheat& cheat, std::ostream* out) { *out << cheat.name << " on " << cheat.spec; }

class Cheats : public ::testing::TestWithParam<Cheat> {};

// What is checked is chosen at random, and a cheat that looks at a few inputs may see the change:
// one timing in fifty misses it.
TEST_P(Cheats, AreCaught) {
  Record record;
  for (int tries = 0; tries < 4 && record.outcome.verdict() != Verdict::kFail; ++tries) {
    record = run_cheat(GetParam().name, GetParam().spec, GetParam().budget_s);
    ASSERT_GE(record.fills.size(), 2u) << record.outcome.reason;
    for (const FillRecord& fill : record.fills)
      ASSERT_EQ(fill.judgement.outcome.verdict(), Verdict::kPass)
          << "caught before it was timed: " << fill.fill << " " << fill.judgement.outcome.reason;
  }
  EXPECT_THAT(record.outcome.code, AnyOf(ReasonCode::kFailStaleOutput, ReasonCode::kFailLateOutput))
      << record.outcome.reason;
  EXPECT_EQ(record.outcome.code == ReasonCode::kFailLateOutput,
            std::string(GetParam().name) == "cheat_thread")
      << record.outcome.reason;
  EXPECT_FALSE(record.time) << "a number that must not be quoted";
}

INSTANTIATE_TEST_SUITE_P(
    Brief, Cheats,
    ::testing::Values(Cheat{"cheat_pointer", kShort}, Cheat{"cheat_shape", kShort},
                      Cheat{"cheat_create", kShort}, Cheat{"cheat_stale", kShort},
                      Cheat{"cheat_alternate", kShort}, Cheat{"cheat_thread", kShort},
                      Cheat{"cheat_some_inputs", kShort}, Cheat{"cheat_known_inputs", kShort}),
    [](const auto& each) { return std::string(each.param.name).substr(6); });
INSTANTIATE_TEST_SUITE_P(Longer, Cheats,
                         ::testing::Values(Cheat{"cheat_pointer", kLonger},
                                           Cheat{"cheat_stale", kLonger},
                                           Cheat{"cheat_alternate", kLonger},
                                           Cheat{"cheat_slow", kShort}),
                         [](const auto& each) { return std::string(each.param.name).substr(6); });
// These are timed twice, with the same inputs.
INSTANTIATE_TEST_SUITE_P(Slow, Cheats,
                         ::testing::Values(Cheat{"cheat_pointer", kSlow, kSmallBudget_s},
                                           Cheat{"cheat_shape", kSlow, kSmallBudget_s},
                                           Cheat{"cheat_stale", kSlow, kSmallBudget_s},
                                           Cheat{"cheat_alternate", kSlow, kSmallBudget_s}),
                         [](const auto& each) { return std::string(each.param.name).substr(6); });

// The inode of this process's flush file; 0: it has none.
ino_t flush_file_inode() {
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code gone;
    struct stat facts{};
    if (read_symlink(entry.path(), gone).string().find("attest-flush") != std::string::npos &&
        stat(entry.path().c_str(), &facts) == 0)
      return facts.st_ino;
  }
  return 0;
}

// Whether the process has mapped a file with this inode, and cannot write to it.
bool maps_readable(const std::filesystem::path& process, ino_t inode) {
  std::ifstream maps(process / "maps");
  for (std::string line; std::getline(maps, line);)
    if (line.find(" r--s ") != std::string::npos &&
        line.find(fmt::format(" {} ", inode)) != std::string::npos)
      return true;
  return false;
}

TEST(TimedRuns, EmptyCachesWithTheFlushFileOfTheHarness) {
  Plugin plugin(
      ATTEST_BINARY_DIR "/tests/plugins/cheats.so",
      {.executable = find_worker(), .cpus = "", .limits = {.threads = 1, .timeout_s = 60}});
  RunOptions options;
  options.limits.budget_s = 0.1;
  options.relations = RelationChoice::kNone;
  const Record record = testing::run_named(plugin, "cheat_none", kShort, options);
  ASSERT_TRUE(record.time) << record.outcome.reason;
  EXPECT_FALSE(record.time->cold_samples_ns.empty());
  const ino_t inode = flush_file_inode();
  ASSERT_NE(inode, 0u);
  int workers = 0;
  for (const auto& entry : std::filesystem::directory_iterator("/proc"))
    workers += maps_readable(entry.path(), inode);
  EXPECT_EQ(workers, 1);
}

// To empty large caches takes longer than a small budget. Slow runs are not warmed up, and their
// last sample is audited.
TEST(TimedRuns, InASmallBudgetAreFewAndNeverCold) {
  Plugin plugin(
      ATTEST_BINARY_DIR "/tests/plugins/cheats.so",
      {.executable = find_worker(), .cpus = "", .limits = {.threads = 1, .timeout_s = 60}});
  RunOptions options;
  options.limits.budget_s = kSmallBudget_s;
  options.relations = RelationChoice::kNone;
  const Record brief = testing::run_named(plugin, "cheat_none", kShort, options);
  ASSERT_TRUE(brief.time) << brief.outcome.reason;
  EXPECT_THAT(brief.time->cold_samples_ns, ::testing::IsEmpty());
  EXPECT_GT(brief.time->warmup_ns, 0);
  const Record slow = testing::run_named(plugin, "cheat_none", kSlow, options);
  ASSERT_TRUE(slow.time) << slow.outcome.reason;
  EXPECT_GT(slow.time->min_ns, 25e6) << "such a run is not slow";
  EXPECT_EQ(slow.time->samples_ns.size(), 2u);
  EXPECT_EQ(slow.time->warmup_ns, 0);
  EXPECT_EQ(slow.time->audited_runs, 2);
}

// An implementation that multiplies one number. Many runs share one reading of the clock, and a
// change of an input between two runs costs little, so that less than 100 ns a run are attest's.
TEST(TimedRuns, HaveNextToNothingOfAttestInTheirTimes) {
  Plugin plugin(
      ATTEST_BINARY_DIR "/tests/plugins/scale.so",
      {.executable = find_worker(), .cpus = "", .limits = {.threads = 1, .timeout_s = 60}});
  RunOptions options;
  options.limits.budget_s = 0.1;
  options.relations = RelationChoice::kNone;
  const Record record = testing::run_named(plugin, "scale_right", "scale rows=1 width=1", options);
  ASSERT_TRUE(record.time) << record.outcome.reason;
  EXPECT_LT(record.time->median_ns, 100);
  EXPECT_GT(record.time->min_ns, 0);
  EXPECT_GT(record.time->iterations_per_sample, 1000);
}

TEST(TimedRuns, PassForWhoDoesTheWork) {
  for (const char* spec : {kShort, kLonger}) {
    const Record record = run_cheat("cheat_none", spec);
    EXPECT_EQ(record.outcome.verdict(), Verdict::kPass) << record.outcome.reason;
    ASSERT_TRUE(record.time);
    EXPECT_GE(record.time->audited_runs.value_or(0), 2);
    EXPECT_EQ(record.time->audit_seed.value_or("").size(), 16u);
    ASSERT_TRUE(record.time->usage);
    EXPECT_NE(record.time->usage->migrations.has_value(),
              !record.time->usage->no_migrations.empty());
  }
}

// The inputs change from run_cheat to run_cheat, so that keeping results by all of them gains
// nothing: this one gives itself away if it does.
TEST(TimedRuns, NeverHaveInputsThatWereSeenBefore) {
  const Record record = run_cheat("cheat_all_inputs", kShort);
  EXPECT_EQ(record.outcome.verdict(), Verdict::kPass) << record.outcome.reason;
}

TEST(TimedRuns, AreCheckedAtOtherMomentsEachTime) {
  EXPECT_NE(run_cheat("cheat_none", kShort).time.value().audit_seed,
            run_cheat("cheat_none", kShort).time.value().audit_seed);
}

}  // namespace
}  // namespace attest::core
