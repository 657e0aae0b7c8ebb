// The tile registers of AMX: eight of 16 rows of 64 bytes. The compiler's intrinsics do not say
// that a tile load reads memory, so these do.
#pragma once

#if defined(__x86_64__) && defined(__linux__)
#define ATTEST_IMPLS_AMX 1

#include <cstdint>

namespace impls::amx_tiles {

template <int tile>
inline void load(const void* from, int64_t stride) {
  asm volatile("tileloadd (%0,%1,1), %%tmm%c2" ::"r"(from), "r"(stride), "i"(tile) : "memory");
}
template <int tile>
inline void store(void* to, int64_t stride) {
  asm volatile("tilestored %%tmm%c2, (%0,%1,1)" ::"r"(to), "r"(stride), "i"(tile) : "memory");
}
template <int tile>
inline void clear() {
  asm volatile("tilezero %%tmm%c0" ::"i"(tile) : "memory");
}
/// sum += left right, of pairs of bf16.
template <int sum, int left, int right>
inline void multiply() {
  asm volatile("tdpbf16ps %%tmm%c2, %%tmm%c1, %%tmm%c0" ::"i"(sum), "i"(left), "i"(right)
               : "memory");
}

}  // namespace impls::amx_tiles

#else
#define ATTEST_IMPLS_AMX 0
#endif
