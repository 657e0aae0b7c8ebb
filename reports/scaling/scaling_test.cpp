// What is said of records of sweeps: exponents, crossovers, largest sizes, threads, findings.
#include "reports/scaling/scaling.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "core/tensor/random.hpp"
#include "reports/scaling/scaling_json.hpp"
#include "reports/scaling/scaling_tables.hpp"
#include "reports/scaling/scaling_text.hpp"

namespace attest::reports {
namespace {

using core::LargestSize;
using core::PowerLaw;
using core::Record;
using ::testing::HasSubstr;
using ::testing::Not;
using How = LargestSize::How;

struct Kernel {
  std::string impl;
  double time_factor = 1, time_exponent = 2;  // ns
  double launch_ns = 1000;
  double own_factor = 1000, own_exponent = 0;              // bytes, measured
  double workspace_factor = 1000, workspace_exponent = 0;  // bytes, declared
};

Record record_of(const Kernel& kernel, int64_t value, int32_t threads = 1) {
  const auto size = double(std::max<int64_t>(value, 1));
  Record record;
  record.case_name = "dense/seq_len_q=" + std::to_string(value);
  record.dtype = "f32";
  record.impl = kernel.impl;
  record.threads = threads;
  record.sweep =
      core::SweepPoint{"dense", value == 0 ? "" : "seq_len_q", value, 5e7, uint64_t{64} << 20};
  record.outcome = {};
  const double ns =
      kernel.launch_ns +
      (value == 0 ? 0 : kernel.time_factor * std::pow(size, kernel.time_exponent) / threads);
  record.time = core::TimeRecord{.samples_ns = {ns, ns},
                                 .median_ns = ns,
                                 .median_low_ns = 0.99 * ns,
                                 .median_high_ns = 1.01 * ns};
  record.memory.tensor_bytes = 2048 * size;
  record.memory.peak_bytes = uint64_t(kernel.own_factor * std::pow(size, kernel.own_exponent));
  record.memory.workspace_bytes =
      uint64_t(kernel.workspace_factor * std::pow(size, kernel.workspace_exponent));
  return record;
}

const std::vector<int64_t> kValues{0, 1024, 2048, 4096, 8192, 16384};

std::vector<Record> records_of(const std::vector<Kernel>& kernels, int32_t threads = 1) {
  std::vector<Record> all;
  for (const int64_t value : kValues)
    for (const Kernel& kernel : kernels) all.push_back(record_of(kernel, value, threads));
  return all;
}

const Kernel kFlash{.impl = "flash"},
    kNaive{.impl = "naive",
           .time_factor = 0.01,
           .time_exponent = 2.5,
           .own_factor = 4,
           .own_exponent = 2,
           .workspace_factor = 4,
           .workspace_exponent = 2},
    kLinear{.impl = "linear", .time_factor = 3000, .time_exponent = 1};

void skip(Record& record, const std::string& why) {
  record.outcome = {core::ReasonCode::kSkippedTime, why};
  record.time.reset();
  record.memory.peak_bytes.reset();
}

TEST(Scaling, FitsTimeAndMemory) {
  const Scaling scaling = scaling_of(records_of({kFlash, kNaive}));
  ASSERT_EQ(scaling.sweeps.size(), 1u);
  ASSERT_EQ(scaling.sweeps[0].series.size(), 2u);
  const ScalingSeries &flash = scaling.sweeps[0].series[0], &naive = scaling.sweeps[0].series[1];
  EXPECT_EQ(flash.launch_ns, 1000);
  EXPECT_NEAR(flash.laws.time.exponent, 2, 0.01);
  EXPECT_EQ(flash.laws.time.from, 1024);
  EXPECT_NEAR(flash.laws.memory.exponent, 1, 0.01) << "tensors";
  EXPECT_FALSE(flash.laws.own_memory.fitted()) << "nothing beyond what the smallest problem takes";
  EXPECT_NEAR(naive.laws.own_memory.exponent, 2, 0.01);
  EXPECT_NEAR(naive.laws.workspace.exponent, 2, 0.01);
  EXPECT_TRUE(naive.finding.empty());
}

TEST(Scaling, LaunchCostsAreLeftOut) {
  Kernel kernel = kFlash;
  kernel.launch_ns = 2e6;  // time is above ten times that from 8192 on
  const Scaling scaling = scaling_of(records_of({kernel}));
  EXPECT_EQ(scaling.sweeps[0].series[0].laws.time.from, 8192);
  EXPECT_FALSE(scaling.sweeps[0].series[0].laws.time.fitted());
}

TEST(Scaling, FindsCrossoversBetweenMeasuredSizes) {
  const Scaling scaling = scaling_of(records_of({kFlash, kLinear}));
  ASSERT_EQ(scaling.pairs.size(), 1u);
  ASSERT_EQ(scaling.pairs[0].found.crossings.size(), 1u);
  EXPECT_EQ(scaling.pairs[0].found.crossings[0].last, 2048);
  EXPECT_EQ(scaling.pairs[0].found.crossings[0].first, 4096);
  EXPECT_THAT(print_scaling(scaling), HasSubstr("flash is faster up to 2048, linear from 4096 on"));
}

// Linear attention is another sweep than dense attention.
TEST(Scaling, SweepsOverTheSameFieldAreCompared) {
  std::vector<Record> all = records_of({kFlash});
  for (Record record : records_of({kLinear})) {
    record.sweep->sweep = "linear";
    all.push_back(record);
  }
  const Scaling scaling = scaling_of(all);
  ASSERT_EQ(scaling.pairs.size(), 1u);
  EXPECT_THAT(print_scaling(scaling),
              HasSubstr("dense/flash is faster up to 2048, linear/linear from 4096 on"));
  for (Record& record : all)
    if (record.impl == "linear") record.sweep->over = record.sweep->over.empty() ? "" : "batch";
  EXPECT_TRUE(scaling_of(all).pairs.empty());
}

TEST(Scaling, FindsTheLargestSizesWithinBudgets) {
  const Scaling scaling = scaling_of(records_of({kFlash, kLinear}));
  const ScalingSeries &flash = scaling.sweeps[0].series[0], &linear = scaling.sweeps[0].series[1];
  EXPECT_EQ(flash.within_deadline.how, How::kBetween);  // 50 ms: sqrt(5e7) = 7071
  EXPECT_EQ(flash.within_deadline.low, 4096);
  EXPECT_EQ(flash.within_deadline.high, 8192);
  EXPECT_NEAR(flash.within_deadline.size, 7071, 10);
  EXPECT_EQ(linear.within_deadline.how, How::kExtrapolated);  // 3 us a token
  EXPECT_NEAR(linear.within_deadline.size, 5e7 / 3000, 200);
  EXPECT_EQ(flash.within_memory.how, How::kExtrapolated);  // 2 KiB a token
  const std::string text = print_scaling(scaling);
  EXPECT_THAT(text, HasSubstr("in 50.0 ms"));
  EXPECT_THAT(text, HasSubstr("7071 [4096 8192]"));
  EXPECT_THAT(text, HasSubstr("~16700 ["));
  EXPECT_THAT(text, HasSubstr("in 64.0 MiB"));
}

TEST(Scaling, MemoryThatNobodyDeclaredIsAFinding) {
  Kernel hides = kNaive, wastes = kFlash;
  hides.impl = "hides";
  hides.workspace_factor = 0;
  wastes.impl = "wastes";
  wastes.workspace_factor = 64;
  wastes.workspace_exponent = 2;
  const Scaling scaling = scaling_of(records_of({kFlash, kNaive, hides, wastes}));
  const std::vector<ScalingSeries>& series = scaling.sweeps[0].series;
  EXPECT_EQ(series[0].finding, "");
  EXPECT_EQ(series[1].finding, "");
  EXPECT_THAT(series[2].finding,
              HasSubstr("grows with exponent 2.00 to 1.00 GiB, declared workspace with exponent "
                        "0.00 to 0 (at 16384)"));
  EXPECT_THAT(series[3].finding, HasSubstr("declared workspace with exponent 2.00"));
  EXPECT_THAT(print_scaling(scaling), HasSubstr("findings\n  dense f32 over seq_len_q, 1 thread: "
                                                "hides: "));
}

TEST(Scaling, AConstantDifferenceIsNoFinding) {
  Kernel kernel = kNaive;
  kernel.workspace_factor = 4.1;  // 2.5 % more than it touches
  EXPECT_EQ(scaling_of(records_of({kernel})).sweeps[0].series[0].finding, "");
}

TEST(Scaling, EfficiencyIsOfTheLargestSizeThatAllThreadsHave) {
  Kernel kernel = kFlash;
  kernel.launch_ns = 0;
  std::vector<Record> all = records_of({kernel}, 1);
  for (const Record& record : records_of({kernel}, 4)) all.push_back(record);
  skip(all[5], "too slow");  // 16384 with one thread
  const Scaling scaling = scaling_of(all);
  EXPECT_EQ(scaling.sweeps.size(), 2u);
  ASSERT_EQ(scaling.strong.size(), 1u);
  const StrongScaling& strong = scaling.strong[0];
  EXPECT_EQ(strong.value, 8192);
  ASSERT_EQ(strong.steps.size(), 2u);
  EXPECT_NEAR(strong.steps[1].speedup, 4, 1e-9);
  EXPECT_NEAR(strong.steps[1].efficiency, 1, 1e-9);
  EXPECT_LT(strong.steps[1].efficiency_low, 1);
  EXPECT_GT(strong.steps[1].efficiency_high, 1);
  EXPECT_TRUE(scaling.pairs.empty()) << "times with other threads are no rivals";
  EXPECT_THAT(print_scaling(scaling), HasSubstr("4 threads 16.8 ms (speedup 4.00, efficiency 1.00 "
                                                "[0.98 1.02])"));
}

TEST(Scaling, SizesWithoutATimeSayWhy) {
  std::vector<Record> all = records_of({kFlash, kNaive});
  skip(all[9], "275 GFLOP take 7 s a run");
  skip(all[11], "1.1 TFLOP take 28 s a run");
  Record unsupported = all[2];
  unsupported.impl = "window";
  unsupported.time.reset();
  unsupported.outcome = {core::ReasonCode::kUnsupportedQuery, "no window"};
  all.push_back(unsupported);
  const Scaling scaling = scaling_of(all);
  const std::string text = print_scaling(scaling);
  EXPECT_THAT(text, HasSubstr("naive at 8192 and above: skipped: 275 GFLOP take 7 s a run\n"));
  EXPECT_THAT(text, Not(HasSubstr("28 s a run")));
  EXPECT_THAT(text, HasSubstr("window at 1024: unsupported: no window\n"));
  EXPECT_THAT(text.substr(0, text.find("(smallest)")), Not(HasSubstr("window")));
}

TEST(Scaling, APointThatWasMeasuredAgainCountsOnce) {
  std::vector<Record> all = records_of({kFlash});
  Record again = all[3];
  again.time->median_ns *= 2;
  all.push_back(again);
  Record worse = all[4];
  skip(worse, "no time left");
  all.push_back(worse);
  const ScalingSeries series = scaling_of(all).sweeps[0].series[0];
  ASSERT_EQ(series.points.size(), 5u);
  EXPECT_EQ(series.points[2].time_ns->value, again.time->median_ns);
  EXPECT_TRUE(series.points[3].time_ns) << "a time is not replaced by none";
}

TEST(Scaling, GapsAreWhereMoreIsToBeKnown) {
  // A crossover between 2048 and 4096.
  const auto crossing = gaps(scaling_of(records_of({kFlash, kLinear})), 1.35);
  ASSERT_EQ(crossing.size(), 1u);
  EXPECT_EQ(crossing[0].low, 2048);
  EXPECT_EQ(crossing[0].high, 4096);
  EXPECT_TRUE(gaps(scaling_of(records_of({kFlash, kLinear})), 2.5).empty());
  // Scattered times make every gap loose.
  std::vector<Record> scattered = records_of({kFlash});
  for (size_t i = 0; i < scattered.size(); i += 2) scattered[i].time->median_ns *= 1.4;
  EXPECT_EQ(gaps(scaling_of(scattered), 1.35).size(), 4u);
  // Nothing beyond the last time.
  skip(scattered[4], "");
  skip(scattered[5], "");
  EXPECT_EQ(gaps(scaling_of(scattered), 1.35).size(), 2u);
}

TEST(Scaling, FewPointsAreDoubled) {
  std::vector<Record> all;
  for (const int64_t value : {0, 1024, 4096}) all.push_back(record_of(kFlash, value));
  EXPECT_EQ(gaps(scaling_of(all), 1.35).size(), 1u);
}

TEST(Scaling, JsonHasWhatIsPrinted) {
  const nlohmann::json written = to_json(scaling_of(records_of({kFlash, kLinear})));
  EXPECT_EQ(written["type"], "scaling");
  const nlohmann::json& series = written["sweeps"][0]["series"][0];
  EXPECT_NEAR(series["time"]["exponent"].get<double>(), 2, 0.01);
  EXPECT_EQ(series["within_deadline"]["how"], "between");
  EXPECT_EQ(series["points"].size(), 5u);
  EXPECT_EQ(written["pairs"][0]["crossings"][0]["faster_before"], "flash");
}

TEST(Scaling, TablesSayWhatWasExtrapolated) {
  Kernel hides = kNaive;
  hides.impl = "hides";
  hides.workspace_factor = 0;
  const std::vector<ScalingTable> tables =
      scaling_tables({.records = records_of({kFlash, kLinear, hides})});
  ASSERT_EQ(tables.size(), 3u);
  EXPECT_EQ(tables[0].title, "Scaling of dense f32 over seq_len_q, 1 thread");
  for (const ScalingTable& table : tables)
    for (const auto& row : table.rows) EXPECT_EQ(row.size(), table.columns.size());
  const auto cell = [&](const std::string& column, const std::string& impl) -> std::string {
    const auto at = std::ranges::find(tables[0].columns, column);
    if (at == tables[0].columns.end()) return "no such column";
    for (const auto& row : tables[0].rows)
      if (row[0] == impl) return row[size_t(at - tables[0].columns.begin())];
    return "no such row";
  };
  EXPECT_THAT(cell("time grows as", "flash"), HasSubstr("n^2.00 ["));
  EXPECT_EQ(cell("from seq_len_q", "flash"), "1024");
  EXPECT_EQ(cell("largest seq_len_q in 50.0 ms", "flash"), "7071 [4096 8192]");
  EXPECT_THAT(cell("largest seq_len_q in 50.0 ms", "linear"),
              ::testing::MatchesRegex("167.. .*, extrapolated"));
  EXPECT_EQ(tables[1].title, "Crossovers");
  EXPECT_EQ(tables[1].rows[0][1], "flash is faster up to 2048, linear from 4096 on");
  EXPECT_EQ(tables[2].title, "Findings about memory");
  EXPECT_EQ(tables[2].rows.size(), 1u);
  EXPECT_TRUE(scaling_tables({}).empty());
}

/// Records as a machine makes them: noise in every time, now and then a launch that is 1.3 times as
/// slow, and the cost of a launch in each time.
std::vector<Record> noisy_records(const std::vector<Kernel>& kernels, uint64_t seed) {
  std::vector<Record> all;
  uint64_t next = 0;
  for (const Kernel& kernel : kernels)
    for (const int64_t value : {0, 256, 512, 1024, 2048, 4096, 8192, 16384}) {
      Record record = record_of(kernel, value);
      const double noise = 0.015 * double(core::random_normal(seed, next++)),
                   slow = core::random_uniform(seed, next++) < 0.05 ? 1.3 : 1;
      core::TimeRecord& time = *record.time;
      for (double* ns : {&time.median_ns, &time.median_low_ns, &time.median_high_ns})
        *ns *= std::exp(noise) * slow;
      all.push_back(std::move(record));
    }
  return all;
}

// The true times are 10 us + 1.0 ns n^2 and 10 us + 3 us n, which are equal at 3000.
TEST(Scaling, IsRightOnASimulatedMachine) {
  Kernel flash = kFlash, linear = kLinear;
  flash.launch_ns = linear.launch_ns = 1e4;
  const int trials = 1000;
  int flash_held = 0, linear_held = 0, one_crossing = 0, wrong_crossings = 0;
  for (int trial = 0; trial < trials; ++trial) {
    const Scaling scaling = scaling_of(noisy_records({flash, linear}, uint64_t(trial) + 1));
    const PowerLaw &square = scaling.sweeps[0].series[0].laws.time,
                   &line = scaling.sweeps[0].series[1].laws.time;
    ASSERT_TRUE(square.fitted() && line.fitted());
    EXPECT_GE(square.from, 256);
    EXPECT_LE(square.from, 1024) << "below, the launch cost is more than a tenth";
    flash_held += square.low <= 2 && 2 <= square.high;
    linear_held += line.low <= 1 && 1 <= line.high;
    const auto& crossings = scaling.pairs[0].found.crossings;
    one_crossing += crossings.size() == 1;
    for (const core::Crossing& crossing : crossings)
      wrong_crossings += crossing.last > 3000 || crossing.first < 3000;
  }
  // What is left of the launch cost makes the slopes a little flatter than the true ones.
  EXPECT_GE(flash_held, 0.93 * trials);
  EXPECT_GE(linear_held, 0.90 * trials);
  EXPECT_GE(one_crossing, 0.97 * trials);
  EXPECT_LE(wrong_crossings, 0.03 * trials);
}

// Two implementations that are equal, on a machine whose launches differ by 20 %: without a look at
// how times scatter around their laws, nearly every trial would have a crossover.
TEST(Scaling, LaunchesThatDifferMakeNoCrossovers) {
  int with_crossings = 0;
  for (uint64_t trial = 1; trial <= 300; ++trial) {
    Kernel one = kFlash, other = kFlash;
    other.impl = "other";
    std::vector<Record> all;
    uint64_t next = 0;
    for (const Kernel& kernel : {one, other})
      for (const int64_t value : {0, 256, 512, 1024, 2048, 4096, 8192, 16384}) {
        Record record = record_of(kernel, value);
        const double factor = std::exp(0.2 * double(core::random_normal(trial, next++)));
        core::TimeRecord& time = *record.time;
        for (double* ns : {&time.median_ns, &time.median_low_ns, &time.median_high_ns})
          *ns *= factor;
        all.push_back(std::move(record));
      }
    with_crossings += !scaling_of(all).pairs[0].found.crossings.empty();
  }
  EXPECT_LE(with_crossings, 0.05 * 300);
}

TEST(Scaling, OtherRecordsAreNone) {
  Record record = record_of(kFlash, 1024);
  record.sweep.reset();
  EXPECT_TRUE(scaling_of({record}).sweeps.empty());
  EXPECT_THAT(print_scaling(scaling_of({record})), HasSubstr("no record is of a sweep"));
}

}  // namespace
}  // namespace attest::reports
