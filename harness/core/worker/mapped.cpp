#include "core/worker/mapped.hpp"

#include <algorithm>

#include "core/measure/machine/affinity.hpp"
#include "core/tensor/runs.hpp"

namespace attest::core {

namespace {

// For fewer bytes, threads take as long to start as they save.
constexpr int64_t kLeastShared_bytes = int64_t{8} << 20;
constexpr int64_t kLeastPage_bytes = 4096;

void touch_pages(const char* begin, int64_t bytes) {
  if (bytes <= 0) return;
  for (int64_t at = 0; at < bytes; at += kLeastPage_bytes)
    (void)*static_cast<const volatile char*>(begin + at);
  (void)*static_cast<const volatile char*>(begin + bytes - 1);
}

void touch_elements(const attest_tensor& spec, const char* data, const std::vector<int>& cpus) {
  const auto width = int64_t(dtype_bytes(spec.dtype));
  for_each_run(spec, [&](int64_t first, int64_t count) {
    const char* const begin = data + first * width;
    const int64_t bytes = count * width, cpu_count = std::ssize(cpus),
                  share =
                      bytes / std::max<int64_t>(cpu_count, 1) / kLeastPage_bytes * kLeastPage_bytes;
    if (bytes < kLeastShared_bytes || cpu_count < 2) return touch_pages(begin, bytes);
    on_every_cpu(cpus, [&](size_t i) {
      const bool is_last = int64_t(i) + 1 == cpu_count;
      touch_pages(begin + int64_t(i) * share, is_last ? bytes - int64_t(i) * share : share);
    });
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
  const std::vector<int> cpus = allowed_cpus();
  for (size_t i = 0; i < slots.size(); ++i)
    if (slots[i].role != kWorkspaceRole)
      touch_elements(tensor[slots[i].role], static_cast<const char*>(data(i)), cpus);
}

}  // namespace attest::core
