// AMX and AVX512_BF16 (products.hpp).
#include "simd/products.hpp"

#include <cstdlib>
#include <cstring>

#if defined(__x86_64__) && defined(__linux__)
#include <cpuid.h>
#include <immintrin.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

namespace impls {
namespace {

#if defined(__x86_64__) && defined(__linux__)

// --- AMX ---

// Eight tile registers of 16 rows of 64 bytes: 0 to 2 and 3 to 5 are sums, 6 and 7 operands. The
// compiler's intrinsics do not say that a tile load reads memory, so these do.
template <int tile>
inline void load_tile(const void* from, int64_t stride) {
  asm volatile("tileloadd (%0,%1,1), %%tmm%c2" ::"r"(from), "r"(stride), "i"(tile) : "memory");
}
template <int tile>
inline void store_tile(void* to, int64_t stride) {
  asm volatile("tilestored %%tmm%c2, (%0,%1,1)" ::"r"(to), "r"(stride), "i"(tile) : "memory");
}
template <int tile>
inline void clear_tile() {
  asm volatile("tilezero %%tmm%c0" ::"i"(tile) : "memory");
}
constexpr int kLeft = 6, kRight = 7;
template <int sum>
inline void multiply_tiles() {
  asm volatile("tdpbf16ps %%tmm%c2, %%tmm%c1, %%tmm%c0" ::"i"(sum), "i"(kLeft), "i"(kRight)
               : "memory");
}

struct alignas(64) TileConfiguration {
  uint8_t palette = 1, start_row = 0, reserved[14] = {};
  uint16_t bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};  // of a row
  uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
};
constexpr TileConfiguration kConfiguration;

void configure_tiles() { asm volatile("ldtilecfg %0" ::"m"(kConfiguration) : "memory"); }
// The state of the tiles is saved at every switch of threads until it is released.
void release_tiles() { asm volatile("tilerelease" ::: "memory"); }

/// 16 rows of c into the tiles from `first` on. Meanwhile the other sums are stored to `before`, if
/// there are any: right after its products a store would wait for them.
template <int vectors, int first>
void multiply_rows(const uint16_t* a, int64_t a_stride, const uint32_t* b, int64_t depth,
                   const float* c, bool add, float* before) {
  constexpr int other = 3 - first;
  constexpr int64_t row = vectors * 64;  // bytes of b and c
  if (add) {
    load_tile<first>(c, row);
    if constexpr (vectors > 1) load_tile<first + 1>(c + 16, row);
    if constexpr (vectors > 2) load_tile<first + 2>(c + 32, row);
  } else {
    clear_tile<first>();
    if constexpr (vectors > 1) clear_tile<first + 1>();
    if constexpr (vectors > 2) clear_tile<first + 2>();
  }
  for (int64_t n = 0; n < depth; n += 32, b += 16 * 16 * vectors, before = nullptr) {
    load_tile<kLeft>(a + n, 2 * a_stride);
    load_tile<kRight>(b, row);
    multiply_tiles<first>();
    if (before != nullptr) store_tile<other>(before, row);
    if constexpr (vectors > 1) {
      load_tile<kRight>(b + 16, row);
      multiply_tiles<first + 1>();
      if (before != nullptr) store_tile<other + 1>(before + 16, row);
    }
    if constexpr (vectors > 2) {
      load_tile<kRight>(b + 32, row);
      multiply_tiles<first + 2>();
      if (before != nullptr) store_tile<other + 2>(before + 32, row);
    }
  }
}

template <int vectors, int first>
void store_rows(float* c) {
  constexpr int64_t row = vectors * 64;
  store_tile<first>(c, row);
  if constexpr (vectors > 1) store_tile<first + 1>(c + 16, row);
  if constexpr (vectors > 2) store_tile<first + 2>(c + 32, row);
}

template <int vectors>
void multiply_by_tiles(const uint16_t* a, int64_t a_stride, int64_t rows, const uint32_t* b,
                       int64_t depth, float* c, bool add) {
  constexpr int64_t step = 16 * 16 * vectors;
  float* before = nullptr;
  for (; rows > 16; rows -= 32, a += 32 * a_stride, c += 2 * step) {
    multiply_rows<vectors, 0>(a, a_stride, b, depth, c, add, before);
    multiply_rows<vectors, 3>(a + 16 * a_stride, a_stride, b, depth, c + step, add, c);
    before = c + step;
  }
  if (rows > 0) {
    multiply_rows<vectors, 0>(a, a_stride, b, depth, c, add, before);
    store_rows<vectors, 0>(c);
  } else {
    store_rows<vectors, 3>(before);
  }
}

void amx_multiply(const uint16_t* a, int64_t a_stride, int64_t rows, const uint32_t* b, int vectors,
                  int64_t depth, float* c, bool add) {
  if (vectors == 3) return multiply_by_tiles<3>(a, a_stride, rows, b, depth, c, add);
  if (vectors == 2) return multiply_by_tiles<2>(a, a_stride, rows, b, depth, c, add);
  multiply_by_tiles<1>(a, a_stride, rows, b, depth, c, add);
}

constexpr Products kAmx{"amx", amx_multiply, configure_tiles, release_tiles};

// --- AVX512_BF16 ---

template <int vectors>
__attribute__((target("avx512f,avx512bf16"))) void multiply_by_dots(const uint16_t* a,
                                                                    int64_t a_stride, int64_t rows,
                                                                    const uint32_t* b,
                                                                    int64_t depth, float* c,
                                                                    bool add) {
  constexpr int kHeight = 8;  // rows of a register tile
  constexpr int64_t wide = 16 * vectors;
  for (int64_t r = 0; r < rows; r += kHeight) {
    float* const out = c + r * wide;
    __m512 sum[kHeight][vectors];
    for (int i = 0; i < kHeight; ++i)
      for (int v = 0; v < vectors; ++v)
        sum[i][v] = add ? _mm512_loadu_ps(out + i * wide + v * 16) : _mm512_setzero_ps();
    const uint16_t* row[kHeight];
    for (int i = 0; i < kHeight; ++i) row[i] = a + (r + i) * a_stride;
    for (int64_t n = 0; n < depth; n += 2) {
      __m512bh right[vectors];
      for (int v = 0; v < vectors; ++v)
        right[v] = reinterpret_cast<__m512bh>(_mm512_loadu_si512(b + n / 2 * wide + v * 16));
      for (int i = 0; i < kHeight; ++i) {
        int32_t pair;
        __builtin_memcpy(&pair, row[i] + n, 4);
        const __m512bh left = reinterpret_cast<__m512bh>(_mm512_set1_epi32(pair));
        for (int v = 0; v < vectors; ++v) sum[i][v] = _mm512_dpbf16_ps(sum[i][v], left, right[v]);
      }
    }
    for (int i = 0; i < kHeight; ++i)
      for (int v = 0; v < vectors; ++v) _mm512_storeu_ps(out + i * wide + v * 16, sum[i][v]);
  }
}

void dots_multiply(const uint16_t* a, int64_t a_stride, int64_t rows, const uint32_t* b,
                   int vectors, int64_t depth, float* c, bool add) {
  if (vectors == 3) return multiply_by_dots<3>(a, a_stride, rows, b, depth, c, add);
  if (vectors == 2) return multiply_by_dots<2>(a, a_stride, rows, b, depth, c, add);
  multiply_by_dots<1>(a, a_stride, rows, b, depth, c, add);
}
void nothing() {}

constexpr Products kDots{"avx512_bf16", dots_multiply, nothing, nothing};

// --- What this processor has ---

bool has_amx() {
  uint32_t a = 0, b = 0, c = 0, d = 0;
  constexpr uint32_t kTiles = 1u << 24, kBf16 = 1u << 22;  // CPUID 7.0, EDX
  if (__get_cpuid_count(7, 0, &a, &b, &c, &d) == 0 || (d & kTiles) == 0 || (d & kBf16) == 0)
    return false;
  // The kernel gives the tiles' state only to processes that ask: ARCH_REQ_XCOMP_PERM, XTILEDATA.
  return syscall(SYS_arch_prctl, 0x1023, 18) == 0;
}

bool has_dots() {
  uint32_t a = 0, b = 0, c = 0, d = 0;
  constexpr uint32_t kBf16 = 1u << 5;  // CPUID 7.1, EAX
  return __builtin_cpu_supports("avx512f") && __get_cpuid_count(7, 1, &a, &b, &c, &d) != 0 &&
         (a & kBf16) != 0;
}

const Products* amx() {
  static const Products* const found = has_amx() ? &kAmx : nullptr;
  return found;
}
// Intel's do half as many multiplications a second as its float32 FMA.
bool fast_dots() { return __builtin_cpu_is("amd") != 0; }
const Products* dots() {
  static const Products* const found = has_dots() ? &kDots : nullptr;
  return found;
}

#else

const Products* amx() { return nullptr; }
const Products* dots() { return nullptr; }
bool fast_dots() { return false; }

#endif

}  // namespace

ProductsChoice choose_products() {
  const char* const demand = std::getenv("ATTEST_CPU_BF16");
  if (demand == nullptr || *demand == 0) {
    if (amx() != nullptr) return {amx(), nullptr};
    return {fast_dots() ? dots() : nullptr, nullptr};
  }
  if (std::strcmp(demand, "portable") == 0) return {nullptr, nullptr};
  if (std::strcmp(demand, "amx") == 0)
    return {amx(), amx() == nullptr ? "ATTEST_CPU_BF16=amx: no AMX with bf16 here" : nullptr};
  if (std::strcmp(demand, "avx512_bf16") == 0)
    return {dots(),
            dots() == nullptr ? "ATTEST_CPU_BF16=avx512_bf16: no AVX512_BF16 here" : nullptr};
  return {nullptr, "ATTEST_CPU_BF16 is none of amx, avx512_bf16, portable"};
}

}  // namespace impls
