// The printed comparison of implementations against what a person should read.
#include "reports/bench.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace attest::reports {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

core::Record timed(const std::string& impl, double median_ns, double half_width = 0.01) {
  core::Record r;
  r.case_name = "bench";
  r.spec = "softmax dtype=f32 seq_len_q=4096 head_dim=64";
  r.dtype = "f32";
  r.impl = impl;
  r.device = "cpu";
  r.outcome = {};
  r.flops = 4e9;
  r.min_bytes = 4 << 20;
  if (median_ns > 0)
    r.roofline =
        core::RooflineRecord{.share = 40e6 / median_ns, .limit = "f32 AVX3", .least_ns = 40e6};
  r.time = core::TimeRecord{.median_ns = median_ns,
                            .median_low_ns = median_ns * (1 - half_width),
                            .median_high_ns = median_ns * (1 + half_width),
                            .coverage = 0.96};
  r.memory.peak_bytes = 3 << 20;
  return r;
}

core::Record refused(const std::string& impl, core::ReasonCode code, const std::string& reason) {
  core::Record r = timed(impl, 0);
  r.outcome = {code, reason};
  r.time.reset();
  r.roofline.reset();
  return r;
}

core::Results probed(std::vector<core::Record> records) {
  core::Results all{.complete = true};
  all.header.environment["limits"] = {
      {"all_fma_gflops", "100"}, {"all_read_gbs", "20"}, {"threads", "2"}};
  all.records = std::move(records);
  return all;
}

TEST(Bench, IsReadable) {
  EXPECT_EQ(
      print_bench(
          probed({refused("linear_cpu", core::ReasonCode::kUnsupportedTable, "is for linear"),
                  refused("naive", core::ReasonCode::kSkippedMemory, "needs 57 GiB"),
                  timed("window_cpu", 70e6), timed("flash_cpu", 50e6)}),
          false),
      "softmax dtype=f32 seq_len_q=4096 head_dim=64: 4.00 GFLOP, 4.00 MiB of tensors\n"
      "                  verdict          time        interval         GFLOP/s    GB/s  roofline  "
      "limit                memory\n"
      "  flash_cpu       pass          50.0 ms   49.5 ms .. 50.5 ms       80.0    0.08       80%  "
      "f32 AVX3           3.00 MiB\n"
      "  window_cpu      pass          70.0 ms   69.3 ms .. 70.7 ms       57.1    0.06       57%  "
      "f32 AVX3           3.00 MiB\n"
      "  naive           skipped      needs 57 GiB\n"
      "do not take it:\n"
      "  linear_cpu      is for linear\n"
      "fastest that passes: flash_cpu, 1.4x as fast as the next, window_cpu\n"
      "\n"
      "interval: of the median, 95 %; GB/s: as if each tensor were moved once; memory: peak beyond "
      "the tensors\n"
      "roofline: the least time that the limits of this machine allow, as a share of the median; "
      "limit: which binds. Measured on 2 threads: 100 GFLOP/s of float32 multiply-adds, 20.0 GB/s "
      "of reads from memory\n");
}

TEST(Bench, NamesTheFastestOnlyWhereItIsKnown) {
  const auto said = [](std::vector<core::Record> records) {
    return print_bench(probed(std::move(records)), false);
  };
  EXPECT_THAT(said({timed("a", 50e6, 0.1), timed("b", 55e6, 0.1)}),
              HasSubstr("fastest that passes: a; b may be as fast, since the intervals of their "
                        "medians overlap\n"));
  EXPECT_THAT(said({timed("a", 50e6), timed("b", 52e6)}), HasSubstr("a, 1.04x as fast as"));
  EXPECT_THAT(said({timed("a", 1e6), timed("b", 52e6)}), HasSubstr("a, 52x as fast as"));
  EXPECT_THAT(said({timed("a", 50e6)}), HasSubstr("only a passes\n"));
  // Times of what fails do not count.
  core::Record failed = timed("wrong", 1e6);
  failed.outcome = {core::ReasonCode::kFailTolerance, "is wrong"};
  failed.repro = "attest repro --impl wrong";
  EXPECT_THAT(
      said({failed, timed("a", 50e6)}),
      ::testing::AllOf(HasSubstr("only a passes\n"), HasSubstr("attest repro --impl wrong")));
  EXPECT_THAT(said({failed}), HasSubstr("none passes\n"));
  EXPECT_THAT(said({refused("a", core::ReasonCode::kSkippedTime, "slow")}),
              HasSubstr("none was run\n"));
  core::Record untimed = timed("a", 1);
  untimed.time.reset();
  EXPECT_THAT(said({untimed}), HasSubstr("those that pass were not timed\n"));
}

TEST(Bench, MarksIntervalsOfFewSamples) {
  core::Record few = timed("a", 50e6);
  few.time->coverage = 0.5;
  const std::string text = print_bench(probed({few, timed("b", 60e6)}), false);
  EXPECT_THAT(text, HasSubstr("49.5 ms .. 50.5 ms* "));
  EXPECT_THAT(text, HasSubstr("59.4 ms .. 60.6 ms  "));
  EXPECT_THAT(text, HasSubstr("95 % (*: too few samples for that; from least to largest);"));
}

TEST(Bench, HasABlockForEachDtype) {
  core::Record half = timed("a", 70e6);
  half.dtype = "f16";
  half.spec = "softmax dtype=f16 seq_len_q=4096 head_dim=64";
  const std::string text = print_bench(probed({timed("a", 50e6), half, timed("b", 60e6)}), false);
  EXPECT_THAT(text, HasSubstr("a, 1.2x as fast as the next, b\n\nsoftmax dtype=f16 "));
  EXPECT_THAT(text, HasSubstr("only a passes\n"));
}

TEST(Bench, SaysWhoseLimitsARooflineHas) {
  core::Record device = timed("on_device", 50e6);
  device.device = "cuda";
  const std::string gpu = print_bench(probed({device}), false),
                    both = print_bench(probed({device, timed("a", 60e6)}), false);
  EXPECT_THAT(gpu,
              HasSubstr("limit: which binds. A GPU's limits follow from its units and clocks\n"));
  EXPECT_THAT(gpu, Not(HasSubstr("Measured on")));
  EXPECT_THAT(both, HasSubstr("reads from memory. A GPU's limits"));
}

// The GPU may be of an unknown kind, and an old file has no limits.
TEST(Bench, HasARooflineOnlyWhereItIsKnown) {
  core::Record device = timed("on_device", 50e6);
  device.device = "cuda";
  device.roofline.reset();
  EXPECT_THAT(print_bench(probed({device}), false),
              AllOf(Not(HasSubstr("80%")), Not(HasSubstr("roofline:"))));
  core::Results old = probed({timed("a", 50e6)});
  old.header.environment.clear();
  old.records[0].roofline.reset();
  EXPECT_THAT(print_bench(old, false), Not(HasSubstr("roofline:")));
  EXPECT_THAT(print_bench(old, false), Not(HasSubstr("80%")));
}

TEST(Bench, ColumnsHoldLongNames) {
  const std::string name(30, 'x');
  const std::string text = print_bench(probed({timed(name, 50e6), timed("a", 60e6)}), false);
  EXPECT_THAT(text, HasSubstr("  " + name + "  pass        "));
  EXPECT_THAT(text, HasSubstr("  a" + std::string(29, ' ') + "  pass        "));
}

}  // namespace
}  // namespace attest::reports
