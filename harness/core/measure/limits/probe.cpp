#include "core/measure/limits/probe.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <functional>
#include <thread>
#include <vector>

#include "core/measure/limits/compute_units.hpp"
#include "core/measure/limits/probe_kernels.hpp"
#include "core/measure/machine/affinity.hpp"
#include "core/measure/machine/caches.hpp"
#include "core/measure/machine/memory.hpp"
#include "core/tensor/stopwatch.hpp"

namespace attest::core {
namespace {

// Many short bursts: on a busy machine one of them is likely to be left alone. On a quiet one, four
// that take the same time are enough.
constexpr int kBursts = 16, kAlikeBursts = 4;
constexpr double kAlike = 1.01;  // times that differ by less are the same
// Clocks may rise for as long.
constexpr auto kSettling = std::chrono::milliseconds(10);
constexpr double kBurst_s = 0.0015;
// Two bursts that take longer than this together are enough.
constexpr auto kLongEnough = std::chrono::milliseconds(60);
constexpr auto kPatience = std::chrono::milliseconds(120);
// Threads that share no core take at most this much longer together than one does alone, because
// clocks are lower then.
constexpr double kTogether = 1.6;
constexpr size_t kMostBuffer = size_t{256} << 20, kLeastBuffer = size_t{8} << 20;
constexpr size_t kPage = 4096;

/// Lets `threads` threads do `work(thread)` at the same time, in several bursts. Returns the
/// shortest time from the common start to the last end, in seconds. There are kBursts bursts, or
/// fewer once kAlikeBursts took the shortest time and kSettling is over, or two if these take
/// kLongEnough. While every burst
/// took longer than `expected_s`, another program had a CPU, so further bursts follow until
/// kPatience is over.
double best_burst_s(int threads, const std::function<void(int)>& work, double expected_s = 1e9) {
  const auto start_of_all = Clock::now();
  double best_s = 1e9;
  std::vector<double> bursts_s;
  const auto is_enough = [&] {
    const Clock::duration spent = Clock::now() - start_of_all;
    if (best_s > expected_s && spent < kPatience) return false;
    const auto alike =
        std::ranges::count_if(bursts_s, [&](double s) { return s < kAlike * best_s; });
    return bursts_s.size() >= kBursts || (alike >= kAlikeBursts && spent >= kSettling) ||
           (bursts_s.size() >= 2 && spent >= kLongEnough);
  };
  while (!is_enough()) {
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
    bursts_s.push_back(std::chrono::duration<double>(took).count());
    best_s = std::min(best_s, bursts_s.back());
  }
  return best_s;
}

// How many rounds of `run` last a burst on one thread; this warms the clock up too.
int64_t rounds_of_a_burst(const std::function<void(int64_t)>& run, int64_t first) {
  for (int64_t rounds = first;; rounds *= 2) {
    const auto start = Clock::now();
    run(rounds);
    const double took_s = seconds_since(start);
    if (took_s > kBurst_s / 4)
      return std::max<int64_t>(1, int64_t(double(rounds) * kBurst_s / took_s));
  }
}

/// Returns how many operations a second `run` makes, in 10^9, as it counts them.
PeakRate rate_of(double (*run)(int64_t), int threads) {
  const int64_t rounds = rounds_of_a_burst([run](int64_t count) { run(count); }, 256);
  std::vector<double> done(size_t(threads), 0.0);
  const auto work = [&](int thread) { done[size_t(thread)] = run(rounds); };
  const double one_s = best_burst_s(1, work),
               all_s = threads == 1 ? one_s : best_burst_s(threads, work, kTogether * one_s);
  return {done[0] / one_s * 1e-9, done[0] * threads / all_s * 1e-9};
}

/// What a thread works on, a part of the buffer of its own.
struct Share {
  std::byte* data = nullptr;
  size_t bytes = 0;
};
using OnShare = std::function<void(Share share, int64_t passes)>;

void read_share(Share share, int64_t passes) {
  const volatile uint32_t kept = run_reads(share.data, share.bytes, passes);
  (void)kept;
}

void triad_share(Share share, int64_t passes) {
  constexpr size_t kStep = 64;
  const size_t count = share.bytes / 3 / sizeof(float) / kStep * kStep;
  auto* a = reinterpret_cast<float*>(share.data);
  run_triad(a, a + count, a + 2 * count, count, passes);
}

/// Measures how fast parts of one buffer are worked on.
class Bandwidths {
 public:
  Bandwidths(size_t buffer_bytes, int threads) : buffer_(buffer_bytes), threads_(threads) {}

  size_t bytes() const { return buffer_.size(); }

  /// Each thread goes over `share_bytes` of its own, again and again.
  PeakRate of_cache(size_t share_bytes, const OnShare& work) const {
    const size_t bytes =
        std::clamp(share_bytes, kPage, buffer_.size() / size_t(threads_)) / kPage * kPage;
    const int64_t passes =
        rounds_of_a_burst([&](int64_t count) { work({buffer_.data(), bytes}, count); }, 1);
    const double one_s = burst_s(1, bytes, passes, work),
                 all_s = threads_ == 1 ? one_s
                                       : burst_s(threads_, bytes, passes, work, kTogether * one_s);
    const double moved = double(bytes) * double(passes);
    return {moved / one_s * 1e-9, moved * threads_ / all_s * 1e-9};
  }
  /// The threads share the whole buffer, and go over it once.
  PeakRate of_memory(const OnShare& work) const {
    const auto rate = [&](int used) {
      const size_t bytes = buffer_.size() / size_t(used) / kPage * kPage;
      return double(bytes) * used / burst_s(used, bytes, 1, work) * 1e-9;
    };
    const double one = rate(1);
    return {one, threads_ == 1 ? one : rate(threads_)};
  }

 private:
  double burst_s(int used, size_t bytes, int64_t passes, const OnShare& work,
                 double expected_s = 1e9) const {
    return best_burst_s(
        used, [&](int thread) { work({buffer_.data() + size_t(thread) * bytes, bytes}, passes); },
        expected_s);
  }

  PageBuffer buffer_;
  int threads_;
};

/// The data caches of the first CPU in use, from the nearest on; those of the others are taken to
/// be alike. No rates yet.
std::vector<MemoryLevel> cache_levels(const std::vector<int>& cpus, int threads) {
  std::vector<MemoryLevel> levels;
  for (const Cache& cache : read_caches(cpus.front())) {
    if (cache.type == "Instruction" || cache.size_bytes == 0) continue;
    const auto is_used = [&](int cpu) { return std::ranges::find(cpus, cpu) != cpus.end(); };
    const auto sharing = std::max<std::ptrdiff_t>(1, std::ranges::count_if(cache.cpus, is_used));
    const auto copies = uint64_t((threads + sharing - 1) / sharing);
    levels.push_back(
        {fmt::format("L{}", cache.level), cache.size_bytes, cache.size_bytes * copies, {}, {}});
  }
  std::ranges::sort(levels, {}, &MemoryLevel::own_bytes);
  return levels;
}

/// How much a thread goes over to measure a cache: half of it, but more than the faster caches
/// hold, so that they cannot serve it.
size_t share_for(const std::vector<MemoryLevel>& levels, size_t level, int threads) {
  const auto users = uint64_t(threads);
  if (level == 0) return levels[0].own_bytes / 2;
  const uint64_t faster = levels[level - 1].own_bytes,
                 own = std::min(levels[level].own_bytes, levels[level].all_bytes / users);
  return std::max(2 * faster, std::min(own / 2, 4 * faster));
}

void measure_levels(Probe& probe, ProbeDepth depth) {
  const std::vector<int> cpus = allowed_cpus();
  const uint64_t cache_bytes = last_level_cache_bytes(cpus);
  const auto affordable = std::max<uint64_t>(kLeastBuffer, read_memory().available_bytes / 8);
  const Bandwidths bandwidths(std::min<uint64_t>({4 * cache_bytes, kMostBuffer, affordable}),
                              probe.threads);
  probe.last_level_cache_bytes = double(cache_bytes);
  probe.buffer_bytes = double(bandwidths.bytes());
  probe.levels = cache_levels(cpus, probe.threads);
  for (size_t level = 0; level < probe.levels.size(); ++level) {
    const size_t share = share_for(probe.levels, level, probe.threads);
    MemoryLevel& of = probe.levels[level];
    of.read_gbs = bandwidths.of_cache(share, read_share);
    if (depth == ProbeDepth::kAll) of.triad_gbs = bandwidths.of_cache(share, triad_share);
  }
  MemoryLevel& memory = probe.levels.emplace_back(MemoryLevel{"memory", 0, 0, {}, {}});
  memory.read_gbs = bandwidths.of_memory(read_share);
  if (depth == ProbeDepth::kAll) memory.triad_gbs = bandwidths.of_memory(triad_share);
}

/// "AVX-512 BF16" as part of a key: "avx512_bf16".
std::string fact_key(const std::string& unit) {
  std::string key;
  for (const char c : unit)
    if (c == ' ')
      key += '_';
    else if (c != '-')
      key += char(std::tolower(static_cast<unsigned char>(c)));
  return key;
}

}  // namespace

Probe probe_machine(int threads, ProbeDepth depth) {
  Probe probe;
  probe.threads = std::max(threads, 1);
  for (const ComputeUnit& unit : compute_units())
    probe.arithmetic.push_back({unit.dtype, unit.name, rate_of(unit.run, probe.threads)});
  if (depth == ProbeDepth::kAll) probe.exp_gps = rate_of(run_exponentials, probe.threads);
  measure_levels(probe, depth);
  return probe;
}

std::vector<std::string> Probe::lacking() const {
  std::vector<std::string> dtypes;
  for (const char* dtype : {"f32", "f16", "bf16"})
    if (std::ranges::find(arithmetic, dtype, &ArithmeticPeak::dtype) == arithmetic.end())
      dtypes.emplace_back(dtype);
  return dtypes;
}

std::map<std::string, std::string> facts(const Probe& probe) {
  std::map<std::string, std::string> all{
      {"vectors", probe.fma().unit},
      {"threads", std::to_string(probe.threads)},
      {"buffer_bytes", fmt::format("{:.0f}", probe.buffer_bytes)},
      {"last_level_cache_bytes", fmt::format("{:.0f}", probe.last_level_cache_bytes)}};
  const auto add = [&](const std::string& key, const PeakRate& rate) {
    if (rate.one <= 0) return;
    all[key] = fmt::format("{:.4g}", rate.one);
    all["all_" + key] = fmt::format("{:.4g}", rate.all);
  };
  for (const ArithmeticPeak& peak : probe.arithmetic)
    add(&peak == &probe.fma() ? "fma_gflops"
                              : fmt::format("{}_{}_gflops", peak.dtype, fact_key(peak.unit)),
        peak.gflops);
  add("exp_gps", probe.exp_gps);
  for (const MemoryLevel& level : probe.levels) {
    const std::string prefix = &level == &probe.memory() ? "" : fact_key(level.name) + "_";
    add(prefix + "read_gbs", level.read_gbs);
    add(prefix + "triad_gbs", level.triad_gbs);
    if (level.own_bytes > 0) all[prefix + "bytes"] = std::to_string(level.own_bytes);
  }
  return all;
}

}  // namespace attest::core
