#include "core/worker/mapped.hpp"

#include <sys/mman.h>

#include <cstdint>

#include "core/tensor/runs.hpp"

#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ 22  // Linux 5.14; older systems refuse it
#endif

namespace attest::core {

namespace {

constexpr int64_t kLeastPage_bytes = 4096;
// For less, a call of the system takes as long as the reads.
constexpr int64_t kLeastAtOnce_bytes = int64_t{64} << 10;

// The system maps many pages at once in three quarters of the time that reads of them take.
bool populate(const char* begin, int64_t bytes) {
  if (bytes < kLeastAtOnce_bytes) return false;
  const auto address = reinterpret_cast<uintptr_t>(begin), first = address / kLeastPage_bytes;
  auto* const page = reinterpret_cast<void*>(first * kLeastPage_bytes);
  return madvise(page, size_t(bytes) + (address - first * kLeastPage_bytes), MADV_POPULATE_READ) ==
         0;
}

void touch_elements(const attest_tensor& spec, const char* data) {
  const auto width = int64_t(dtype_bytes(spec.dtype));
  for_each_run(spec, [&](int64_t first, int64_t count) {
    const char *begin = data + first * width, *last = begin + count * width - 1;
    if (populate(begin, count * width)) return;
    for (const char* at = begin; at < last; at += kLeastPage_bytes)
      (void)*static_cast<const volatile char*>(at);
    (void)*static_cast<const volatile char*>(last);
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

void MappedTensors::touch(const attest_tensor* tensor) const {
  for (size_t i = 0; i < slots.size(); ++i)
    if (slots[i].role != kWorkspaceRole)
      touch_elements(tensor[slots[i].role], static_cast<const char*>(data(i)));
}

}  // namespace attest::core
