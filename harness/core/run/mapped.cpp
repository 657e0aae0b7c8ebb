#include "core/run/mapped.hpp"

#include <nlohmann/json.hpp>

#include "core/run/channel.hpp"
#include "core/tensor/runs.hpp"

namespace attest::core {

namespace {

// Reads one byte of every page that the tensor's elements lie in.
void touch(const attest_tensor& spec, const char* data) {
  const auto width = int64_t(dtype_bytes(spec.dtype));
  for_each_run(spec, [&](int64_t first, int64_t count) {
    const char *begin = data + first * width, *last = begin + count * width - 1;
    for (const char* at = begin; at < last; at += 4096) (void)*static_cast<const volatile char*>(at);
    (void)*static_cast<const volatile char*>(last);
  });
}

}  // namespace

MappedTensors::MappedTensors(const nlohmann::json& request, const char* key, const attest_tensor* tensor, const Descriptor& file,
                             bool writable, StatusPage& status)
    : slots(from_bytes<Slot>(request.at(key).get_binary())), mapping(file.get(), slots, writable) {
  int32_t next = status.slot_count;
  for (size_t i = 0; i < slots.size() && next < int32_t(std::size(status.slots)); ++i) {
    const auto map = reinterpret_cast<uint64_t>(mapping.map(i)), begin = map + uint64_t(slots[i].data_offset);
    status.slots[next++] = {
        slots[i].role, 0, map, map + uint64_t(slots[i].map_bytes), begin, begin + uint64_t(slots[i].data_bytes)};
    // Touched now, so that the run's own growth is measured, not the tensors'. The workspace is the run's own.
    if (slots[i].role != kWorkspaceRole) touch(tensor[slots[i].role], static_cast<const char*>(data(i)));
  }
  status.slot_count = next;
}

}  // namespace attest::core
