// Measures the peak rates of this machine: multiply-adds in each dtype, reads from each level of
// the caches and from memory, exponentials; with one thread and with all. Results can be given as a
// fraction of them (run/rooflines/roofline.hpp).
#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace attest::core {

/// A rate of one thread, and of all threads together.
struct PeakRate {
  double one = 0, all = 0;  // 0: not measured
};

/// The multiply-adds of one unit of the CPU.
struct ArithmeticPeak {
  std::string dtype;  // of the factors: "f32", "f16", "bf16"
  std::string unit;   // "AVX3", "AVX-512 BF16", "AMX"
  PeakRate gflops;    // a multiply-add counts as 2
};

/// A level of the caches, or the memory behind them.
struct MemoryLevel {
  std::string name;        // "L1", "L2", "L3", "memory"
  uint64_t own_bytes = 0;  // what one thread alone can have of it; 0: memory
  uint64_t all_bytes = 0;  // of all CPUs in use together; 0: memory
  PeakRate read_gbs;       // 10^9 bytes a second
  PeakRate triad_gbs;      // a = b + s c, three arrays counted; 0: not measured
};

struct Probe {
  int threads = 1;                         // number of threads of the "all" figures
  std::vector<ArithmeticPeak> arithmetic;  // f32 comes first
  std::vector<MemoryLevel> levels;         // from the fastest to memory
  PeakRate exp_gps;                        // 10^9 FP32 exponentials a second; 0: not measured
  double buffer_bytes = 0;                 // size of the buffer of the figures of memory
  // Of the CPUs in use. If the buffer is less than 4 times as large, caches speed up its reads
  double last_level_cache_bytes = 0;

  const ArithmeticPeak& fma() const { return arithmetic.front(); }
  const MemoryLevel& memory() const { return levels.back(); }
  /// Those of "f32", "f16" and "bf16" that no unit of this CPU multiplies, or none that the system
  /// and this build use.
  std::vector<std::string> lacking() const;
};

/// What a probe measures.
enum class ProbeDepth {
  kLimits,  // what rooflines need; about 0.4 s
  kAll      // exponentials and triads too; about 0.6 s
};

/// Measures each figure in several bursts and keeps the best one. The buffer takes at most 256 MiB
/// and, beyond 8 MiB, at most an eighth of the available memory. `threads` is at least 1. The
/// threads run on the CPUs of the process's affinity mask.
Probe probe_machine(int threads, ProbeDepth depth = ProbeDepth::kLimits);

/// Returns the figures as key -> text, for the header of a results file. Keys of the rates of all
/// threads begin with "all_".
std::map<std::string, std::string> facts(const Probe& probe);

}  // namespace attest::core
