#include "core/isolation/memory/kept_maps.hpp"

#include <sys/mman.h>

#include <algorithm>

#ifndef MREMAP_DONTUNMAP
#define MREMAP_DONTUNMAP 4  // Linux 5.7; of shared files, 5.13
#endif

namespace attest::core {
namespace {

bool move(void* from, void* to, int64_t bytes, int more_flags = 0) {
  return mremap(from, size_t(bytes), size_t(bytes), MREMAP_MAYMOVE | MREMAP_FIXED | more_flags,
                to) != MAP_FAILED;
}

}  // namespace

KeptMaps& KeptMaps::instance() {
  static KeptMaps maps;
  return maps;
}

// The addresses at `at` never become free: a thread of the plugin could be given them.
bool KeptMaps::keep(const FilePart& part, char* at) {
  void* const to = mmap(nullptr, size_t(part.bytes), PROT_NONE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (to == MAP_FAILED) return false;
  if (!move(at, to, part.bytes, MREMAP_DONTUNMAP)) {
    munmap(to, size_t(part.bytes));
    return false;
  }
  kept_.push_front({part, to});
  bytes_ += part.bytes;
  return true;
}

bool KeptMaps::take(const FilePart& part, char* at) {
  const auto found =
      std::ranges::find_if(kept_, [&](const Kept& kept) { return kept.part == part; });
  if (found == kept_.end() || !move(found->at, at, part.bytes)) return false;
  bytes_ -= part.bytes;
  kept_.erase(found);
  return true;
}

void KeptMaps::release_all_but(int64_t most_bytes) {
  for (; bytes_ > most_bytes; kept_.pop_back()) {
    munmap(kept_.back().at, size_t(kept_.back().part.bytes));
    bytes_ -= kept_.back().part.bytes;
  }
}

}  // namespace attest::core
