// Which limit binds, and that no limit is taken for a higher one.
#include "core/run/rooflines/roofline.hpp"

#include <gtest/gtest.h>

#include "core/run/rooflines/rooflines.hpp"

namespace attest::core {
namespace {

// A machine with two threads.
Probe probe() {
  Probe probe;
  probe.threads = 2;
  probe.arithmetic = {{"f32", "AVX3", {100, 200}},
                      {"f16", "AVX-512 FP16", {200, 400}},
                      {"bf16", "AVX-512 BF16", {200, 400}},
                      {"bf16", "AMX", {1000, 1900}}};
  probe.levels = {{"L1", 50'000, 100'000, {400, 800}, {}},
                  {"L2", 1'000'000, 2'000'000, {100, 200}, {}},
                  {"L3", 10'000'000, 10'000'000, {50, 80}, {}},
                  {"memory", 0, 0, {10, 15}, {}}};
  return probe;
}

Record record(double flops, double bytes, double median_ns = 1e6) {
  Record r;
  r.device = "cpu";
  r.dtype = "f32";
  r.threads = 2;
  r.arithmetic = "qk=f32,pv=f32,score=f32,prob=f32,acc=f32";
  r.flops = flops;
  r.min_bytes = bytes;
  r.time = TimeRecord{.median_ns = median_ns};
  return r;
}

TEST(Roofline, ArithmeticBindsWhereThereIsMuch) {
  const auto found = roofline_of(record(1e8, 1e5), probe());
  ASSERT_TRUE(found);
  EXPECT_EQ(found->limit, "f32 AVX3");
  EXPECT_DOUBLE_EQ(found->least_ns, 1e8 / 200);
  EXPECT_DOUBLE_EQ(found->share, 0.5);
  EXPECT_DOUBLE_EQ(found->flops_per_byte.value(), 1000);
}

TEST(Roofline, ReadingBindsFromWhereTheTensorsCanBe) {
  const auto limit = [](double bytes) { return roofline_of(record(1, bytes), probe())->limit; };
  EXPECT_EQ(limit(90'000), "L1 reads");
  EXPECT_EQ(limit(1'000'000), "L2 reads");
  EXPECT_EQ(limit(8'000'000), "L3 reads");
  EXPECT_EQ(limit(1e9), "memory reads");
  // 1 MB: the 900 kB that do not fit into L1 come from L2, at 200 GB/s.
  EXPECT_DOUBLE_EQ(roofline_of(record(1, 1'000'000), probe())->least_ns, 900'000 / 200.0);
}

TEST(Roofline, APeakIsThatOfADtypeThatTheImplementationMayUse) {
  const auto limit = [](const std::string& dtype, const std::string& arithmetic) {
    Record of = record(1e8, 1e5);
    of.dtype = dtype;
    of.arithmetic = arithmetic;
    return roofline_of(of, probe())->limit;
  };
  EXPECT_EQ(limit("f16", "qk=f32,acc=f32"), "f16 AVX-512 FP16");
  EXPECT_EQ(limit("bf16", "qk=f32,acc=f32"), "bf16 AMX");
  EXPECT_EQ(limit("f32", "qk=bf16,acc=f32,chain=64"), "bf16 AMX");
  EXPECT_EQ(limit("f32", ""), "f32 AVX3");
}

TEST(Roofline, FewerThreadsReachLess) {
  Record one = record(1e8, 1e5);
  one.threads = 1;
  EXPECT_DOUBLE_EQ(roofline_of(one, probe())->least_ns, 1e8 / 100);
  // 1.5 MB do not fit into the L2 of one CPU.
  one.flops = 1;
  one.min_bytes = 1'500'000;
  Probe slow = probe();
  slow.levels[2].read_gbs = {1, 2};
  EXPECT_EQ(roofline_of(one, slow)->limit, "L3 reads");
  one.threads = 2;
  EXPECT_EQ(roofline_of(one, slow)->limit, "L2 reads");
}

TEST(Roofline, WhereNotAllIsReadOnlyArithmeticBinds) {
  for (const char* features : {"WINDOW", "GQA+PAGES", "OWN(0)", "CAUSAL"}) {
    Record part = record(1e4, 1e9);
    part.features = features;
    const auto found = roofline_of(part, probe());
    ASSERT_TRUE(found);
    EXPECT_EQ(found->limit, "f32 AVX3") << features;
    EXPECT_FALSE(found->flops_per_byte) << features;
  }
  Record whole = record(1e4, 1e9);
  whole.features = "GQA+LSE";
  EXPECT_EQ(roofline_of(whole, probe())->limit, "memory reads");
}

TEST(Roofline, IsNotKnownOfEveryRecord) {
  Record blocks = record(1e8, 1e5);
  blocks.features = "LSE+BLOCK_MASK";
  EXPECT_FALSE(roofline_of(blocks, probe())) << "much of the work may be skipped";
  Record untimed = record(1e8, 1e5);
  untimed.time.reset();
  EXPECT_FALSE(roofline_of(untimed, probe()));
  EXPECT_FALSE(roofline_of(record(0, 0), probe()));
}

TEST(Rooflines, OfTheCpuAreByTheLimitsOfTheMachine) {
  Rooflines rooflines(2, probe);
  EXPECT_EQ(rooflines.machine().fma().gflops.all, 200);
  Record timed = record(1e8, 1e5), untimed = timed;
  rooflines.add(timed);
  ASSERT_TRUE(timed.roofline);
  EXPECT_DOUBLE_EQ(timed.roofline->share, 0.5);
  untimed.time.reset();
  rooflines.add(untimed);
  EXPECT_FALSE(untimed.roofline);
}

// Whoever counts too many flops, or measures too low a peak, is to see it.
TEST(Roofline, ATimeBelowTheLeastShows) {
  EXPECT_GT(roofline_of(record(1e8, 1e5, 4e5), probe())->share, 1);
}

}  // namespace
}  // namespace attest::core
