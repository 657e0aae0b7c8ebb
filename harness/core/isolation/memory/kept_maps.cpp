#include "core/isolation/memory/kept_maps.hpp"

#include <unistd.h>

#include <algorithm>

#include "core/isolation/memory/shared_memory.hpp"

#ifndef MREMAP_DONTUNMAP
#define MREMAP_DONTUNMAP 4  // Linux 5.7; of shared files, 5.13
#endif

namespace attest::core {
namespace {

size_t with_guards(int64_t bytes) { return size_t(bytes + 2 * kGuardBytes); }

char* reserve(int64_t bytes) {
  void* const reserved = mmap(nullptr, with_guards(bytes), PROT_NONE,
                              MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return reserved == MAP_FAILED ? nullptr : static_cast<char*>(reserved);
}

bool move(char* from, char* to, int64_t bytes, int more_flags = 0) {
  return mremap(from, size_t(bytes), size_t(bytes), MREMAP_MAYMOVE | MREMAP_FIXED | more_flags,
                to) != MAP_FAILED;
}

// Tries it with a page. A system that cannot may unmap the page's new place, so that this place is
// not unmapped here: somebody else may be there.
bool system_keeps() {
  const int64_t page = sysconf(_SC_PAGESIZE);
  const Descriptor file(memfd_create("attest", MFD_CLOEXEC));
  if (!file || ftruncate(file.get(), page) != 0) return false;
  void* const from = mmap(nullptr, size_t(page), PROT_READ, MAP_SHARED, file.get(), 0);
  if (from == MAP_FAILED) return false;
  char* const reserved = reserve(page);
  const bool moved =
      reserved && move(static_cast<char*>(from), reserved + kGuardBytes, page, MREMAP_DONTUNMAP);
  munmap(from, size_t(page));
  if (moved) munmap(reserved, with_guards(page));
  return moved;
}

}  // namespace

KeptMaps::KeptMaps() : can_keep_(system_keeps()) {}

// Never destroyed: a Mapping may outlive any static object.
KeptMaps& KeptMaps::instance() {
  static KeptMaps& maps = *new KeptMaps;
  return maps;
}

// The addresses at `at` never become free: a thread of the plugin could be given them.
void KeptMaps::keep(const FilePart& part, char* at) {
  char* const reserved = can_keep_ ? reserve(part.bytes) : nullptr;
  if (reserved && move(at, reserved + kGuardBytes, part.bytes, MREMAP_DONTUNMAP))
    kept_.push_front({part, reserved});
}

bool KeptMaps::take(const FilePart& part, char* at) {
  const auto found =
      std::ranges::find_if(kept_, [&](const Kept& kept) { return kept.part == part; });
  if (found == kept_.end() || !move(found->reserved + kGuardBytes, at, part.bytes)) return false;
  // The plugin may have changed what it may do there.
  mprotect(at, size_t(part.bytes), part.protection());
  munmap(found->reserved, size_t(kGuardBytes));
  munmap(found->reserved + kGuardBytes + part.bytes, size_t(kGuardBytes));
  kept_.erase(found);
  return true;
}

void KeptMaps::release() {
  for (const Kept& kept : kept_) munmap(kept.reserved, with_guards(kept.part.bytes));
  kept_.clear();
}

int64_t KeptMaps::bytes() const {
  int64_t bytes = 0;
  for (const Kept& kept : kept_) bytes += kept.part.bytes;
  return bytes;
}

}  // namespace attest::core
