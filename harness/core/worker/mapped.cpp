#include "core/worker/mapped.hpp"

#include <sys/mman.h>

#include <cstdint>

#include "core/measure/machine/affinity.hpp"
#include "core/tensor/runs.hpp"
#include "core/worker/page_placement.hpp"

#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ 22  // Linux 5.14; older systems refuse it
#endif

namespace attest::core {

namespace {

constexpr uintptr_t kLeastPage_bytes = 4096;
// For less, a call of the system takes as long as the reads.
constexpr uintptr_t kLeastAtOnce_bytes = uintptr_t{64} << 10;
// Pages that one CPU gets at a time.
constexpr uintptr_t kStep_bytes = uintptr_t{1} << 20;
// For less, one more CPU takes as long to start as it saves.
constexpr uintptr_t kLeastForCpu_bytes = uintptr_t{2} << 20;

void read_pages(const MemoryRange& range) {
  for (uintptr_t at = range.begin; at < range.end; at += kLeastPage_bytes)
    (void)*reinterpret_cast<const volatile char*>(at);
  (void)*reinterpret_cast<const volatile char*>(range.end - 1);
}

// The system maps many pages at once in three quarters of the time that reads of them take.
void populate(const MemoryRange& range) {
  const uintptr_t page = range.begin / kLeastPage_bytes * kLeastPage_bytes;
  if (madvise(reinterpret_cast<void*>(page), range.end - page, MADV_POPULATE_READ) != 0)
    read_pages(range);
}

// On as many CPUs as are worth it.
void populate(std::span<const MemoryRange> ranges) {
  uintptr_t bytes = 0;
  for (const MemoryRange& range : ranges) bytes += range.end - range.begin;
  std::vector<int> cpus = allowed_cpus();
  if (const size_t most = bytes / kLeastForCpu_bytes; cpus.size() > most) cpus.resize(most);
  if (cpus.size() > 1 && get_pages(ranges, {cpus}, [](const MemoryRange& step) { populate(step); }))
    return;
  for (const MemoryRange& range : ranges) populate(range);
}

// Reads the pages of short runs of elements, and adds what is left to `ranges`.
void touch_elements(const attest_tensor& spec, const void* data, std::vector<MemoryRange>& ranges) {
  const uintptr_t width = dtype_bytes(spec.dtype);
  for_each_run(spec, [&](int64_t first, int64_t count) {
    const uintptr_t begin = reinterpret_cast<uintptr_t>(data) + uintptr_t(first) * width;
    const MemoryRange range{begin, begin + uintptr_t(count) * width, kStep_bytes};
    if (range.end - range.begin < kLeastAtOnce_bytes)
      read_pages(range);
    else
      ranges.push_back(range);
  });
}

}  // namespace

MappedTensors::MappedTensors(std::vector<Slot> slots_of_file, const Descriptor& file, bool writable,
                             StatusPage& status)
    : slots(std::move(slots_of_file)), mapping(file.get(), slots, writable) {
  int32_t next = status.slot_count;
  for (size_t i = 0; i < slots.size() && next < int32_t(std::size(status.slots)); ++i) {
    const auto map = reinterpret_cast<uint64_t>(mapping.map(i)),
               begin = map + uint64_t(slots[i].data_offset);
    status.slots[next++] = {slots[i].role, 0,
                            map,           map + uint64_t(slots[i].map_bytes),
                            begin,         begin + uint64_t(slots[i].data_bytes)};
  }
  status.slot_count = next;
}

void MappedTensors::touch(const attest_tensor* tensor) {
  std::vector<MemoryRange> ranges;
  std::vector<size_t> whole;  // slots of which all pages are wanted
  for (size_t i = 0; i < slots.size(); ++i) {
    if (slots[i].role == kWorkspaceRole || mapping.has_pages(i)) continue;
    const attest_tensor& spec = tensor[slots[i].role];
    if (!fills_extent(spec)) {
      touch_elements(spec, data(i), ranges);
      continue;
    }
    const auto begin = reinterpret_cast<uintptr_t>(mapping.map(i));
    ranges.push_back({begin, begin + uintptr_t(slots[i].map_bytes), kStep_bytes});
    whole.push_back(i);
  }
  populate(ranges);
  for (const size_t i : whole) mapping.note_pages(i);
}

}  // namespace attest::core
