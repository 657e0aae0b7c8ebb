// The probe's loops do what they are counted for; its figures are related as they must be.
#include "core/measure/limits/probe.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "core/measure/limits/compute_units.hpp"
#include "core/measure/limits/probe_kernels.hpp"
#include "core/measure/machine/affinity.hpp"
#include "core/measure/machine/caches.hpp"
#include "core/measure/machine/files.hpp"
#include "core/tensor/stopwatch.hpp"

namespace attest::core {
namespace {

TEST(Probe, ReadsEveryVector) {
  const PageBuffer buffer(1 << 20);
  const uint32_t before = run_reads(buffer.data(), buffer.size());
  for (size_t at : {size_t{0}, size_t{64}, size_t{4096 + 192}, buffer.size() - 64}) {
    auto& word = reinterpret_cast<uint32_t&>(buffer.data()[at]);
    ++word;
    EXPECT_NE(run_reads(buffer.data(), buffer.size()), before) << at;
    --word;
  }
  EXPECT_EQ(run_reads(buffer.data(), buffer.size(), 3), 3 * before);
}

TEST(Probe, NamesTheDtypesThatNoUnitMultiplies) {
  Probe probe;
  probe.arithmetic = {{"f32", "AVX2", {1, 1}}, {"bf16", "AMX", {1, 1}}};
  EXPECT_EQ(probe.lacking(), std::vector<std::string>{"f16"});
}

TEST(Probe, TriadReachesEveryElement) {
  constexpr size_t kCount = 1024;
  alignas(64) static float a[kCount], b[kCount], c[kCount];
  for (size_t i = 0; i < kCount; ++i) {
    a[i] = -1;
    b[i] = float(i);
    c[i] = float(2 * i);
  }
  run_triad(a, b, c, kCount, 1);
  for (size_t i = 0; i < kCount; ++i) ASSERT_EQ(a[i], float(2 * i)) << i;
}

/// The shortest of five times of `run(rounds)`.
double best_s(double (*run)(int64_t), int64_t rounds) {
  double best = 1e9;
  for (int i = 0; i < 5; ++i) {
    const auto start = Clock::now();
    run(rounds);
    best = std::min(best, seconds_since(start));
  }
  return best;
}

TEST(Probe, LoopsTakeTimeInProportion) {
  std::vector<ComputeUnit> units = compute_units();
  units.push_back({"f32", "exp", run_exponentials});
  for (const ComputeUnit& unit : units) {
    EXPECT_EQ(unit.run(2000), 2 * unit.run(1000)) << unit.name;
    // Ten times the work, were nothing else running.
    EXPECT_GT(best_s(unit.run, 200000), 4 * best_s(unit.run, 20000)) << unit.name;
  }
}

// A unit that the CPU or the system refuses would have ended this process.
TEST(Probe, UnitsAreThoseOfTheCpu) {
  const std::vector<ComputeUnit> units = compute_units();
  ASSERT_FALSE(units.empty());
  EXPECT_EQ(units.front().dtype, "f32");
  const std::string flags = read_text("/proc/cpuinfo");
  for (const ComputeUnit& unit : units) {
    EXPECT_GT(unit.run(1), 0) << unit.name;
    for (const auto& [name, flag] :
         {std::pair("AMX", "amx_bf16"), std::pair("AMX FP16", "amx_fp16"),
          std::pair("AVX-512 BF16", "avx512_bf16"), std::pair("AVX-512 FP16", "avx512_fp16"),
          std::pair("NEON FP16", "asimdhp"), std::pair("NEON BF16", "bf16")})
      EXPECT_TRUE(unit.name != name || flags.find(flag) != flags.npos) << unit.name;
  }
}

/// What is wrong with rates that depend on how busy the machine is; empty: nothing.
std::string implausible(const Probe& probe) {
  for (const ArithmeticPeak& peak : probe.arithmetic)
    if (peak.gflops.all < 0.5 * peak.gflops.one)
      return peak.unit + ": all threads do less than one";
  for (const MemoryLevel& level : probe.levels)
    if (level.read_gbs.all < 0.5 * level.read_gbs.one)
      return level.name + ": all threads read less than one";
  if (probe.levels.size() > 1 && probe.levels[0].read_gbs.one < 1.5 * probe.memory().read_gbs.one)
    return "the nearest cache is as slow as memory";
  return {};
}

TEST(Probe, FiguresMakeSense) {
  const int threads = int(allowed_cpus().size());
  const auto start = Clock::now();
  Probe probe = probe_machine(threads, ProbeDepth::kAll);
  EXPECT_LT(seconds_since(start), 15);  // about 1 when quiet
  EXPECT_EQ(probe.threads, threads);
  EXPECT_FALSE(probe.fma().unit.empty());
  for (const ArithmeticPeak& peak : probe.arithmetic) EXPECT_GT(peak.gflops.one, 0) << peak.unit;
  EXPECT_GT(probe.exp_gps.one, 0);
  EXPECT_LT(probe.exp_gps.one, probe.fma().gflops.one) << "an exp takes several multiply-adds";
  ASSERT_FALSE(probe.levels.empty());
  EXPECT_EQ(probe.memory().name, "memory");
  EXPECT_EQ(probe.memory().own_bytes, 0u);
  for (size_t i = 0; i < probe.levels.size(); ++i) {
    const MemoryLevel& level = probe.levels[i];
    EXPECT_GT(level.read_gbs.one, 0) << level.name;
    EXPECT_GT(level.triad_gbs.one, 0) << level.name;
    if (i > 0 && level.own_bytes > 0) {
      EXPECT_GT(level.own_bytes, probe.levels[i - 1].own_bytes) << level.name;
    }
  }
  EXPECT_LE(probe.buffer_bytes, double(256u << 20));
  for (int again = 0; again < 4 && !implausible(probe).empty(); ++again)
    probe = probe_machine(threads, ProbeDepth::kAll);
  EXPECT_EQ(implausible(probe), "");
}

TEST(Probe, FactsHaveEveryRate) {
  Probe probe;
  probe.threads = 4;
  probe.arithmetic = {{"f32", "AVX3", {100, 380}}, {"bf16", "AVX-512 BF16", {200, 760}}};
  probe.levels = {{"L1", 48 << 10, 192 << 10, {300, 1200}, {}},
                  {"memory", 0, 0, {10, 30}, {9, 25}}};
  const auto all = facts(probe);
  EXPECT_EQ(all.at("fma_gflops"), "100");
  EXPECT_EQ(all.at("all_fma_gflops"), "380");
  EXPECT_EQ(all.at("all_bf16_avx512_bf16_gflops"), "760");
  EXPECT_EQ(all.at("l1_read_gbs"), "300");
  EXPECT_EQ(all.at("l1_bytes"), "49152");
  EXPECT_EQ(all.at("all_read_gbs"), "30");
  EXPECT_EQ(all.at("triad_gbs"), "9");
  EXPECT_FALSE(all.contains("exp_gps")) << "it was not measured";
  EXPECT_EQ(all.at("threads"), "4");
}

TEST(Probe, OneThreadIsAll) {
  const Probe probe = probe_machine(0);
  EXPECT_EQ(probe.threads, 1);
  for (const ArithmeticPeak& peak : probe.arithmetic)
    EXPECT_EQ(peak.gflops.all, peak.gflops.one) << peak.unit;
  EXPECT_EQ(probe.memory().read_gbs.all, probe.memory().read_gbs.one);
}

}  // namespace
}  // namespace attest::core
