// Measures the peak rates of this machine: FP32 multiply-adds and memory reads, with one thread and
// with all. Results can be given as a fraction of them.
#pragma once
#include <map>
#include <string>

namespace attest::core {

struct Probe {
  std::string vectors;  // the SIMD instruction set, by Highway's name: "AVX3", "NEON"
  int threads = 1;      // number of threads of the "all" figures
  double fma_gflops = 0, all_fma_gflops = 0;  // a multiply-add counts as 2
  double read_gbs = 0, all_read_gbs = 0;  // 10^9 bytes a second, from a buffer beyond the caches
  double buffer_bytes = 0;                // size of that buffer
  // Of the CPUs in use. If the buffer is less than 4 times as large, caches speed up the reads
  double last_level_cache_bytes = 0;
};

/// The best of several bursts. Takes about 0.4 s and at most 256 MiB, or an eighth of the available
/// memory. `threads` is at least 1; they run on the CPUs of the process's affinity mask.
Probe probe_machine(int threads);

/// The figures as key -> text, for the header of a results file.
std::map<std::string, std::string> facts(const Probe& probe);

}  // namespace attest::core
