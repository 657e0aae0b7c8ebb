// The probe's loops do what they are counted for; its figures are related as they must be.
#include "core/measure/probe.hpp"

#include <gtest/gtest.h>

#include <vector>

#include "core/measure/affinity.hpp"
#include "core/measure/caches.hpp"
#include "core/measure/probe_kernels.hpp"
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
}

TEST(Probe, MultiplyAddsTakeTimeInProportion) {
  auto best_s = [](int64_t rounds) {
    double best = 1e9;
    for (int i = 0; i < 5; ++i) {
      const auto start = Clock::now();
      run_multiply_adds(rounds);
      best = std::min(best, seconds_since(start));
    }
    return best;
  };
  EXPECT_EQ(run_multiply_adds(2000), 2 * run_multiply_adds(1000));
  EXPECT_GT(best_s(400000), 4 * best_s(40000));  // ten times the work, were nothing else running
}

TEST(Probe, FiguresMakeSense) {
  const int threads = int(allowed_cpus().size());
  const auto start = Clock::now();
  const Probe probe = probe_machine(threads);
  EXPECT_LT(seconds_since(start),
            10);  // 0.4 when quiet
  EXPECT_FALSE(probe.vectors.empty());
  EXPECT_EQ(probe.threads, threads);
  EXPECT_GT(probe.fma_gflops, 0);
  EXPECT_GT(probe.read_gbs, 0);
  EXPECT_GE(probe.all_fma_gflops, 0.8 * probe.fma_gflops);
  EXPECT_GE(probe.all_read_gbs, 0.5 * probe.read_gbs);
  EXPECT_LE(probe.buffer_bytes, double(256u << 20));
  EXPECT_EQ(facts(probe).at("threads"), std::to_string(threads));
}

TEST(Probe, OneThreadIsAll) {
  const Probe probe = probe_machine(0);
  EXPECT_EQ(probe.threads, 1);
  EXPECT_EQ(probe.all_fma_gflops, probe.fma_gflops);
}

}  // namespace
}  // namespace attest::core
