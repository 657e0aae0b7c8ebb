// Finds the caches of this machine, and empties them.
#pragma once
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "core/measure/machine/affinity.hpp"

namespace attest::core {

struct Cache {
  int level = 0;
  std::string type;  // Data, Instruction, Unified
  uint64_t size_bytes = 0;
  std::vector<int> cpus;  // the CPUs that share this cache; empty: not known
};

/// The caches of a CPU, from sysfs under `root`, else from the C library; empty if neither knows
/// them (on some Arm systems).
std::vector<Cache> read_caches(int cpu, const std::filesystem::path& root = "/");

/// Bytes of last-level cache of these CPUs together; a shared cache counts once. 32 MiB if nothing
/// is known.
uint64_t last_level_cache_bytes(const std::vector<int>& cpus,
                                const std::filesystem::path& root = "/");

/// "32K", "1M", "260096K" in bytes; 0 if malformed.
uint64_t parse_size(const std::string& text);

/// A file without a name whose pages are the buffer of a CacheFlusher in each process that maps it.
/// To get new pages takes longer than many flushes.
struct FlushFile {
  int descriptor = -1;  // below 0: none
};

/// Makes one that nobody can change. The caller closes it. Returns none if the system refuses.
FlushFile make_flush_file();

/// A buffer of whole pages that are already touched; the system may give huge pages. Throws Error
/// if there is no memory.
class PageBuffer {
 public:
  explicit PageBuffer(size_t bytes);
  /// Maps a flush file, which other processes may map too. Its memory can only be read.
  explicit PageBuffer(FlushFile file);
  /// Each CPU touches a share, in their order: a machine with several memories then gives it memory
  /// that is near, and new pages, which may take milliseconds each, come to all CPUs at once.
  PageBuffer(size_t bytes, const std::vector<int>& cpus);
  PageBuffer(const PageBuffer&) = delete;
  PageBuffer& operator=(const PageBuffer&) = delete;
  ~PageBuffer();
  std::byte* data() const { return static_cast<std::byte*>(base_); }
  size_t size() const { return bytes_; }

 private:
  void* base_;
  size_t bytes_;
};

/// Reads every cache line of these bytes, in eight streams by turns.
void read_lines(const std::byte* from, size_t bytes);

/// Empties the caches, so that the next run reads from memory. Every CPU that this process may use
/// reads a share of a buffer that is twice as large as the caches; each core must do so, because of
/// its private caches. The walk only reads: dirty lines would have to be written back during the
/// run.
class CacheFlusher {
 public:
  /// `cache_bytes`: size of the last-level cache; 0: ask the system. The buffer is 4 MiB to 512
  /// MiB. `file` is the buffer unless it is too small.
  explicit CacheFlusher(uint64_t cache_bytes = 0, FlushFile file = {});
  void flush();

 private:
  std::vector<int> cpus_;
  PageBuffer buffer_;
};

}  // namespace attest::core
