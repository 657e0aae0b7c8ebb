#include "core/isolation/memory/mapping.hpp"

#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "core/tensor/error.hpp"

namespace attest::core {
namespace {

// For less, to move a map takes as long as to map it again.
constexpr int64_t kLeastKept_bytes = int64_t{256} << 10;

FilePart part_of(int fd, const Slot& slot, bool writable) {
  struct stat facts{};
  if (fstat(fd, &facts) != 0)
    throw Error(fmt::format("cannot map shared memory: {}", std::strerror(errno)));
  return {facts.st_dev, facts.st_ino, slot.file_offset, slot.map_bytes, writable};
}

}  // namespace

Mapping::Mapping(int fd, std::span<const Slot> slots, bool writable) {
  bytes_ = size_t(kGuardBytes);
  for (const Slot& slot : slots) bytes_ += size_t(slot.map_bytes + 2 * kGuardBytes);
  void* base = mmap(nullptr, bytes_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (base == MAP_FAILED)
    throw Error(
        fmt::format("cannot reserve {} bytes of addresses: {}", bytes_, std::strerror(errno)));
  base_ = static_cast<char*>(base);
  char* at = base_ + kGuardBytes;
  for (const Slot& slot : slots) {
    maps_.push_back(map_file(fd, slot, writable, at));
    at += slot.map_bytes + 2 * kGuardBytes;
  }
}

Mapping::Map Mapping::map_file(int fd, const Slot& slot, bool writable, char* at) const {
  const FilePart part = part_of(fd, slot, writable);
  if (KeptMaps::instance().take(part, at)) return {at, part, true};
  if (mmap(at, size_t(part.bytes), part.protection(), MAP_SHARED | MAP_FIXED, fd, part.offset) ==
      MAP_FAILED)
    throw Error(
        fmt::format("cannot map {} bytes of shared memory: {}", part.bytes, std::strerror(errno)));
  return {at, part, false};
}

void Mapping::put_away(Map& map) {
  if (map.has_pages && map.part.bytes >= kLeastKept_bytes)
    KeptMaps::instance().keep(map.part, map.at);
  map.has_pages = false;
}

void Mapping::show(int fd, std::span<const Slot> now, std::span<const Slot> slots, bool writable) {
  for (size_t i = 0; i < now.size(); ++i) {
    if (now[i].role == kWorkspaceRole) continue;
    if (i >= slots.size() || slots[i].role != now[i].role ||
        slots[i].map_bytes != now[i].map_bytes || slots[i].data_offset != now[i].data_offset)
      throw Error("tensors that are to lie at the same addresses lie elsewhere in their memory");
    put_away(maps_[i]);
    maps_[i] = map_file(fd, slots[i], writable, maps_[i].at);
  }
}

Mapping::Mapping(Mapping&& other) noexcept { *this = std::move(other); }
Mapping& Mapping::operator=(Mapping&& other) noexcept {
  std::swap(base_, other.base_);
  std::swap(bytes_, other.bytes_);
  std::swap(maps_, other.maps_);
  return *this;
}
Mapping::~Mapping() {
  if (base_) munmap(base_, bytes_);
}

std::pair<void*, size_t> Mapping::close() {
  for (Map& map : maps_) put_away(map);
  if (base_ && mprotect(base_, bytes_, PROT_NONE) != 0)
    throw Error(
        fmt::format("cannot close {} bytes of addresses: {}", bytes_, std::strerror(errno)));
  return {base_, bytes_};
}

void Mapping::withdraw() {
  if (base_ && mmap(base_, bytes_, PROT_NONE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0) == MAP_FAILED)
    throw Error(
        fmt::format("cannot withdraw {} bytes of addresses: {}", bytes_, std::strerror(errno)));
}

}  // namespace attest::core
