#include "core/measure/machine/caches.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <numeric>
#include <set>

#include "core/measure/machine/files.hpp"
#include "core/tensor/error.hpp"

#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ 22  // Linux 5.14
#endif

namespace attest::core {
namespace {

constexpr size_t kHugePage = size_t{2} << 20;
constexpr uint64_t kUnknownCache = uint64_t{32} << 20;

// Of all CPUs together. `cache_bytes` 0: ask the system.
size_t walk_bytes(uint64_t cache_bytes, const std::vector<int>& cpus) {
  const uint64_t cache = cache_bytes ? cache_bytes : last_level_cache_bytes(cpus);
  const auto whole = std::clamp<uint64_t>(2 * cache, 4u << 20, 512u << 20);
  return std::max<size_t>(whole, cpus.size() * kHugePage);  // each at least one page
}

size_t whole_huge_pages(size_t bytes) { return (bytes + kHugePage - 1) / kHugePage * kHugePage; }

// 0: no such file.
size_t file_bytes(FlushFile file) {
  struct stat facts{};
  return file.descriptor >= 0 && fstat(file.descriptor, &facts) == 0 ? size_t(facts.st_size) : 0;
}

// One CPU's, in whole cache lines.
size_t share_of(size_t bytes, size_t cpus) { return bytes / cpus / 64 * 64; }

// Each CPU writes its share; without CPUs this thread writes all. A page that nobody has written is
// the kernel's one page of zeros, which would stay in the cache.
void touch_shares(std::byte* data, size_t bytes, const std::vector<int>& cpus) {
  if (cpus.empty()) std::memset(data, 1, bytes);
  on_every_cpu(cpus, [&](size_t i) {
    const size_t share = share_of(bytes, cpus.size());
    std::memset(data + i * share, 1, i + 1 < cpus.size() ? share : bytes - i * share);
  });
}

PageBuffer buffer_of(size_t bytes, const std::vector<int>& cpus, FlushFile file) {
  return file_bytes(file) >= bytes ? PageBuffer(file) : PageBuffer(bytes, cpus);
}

// A prefetcher follows several streams of reads at once, each to the end of its page. Of 1, 2, 4,
// 8, 16 and 32 streams, 8 took the least time on Zen 2, half as long as one.
constexpr size_t kStreams = 8;

}  // namespace

void read_lines(const std::byte* from, size_t bytes) {
  constexpr size_t kLine = 64;
  const size_t part = (bytes + kStreams * kLine - 1) / (kStreams * kLine) * kLine;
  unsigned sum = 0;
  for (size_t at = 0; at < part; at += kLine)
    for (size_t line = at; line < bytes; line += part)
      sum += unsigned(*reinterpret_cast<const volatile unsigned char*>(from + line));
  [[maybe_unused]] const volatile unsigned kept = sum;
}

uint64_t parse_size(const std::string& text) {
  uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc()) return 0;
  const std::string unit(end, text.data() + text.size());
  return unit.empty()  ? value
         : unit == "K" ? value << 10
         : unit == "M" ? value << 20
         : unit == "G" ? value << 30
                       : 0;
}

std::vector<Cache> read_caches(int cpu, const std::filesystem::path& root) {
  std::vector<Cache> caches;
  const auto base = root / fmt::format("sys/devices/system/cpu/cpu{}/cache", cpu);
  for (int i = 0; i < 8; ++i) {
    const auto folder = base / fmt::format("index{}", i);
    const std::string level = read_text(folder / "level");
    if (level.empty()) break;
    caches.push_back({std::atoi(level.c_str()), read_text(folder / "type"),
                      parse_size(read_text(folder / "size")),
                      parse_cpu_list(read_text(folder / "shared_cpu_list"))});
  }
  return caches;
}

uint64_t last_level_cache_bytes(const std::vector<int>& cpus, const std::filesystem::path& root) {
  std::set<std::vector<int>> seen;
  uint64_t total = 0;
  for (const int cpu : cpus) {
    const std::vector<Cache> caches = read_caches(cpu, root);
    const auto last =
        std::max_element(caches.begin(), caches.end(),
                         [](const Cache& a, const Cache& b) { return a.level < b.level; });
    if (last == caches.end() || last->size_bytes == 0) continue;
    if (seen.insert(last->cpus.empty() ? std::vector{cpu} : last->cpus).second)
      total += last->size_bytes;
  }
  return total ? total : kUnknownCache;
}

PageBuffer::PageBuffer(size_t bytes, const std::vector<int>& cpus)
    : bytes_(whole_huge_pages(bytes)) {
  base_ = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (base_ == MAP_FAILED)
    throw Error(fmt::format("out of memory: {} MiB for a measurement", bytes_ >> 20));
  madvise(base_, bytes_, MADV_HUGEPAGE);
  touch_shares(data(), bytes_, cpus);
}

PageBuffer::PageBuffer(size_t bytes) : PageBuffer(bytes, {}) {}

PageBuffer::PageBuffer(FlushFile file) : bytes_(file_bytes(file)) {
  base_ = mmap(nullptr, bytes_, PROT_READ, MAP_SHARED, file.descriptor, 0);
  if (base_ == MAP_FAILED)
    throw Error(fmt::format("cannot map {} MiB for a measurement", bytes_ >> 20));
  madvise(base_, bytes_, MADV_POPULATE_READ);  // if it is refused, the first walk does it
}

PageBuffer::~PageBuffer() { munmap(base_, bytes_); }

CacheFlusher::CacheFlusher(uint64_t cache_bytes, FlushFile file)
    : cpus_(allowed_cpus()), buffer_(buffer_of(walk_bytes(cache_bytes, cpus_), cpus_, file)) {}

void CacheFlusher::flush() {
  // An idle OpenMP pool of the implementation's is left alone.
  const size_t share = share_of(buffer_.size(), cpus_.size());
  on_every_cpu(cpus_, [&](size_t i) { read_lines(buffer_.data() + i * share, share); });
}

FlushFile make_flush_file() {
  const std::vector<int> cpus = allowed_cpus();
  const size_t bytes = whole_huge_pages(walk_bytes(0, cpus));
  const FlushFile file{memfd_create("attest-flush", MFD_CLOEXEC | MFD_ALLOW_SEALING)};
  if (file.descriptor < 0) return {};
  void* const base =
      ftruncate(file.descriptor, off_t(bytes)) == 0
          ? mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file.descriptor, 0)
          : MAP_FAILED;
  if (base == MAP_FAILED) {
    close(file.descriptor);
    return {};
  }
  touch_shares(static_cast<std::byte*>(base), bytes, cpus);
  munmap(base, bytes);
  fcntl(file.descriptor, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE);
  return file;
}

}  // namespace attest::core
