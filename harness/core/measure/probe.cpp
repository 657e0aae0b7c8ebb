#include "core/measure/probe.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <functional>
#include <thread>
#include <vector>

#include "core/measure/affinity.hpp"
#include "core/measure/caches.hpp"
#include "core/measure/memory.hpp"
#include "core/measure/probe_kernels.hpp"
#include "core/tensor/stopwatch.hpp"

namespace attest::core {
namespace {

constexpr int kBursts = 4;
constexpr double kBurst_s = 0.012;
constexpr size_t kMostBuffer = size_t{256} << 20, kLeastBuffer = size_t{8} << 20;

/// Has `threads` threads do `work(thread)` at the same time, kBursts times, or twice where the
/// machine is so busy that time runs out; the shortest time from the common start to the last end.
double best_burst_s(int threads, const std::function<void(int)>& work) {
  const auto deadline = Clock::now() + std::chrono::milliseconds(500);
  double best_s = 1e9;
  for (int burst = 0; burst < kBursts && (burst < 2 || Clock::now() < deadline); ++burst) {
    std::atomic<int> waiting{threads};
    std::vector<Clock::time_point> ends(static_cast<size_t>(threads));
    auto body = [&](int thread) {
      for (--waiting; waiting > 0;) std::this_thread::yield();
      work(thread);
      ends[size_t(thread)] = Clock::now();
    };
    std::vector<std::thread> others;
    for (int thread = 1; thread < threads; ++thread) others.emplace_back(body, thread);
    while (waiting > 1) std::this_thread::yield();
    const auto start = Clock::now();
    body(0);
    for (std::thread& other : others) other.join();
    const Clock::duration took = *std::max_element(ends.begin(), ends.end()) - start;
    best_s = std::min(best_s, std::chrono::duration<double>(took).count());
  }
  return best_s;
}

// How many rounds last a burst on one thread; this warms the clock up too.
int64_t rounds_of_a_burst() {
  for (int64_t rounds = 1024;; rounds *= 2) {
    const auto start = Clock::now();
    run_multiply_adds(rounds);
    const double took_s = seconds_since(start);
    if (took_s > kBurst_s / 4)
      return std::max<int64_t>(1, int64_t(double(rounds) * kBurst_s / took_s));
  }
}

double fma_gflops(int threads, int64_t rounds) {
  std::vector<double> flops(size_t(threads), 0.0);
  const double best_s =
      best_burst_s(threads, [&](int thread) { flops[size_t(thread)] = run_multiply_adds(rounds); });
  return flops[0] * threads / best_s * 1e-9;
}

// Each thread reads its own share, so that together they read the whole buffer once.
double read_gbs(const PageBuffer& buffer, int threads) {
  const size_t share = buffer.size() / size_t(threads) / 4096 * 4096;
  const double best_s = best_burst_s(threads, [&](int thread) {
    const volatile uint32_t kept = run_reads(buffer.data() + size_t(thread) * share, share);
    (void)kept;
  });
  return double(share) * threads / best_s * 1e-9;
}

}  // namespace

Probe probe_machine(int threads) {
  Probe probe;
  probe.vectors = vectors_in_use();
  probe.threads = std::max(threads, 1);
  const int64_t rounds = rounds_of_a_burst();
  probe.fma_gflops = fma_gflops(1, rounds);
  probe.all_fma_gflops = probe.threads == 1 ? probe.fma_gflops : fma_gflops(probe.threads, rounds);

  const uint64_t cache_bytes = last_level_cache_bytes(allowed_cpus());
  const auto affordable = std::max<uint64_t>(kLeastBuffer, read_memory().available_bytes / 8);
  const PageBuffer buffer(std::min<uint64_t>({4 * cache_bytes, kMostBuffer, affordable}));
  probe.last_level_cache_bytes = double(cache_bytes);
  probe.buffer_bytes = double(buffer.size());
  probe.read_gbs = read_gbs(buffer, 1);
  probe.all_read_gbs = probe.threads == 1 ? probe.read_gbs : read_gbs(buffer, probe.threads);
  return probe;
}

std::map<std::string, std::string> facts(const Probe& probe) {
  auto number = [](double value) { return fmt::format("{:.4g}", value); };
  return {{"vectors", probe.vectors},
          {"threads", std::to_string(probe.threads)},
          {"fma_gflops", number(probe.fma_gflops)},
          {"all_fma_gflops", number(probe.all_fma_gflops)},
          {"read_gbs", number(probe.read_gbs)},
          {"all_read_gbs", number(probe.all_read_gbs)},
          {"buffer_bytes", fmt::format("{:.0f}", probe.buffer_bytes)},
          {"last_level_cache_bytes", fmt::format("{:.0f}", probe.last_level_cache_bytes)}};
}

}  // namespace attest::core
