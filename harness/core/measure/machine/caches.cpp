#include "core/measure/machine/caches.hpp"

#include <fmt/format.h>
#include <sched.h>
#include <sys/mman.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <numeric>
#include <set>

#include "core/measure/machine/files.hpp"
#include "core/tensor/error.hpp"

namespace attest::core {
namespace {

constexpr size_t kHugePage = size_t{2} << 20;
constexpr uint64_t kUnknownCache = uint64_t{32} << 20;

size_t walk_bytes(uint64_t cache_bytes, size_t cpus) {
  const auto whole = std::clamp<uint64_t>(2 * cache_bytes, 4u << 20, 512u << 20);
  return std::max<size_t>(whole, cpus * kHugePage);  // each at least one page
}

// One CPU's, in whole cache lines.
size_t share_of(size_t bytes, size_t cpus) { return bytes / cpus / 64 * 64; }

void walk(const std::byte* from, size_t bytes) {
  unsigned sum = 0;
  for (size_t at = 0; at < bytes; at += 64)
    sum += unsigned(*reinterpret_cast<const volatile unsigned char*>(from + at));
  [[maybe_unused]] const volatile unsigned kept = sum;
}

}  // namespace

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
    : bytes_((bytes + kHugePage - 1) / kHugePage * kHugePage) {
  base_ = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (base_ == MAP_FAILED)
    throw Error(fmt::format("out of memory: {} MiB for a measurement", bytes_ >> 20));
  madvise(base_, bytes_, MADV_HUGEPAGE);
  if (cpus.empty()) touch(0, bytes_);
  on_every_cpu(cpus, [&](size_t i) {
    const size_t share = share_of(bytes_, cpus.size());
    touch(i * share, i + 1 < cpus.size() ? share : bytes_ - i * share);
  });
}

PageBuffer::PageBuffer(size_t bytes) : PageBuffer(bytes, {}) {}

// Writes: else every page would be the kernel's one page of zeros, and stay in the cache.
void PageBuffer::touch(size_t from, size_t bytes) const { std::memset(data() + from, 1, bytes); }

PageBuffer::~PageBuffer() { munmap(base_, bytes_); }

CacheFlusher::CacheFlusher(uint64_t cache_bytes)
    : cpus_(allowed_cpus()),
      buffer_(walk_bytes(cache_bytes ? cache_bytes : last_level_cache_bytes(cpus_), cpus_.size()),
              cpus_) {}

void CacheFlusher::flush() {
  // An idle OpenMP pool of the implementation's is left alone.
  const size_t share = share_of(buffer_.size(), cpus_.size());
  on_every_cpu(cpus_, [&](size_t i) { walk(buffer_.data() + i * share, share); });
}

}  // namespace attest::core
