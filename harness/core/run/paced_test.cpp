// Frames by a clock: a slow run delays those behind it, neighbours work meanwhile, and who does
// less while paced is caught. Energy of runs by the sensors that there are.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/problem/spec.hpp"
#include "core/run/runner.hpp"
#include "testing/named.hpp"

namespace attest::core {
namespace {

using ::testing::Each;
using ::testing::Gt;
using ::testing::HasSubstr;
using ::testing::SizeIs;

constexpr const char* kSpec = "softmax num_heads=2 seq_len_q=61 head_dim=16";
constexpr double kPeriod_ns = 50e6;

Record run_paced(const std::string& name, const PaceOptions& pace, bool energy = false) {
  Plugin plugin(
      ATTEST_BINARY_DIR "/tests/plugins/cheats.so",
      {.executable = find_worker(), .cpus = "", .limits = {.threads = 1, .timeout_s = 60}});
  RunOptions options;
  options.relations = RelationChoice::kNone;
  options.timed = false;
  if (pace.period_ns > 0) options.pace = pace;
  options.energy = energy;
  return testing::run_named(plugin, name, kSpec, options);
}

TEST(Paced, EveryFrameCountsFromItsArrival) {
  const Record record = run_paced("cheat_none", {.period_ns = kPeriod_ns, .window_ns = 1e9});
  ASSERT_TRUE(record.outcome.passes()) << record.outcome.reason;
  ASSERT_TRUE(record.paced);
  const PhaseRecord& alone = record.paced->alone;
  EXPECT_EQ(record.paced->period_ns, kPeriod_ns);
  EXPECT_THAT(alone.latency_ns, SizeIs(20));
  EXPECT_THAT(alone.processing_time_ns, Each(Gt(0)));
  for (size_t i = 0; i < alone.latency_ns.size(); ++i)
    EXPECT_GE(alone.latency_ns[i], alone.processing_time_ns[i]) << i;
  ASSERT_EQ(alone.policies.size(), 2u);
  EXPECT_EQ(alone.policies[0].policy, "queue-all");
  EXPECT_EQ(alone.policies[0].frames, 20);
  EXPECT_EQ(alone.policies[1].policy, "latest-only");
  EXPECT_FALSE(alone.policies[0].percentiles.back().claimed_ns) << "20 frames show no p99.9";
  EXPECT_EQ(alone.missed_by_hz.count("12"), 1u);
  EXPECT_FALSE(record.paced->contended);
}

TEST(Paced, ASlowFrameDelaysThoseBehindIt) {
  const Record record = run_paced("cheat_hiccup", {.period_ns = kPeriod_ns, .window_ns = 1e9});
  ASSERT_TRUE(record.paced) << record.outcome.reason;
  const PhaseRecord& alone = record.paced->alone;
  // The first run comes before the frames, so the sixth is frame 4: it takes 0.2 s, and the frames
  // that arrive after 50, 100 and 150 ms wait for its end.
  EXPECT_GT(alone.processing_time_ns[4], 0.2e9);
  EXPECT_GT(alone.latency_ns[5], 0.15e9);
  EXPECT_GT(alone.latency_ns[6], 0.1e9);
  EXPECT_GT(alone.latency_ns[7], 0.05e9);
  EXPECT_LT(alone.processing_time_ns[5], 0.1e9) << "its latency is the queue's, not its own";
  EXPECT_GE(alone.policies[0].missed, 4);
  EXPECT_EQ(alone.policies[0].dropped, 0);
  EXPECT_GE(alone.policies[1].dropped, 3) << "latest-only drops what has waited";
  EXPECT_GT(alone.policies[0].max_age_ns, 0.15e9);
}

// Ten frames at 100 Hz, the fifth of which takes 0.2 s: the series is cut then.
TEST(Paced, FramesThatNeverRanAreMissed) {
  const Record record = run_paced("cheat_hiccup", {.period_ns = 10e6, .window_ns = 0.1e9});
  ASSERT_TRUE(record.paced) << record.outcome.reason;
  const PhaseRecord& alone = record.paced->alone;
  const PolicyRecord &all = alone.policies[0], &latest = alone.policies[1];
  EXPECT_THAT(alone.latency_ns, SizeIs(5));
  EXPECT_EQ(all.frames, 10);
  EXPECT_EQ(all.never_ran, 5);
  EXPECT_GE(all.missed, 6) << "and the slow one";
  EXPECT_TRUE(all.percentiles.back().value_at_least);
  EXPECT_EQ(alone.missed_by_hz.at("10"), 1) << "of the five that ran";
  EXPECT_EQ(latest.never_ran, 0);
  EXPECT_EQ(latest.frames, 5 + latest.dropped);
}

// Without a number of frames, runs of a microsecond could tell of more moments than memory holds.
TEST(Paced, OfAnyNumberOfRunsTheFirstStartAndTheLastEndAreTold) {
  Plugin plugin(
      ATTEST_BINARY_DIR "/tests/plugins/cheats.so",
      {.executable = find_worker(), .cpus = "", .limits = {.threads = 1, .timeout_s = 60}});
  const Problem problem = parse_problem(kSpec);
  const SharedTensors inputs(problem, ATTEST_READ);
  problem.operation->fill(problem, {}, inputs.tensors(), false);
  SharedTensors outputs(problem, ATTEST_WRITE), differing(problem, ATTEST_WRITE);
  const PacedResult runs =
      plugin.pace(testing::named(plugin, "cheat_none"), problem,
                  {.inputs = inputs, .outputs = outputs, .differing = differing},
                  {.expected_ns = 1e5, .window_ns = 0.1e9});
  ASSERT_FALSE(runs.failure) << runs.failure->reason;
  EXPECT_GT(runs.runs, 1u);
  ASSERT_THAT(runs.starts_ns, SizeIs(1));
  ASSERT_THAT(runs.ends_ns, SizeIs(1));
  EXPECT_GT(runs.ends_ns[0] - runs.starts_ns[0], 0.09e9);
  EXPECT_EQ(plugin.take_calls_s(), 0) << "the whole request counts as paced, its plan too";
}

TEST(Paced, NeighboursWorkMeanwhile) {
  const Record record = run_paced(
      "cheat_none", {.period_ns = kPeriod_ns,
                     .window_ns = 0.5e9,
                     .neighbours = {parse_neighbours("compute:1"), parse_neighbours("same:1")}});
  ASSERT_TRUE(record.paced && record.paced->contended) << record.outcome.reason;
  const std::vector<NeighbourRecord>& neighbours = record.paced->contended->neighbours;
  ASSERT_EQ(neighbours.size(), 2u);
  EXPECT_EQ(neighbours[0].name, "compute:1");
  EXPECT_GT(neighbours[0].rate, 0);
  EXPECT_EQ(neighbours[1].name, "same:1");
  EXPECT_GT(neighbours[1].rate, 0);
  EXPECT_EQ(neighbours[1].remark, "");
  EXPECT_TRUE(record.paced->alone.neighbours.empty());
  EXPECT_GT(record.paced->slowdown.value_or(0), 0);
  EXPECT_EQ(record.paced->slowdown_share, 0.5) << "ten frames support no more";
}

// It dies in its 25th run: its frames are fewer, the runs of its neighbour are not.
TEST(Paced, ANeighbourThatDiesIsSaid) {
  const Record record = run_paced(
      "cheat_mortal",
      {.period_ns = kPeriod_ns, .window_ns = 0.8e9, .neighbours = {parse_neighbours("same:1")}});
  ASSERT_TRUE(record.paced && record.paced->contended) << record.outcome.reason;
  const std::vector<NeighbourRecord>& neighbours = record.paced->contended->neighbours;
  ASSERT_EQ(neighbours.size(), 1u);
  EXPECT_EQ(neighbours[0].rate, 0);
  EXPECT_THAT(neighbours[0].remark, HasSubstr("a process ended: SIGABRT"));
  EXPECT_THAT(record.paced->slowdown_refusal, HasSubstr("same:1: a process ended: SIGABRT"));
  EXPECT_FALSE(record.paced->slowdown) << "beside a neighbour that did not work";
}

class PacedCheats : public ::testing::TestWithParam<const char*> {};

// Some look at a few inputs and may see the change: one phase in some misses them.
TEST_P(PacedCheats, AreCaught) {
  Record record;
  for (int tries = 0; tries < 4 && record.outcome.verdict() != Verdict::kFail; ++tries)
    record = run_paced(GetParam(), {.period_ns = 5e6, .window_ns = 0.2e9});
  EXPECT_EQ(record.outcome.verdict(), Verdict::kFail) << record.outcome.reason;
  EXPECT_THAT(record.outcome.reason, HasSubstr("paced"));
  EXPECT_FALSE(record.paced) << "frames that must not be quoted";
}

INSTANTIATE_TEST_SUITE_P(All, PacedCheats,
                         ::testing::Values("cheat_shape", "cheat_stale", "cheat_alternate"),
                         [](const auto& each) { return std::string(each.param).substr(6); });

// What is measured depends on the machine; that a refusal is no figure does not.
TEST(Energy, IsOfEachSensorOrHasAReason) {
  const Record record = run_paced("cheat_none", {}, true);
  ASSERT_TRUE(record.outcome.passes()) << record.outcome.reason;
  ASSERT_TRUE(record.energy);
  for (const EnergyRecord& energy : *record.energy) {
    EXPECT_GT(energy.runs, 0);
    EXPECT_EQ(energy.refusal.empty(), !energy.method.empty()) << energy.sensor;
  }
}

TEST(Energy, IsMeasuredOnlyWhereAskedFor) { EXPECT_FALSE(run_paced("cheat_none", {}).energy); }

}  // namespace
}  // namespace attest::core
