#include "core/run/mapped.hpp"

#include <nlohmann/json.hpp>

#include "core/run/channel.hpp"

namespace attest::core {

MappedTensors::MappedTensors(const nlohmann::json& request, const char* key, const Descriptor& file, bool writable,
                             StatusPage& status)
    : slots(from_bytes<Slot>(request.at(key).get_binary())), mapping(file.get(), slots, writable) {
  int32_t next = status.slot_count;
  for (size_t i = 0; i < slots.size() && next < int32_t(std::size(status.slots)); ++i) {
    const auto begin = reinterpret_cast<uint64_t>(mapping.data(i));
    const uint64_t map = begin - uint64_t(slots[i].data_offset);
    status.slots[next++] = {
        slots[i].role, 0, map, map + uint64_t(slots[i].map_bytes), begin, begin + uint64_t(slots[i].data_bytes)};
    // Touched now, so that the run's own growth is measured, not the tensors'. The workspace is the run's own.
    if (slots[i].role == kWorkspaceRole) continue;
    for (int64_t at = 0; at < slots[i].map_bytes; at += 4096) (void)*(reinterpret_cast<const volatile char*>(map) + at);
  }
  status.slot_count = next;
}

}  // namespace attest::core
