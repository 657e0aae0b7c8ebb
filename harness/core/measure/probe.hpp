// This machine's own limits, measured: FP32 multiply-adds and memory reads, by one thread and by
// all. Every result can then be quoted as a fraction of them.
#pragma once
#include <map>
#include <string>

namespace attest::core {

struct Probe {
  std::string vectors;  // which kind of vectors: Highway's name of the target, e.g. "AVX3", "NEON"
  int threads = 1;      // of the "all" figures
  double fma_gflops = 0, all_fma_gflops = 0;  // a multiply-add counts as 2
  double read_gbs = 0, all_read_gbs = 0;  // 10^9 bytes a second, from a buffer beyond the caches
  double buffer_bytes = 0;                // that was read
  // Of the CPUs in use; where the buffer is not 4 times that, caches help the reads
  double last_level_cache_bytes = 0;
};

/// Best of several bursts each, about 0.4 s and at most 256 MiB (an eighth of what is available)
/// together. `threads` are placed as the process's affinity mask lets them; at least 1.
Probe probe_machine(int threads);

/// The same as key -> text, for a results file's header.
std::map<std::string, std::string> facts(const Probe& probe);

}  // namespace attest::core
