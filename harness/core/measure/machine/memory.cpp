#include "core/measure/machine/memory.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <limits>
#include <sstream>
#include <string>

#include "core/measure/machine/files.hpp"

namespace attest::core {
namespace {

namespace fs = std::filesystem;

constexpr uint64_t kNoLimit = std::numeric_limits<uint64_t>::max();

// "Key:   123 kB" in bytes; 0 where absent. Without streams, since own_bytes() is asked before and
// after each judged run: streams would double the time of its system calls.
uint64_t kib_of(const std::string& text, const std::string& key) {
  const std::string start = key + ':';
  const size_t at = text.starts_with(start) ? 0 : text.find('\n' + start);
  if (at == text.npos) return 0;
  return std::strtoull(text.c_str() + text.find(':', at) + 1, nullptr, 10) * 1024;
}

struct Limit {
  uint64_t limit_bytes = kNoLimit, left_bytes = kNoLimit;
};

struct GroupFiles {
  const char *limit, *used, *reclaimable;
};

// One group. Page cache that nobody uses counts as used there, but goes when memory is wanted.
void tighten(const fs::path& group, const GroupFiles& files, Limit& limit) {
  const auto most = read_number(group / files.limit), used = read_number(group / files.used);
  if (!most || !used || *most >= 0x1p62) return;  // "max"; version 1 writes a number near 2^63
  const double cache = std::strtod(
      value_of(read_text(group / "memory.stat"), files.reclaimable, ' ').c_str(), nullptr);
  limit.limit_bytes = std::min(limit.limit_bytes, uint64_t(*most));
  limit.left_bytes =
      std::min(limit.left_bytes, uint64_t(std::max(0.0, *most - std::max(0.0, *used - cache))));
}

// The group at `path` below `mount` and every one above it. A container may name a path that only
// its host has: its own group is then the mount itself, which is always among them.
void tighten_upwards(const fs::path& mount, fs::path path, const GroupFiles& files, Limit& limit) {
  if (std::find(path.begin(), path.end(), "..") != path.end()) path.clear();
  for (path = path.relative_path(); !path.empty(); path = path.parent_path())
    tighten(mount / path, files, limit);
  tighten(mount, files, limit);
}

Limit group_limit(const fs::path& root) {
  Limit limit;
  std::istringstream lines(read_text(root / "proc/self/cgroup"));
  for (std::string line; std::getline(lines, line);) {  // "4:memory:/path", version 2 "0::/path"
    const size_t first = line.find(':'), second = line.find(':', first + 1);
    if (second == line.npos) continue;
    const std::string kinds = line.substr(first + 1, second - first - 1),
                      path = line.substr(second + 1);
    if (kinds.empty())
      tighten_upwards(root / "sys/fs/cgroup", path,
                      {"memory.max", "memory.current", "inactive_file"}, limit);
    else if (("," + kinds + ",").find(",memory,") != kinds.npos)
      tighten_upwards(root / "sys/fs/cgroup/memory", path,
                      {"memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"},
                      limit);
  }
  return limit;
}

// A number of this process, in bytes; 0 where absent.
uint64_t own_bytes(const char* key) {
  const int status = open("/proc/self/status", O_RDONLY | O_CLOEXEC);
  if (status < 0) return 0;
  std::string text;
  char part[4096];
  for (ssize_t size; (size = read(status, part, sizeof(part))) > 0;)
    text.append(part, size_t(size));
  close(status);
  return kib_of(text, key);
}

}  // namespace

PeakMemory::PeakMemory() {
  const int clear_refs = open("/proc/self/clear_refs", O_WRONLY | O_CLOEXEC);
  // 5: reset the high-water mark (proc(5))
  const bool is_reset = clear_refs >= 0 && write(clear_refs, "5", 1) == 1;
  if (clear_refs >= 0) close(clear_refs);
  before_bytes_ = own_bytes("VmRSS");
  available_ = is_reset && before_bytes_ > 0;
}

uint64_t PeakMemory::growth_bytes() const {
  const uint64_t peak = own_bytes("VmHWM");
  return peak > before_bytes_ ? peak - before_bytes_ : 0;
}

MachineMemory read_memory(const fs::path& root) {
  const std::string text = read_text(root / "proc/meminfo");
  const Limit limit = group_limit(root);
  MachineMemory memory;
  memory.total_bytes = std::min(kib_of(text, "MemTotal"), limit.limit_bytes);
  memory.available_bytes = std::min(kib_of(text, "MemAvailable"), limit.left_bytes);
  memory.swap_total_bytes = kib_of(text, "SwapTotal");
  memory.swap_used_bytes =
      memory.swap_total_bytes - std::min(memory.swap_total_bytes, kib_of(text, "SwapFree"));
  return memory;
}

}  // namespace attest::core
