// The caches of this machine, and emptying them.
#pragma once
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "core/measure/affinity.hpp"

namespace attest::core {

struct Cache {
  int level = 0;
  std::string type;  // Data, Instruction, Unified
  uint64_t size_bytes = 0;
  std::vector<int> cpus;  // that share this one; empty where the system does not say
};

/// Caches that `cpu` reaches, as sysfs under `root` describes them; where it says nothing (Arm's C
/// library neither), none.
std::vector<Cache> read_caches(int cpu, const std::filesystem::path& root = "/");

/// Bytes of last-level cache that `cpus` reach together, each shared cache counted once; 32 MiB
/// where nothing is known.
uint64_t last_level_cache_bytes(const std::vector<int>& cpus,
                                const std::filesystem::path& root = "/");

/// "32K", "1M", "260096K" in bytes; 0 where malformed.
uint64_t parse_size(const std::string& text);

/// Memory of whole pages, huge ones where the system gives them, already touched. Throws Error
/// where there is none.
class PageBuffer {
 public:
  explicit PageBuffer(size_t bytes);
  PageBuffer(const PageBuffer&) = delete;
  PageBuffer& operator=(const PageBuffer&) = delete;
  ~PageBuffer();
  std::byte* data() const { return static_cast<std::byte*>(base_); }
  size_t size() const { return bytes_; }

 private:
  void* base_;
  size_t bytes_;
};

/// Makes what a run reads next come from memory. Every CPU that this process may use walks over a
/// share of a buffer twice as large as its caches, since private caches see only their own core's
/// walk. It reads, so that no dirty lines are left for the run to write back.
class CacheFlusher {
 public:
  /// `cache_bytes`: last-level cache to empty; 0: ask the system. The buffer is 4 MiB to 512 MiB.
  explicit CacheFlusher(uint64_t cache_bytes = 0);
  void flush();

 private:
  std::vector<int> cpus_;
  PageBuffer buffer_;
};

}  // namespace attest::core
