// AMX and AVX512_BF16 (products.hpp).
#include "simd/softmax/products.hpp"

#include <cstdlib>
#include <cstring>

#include "simd/softmax/amx_tiles.hpp"

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

// Tile registers 0 to 2 and 3 to 5 are sums, 6 and 7 operands.
constexpr int kLeft = 6, kRight = 7;
template <int sum>
inline void multiply_tiles() {
  amx_tiles::multiply<sum, kLeft, kRight>();
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
    amx_tiles::load<first>(c, row);
    if constexpr (vectors > 1) amx_tiles::load<first + 1>(c + 16, row);
    if constexpr (vectors > 2) amx_tiles::load<first + 2>(c + 32, row);
  } else {
    amx_tiles::clear<first>();
    if constexpr (vectors > 1) amx_tiles::clear<first + 1>();
    if constexpr (vectors > 2) amx_tiles::clear<first + 2>();
  }
  for (int64_t n = 0; n < depth; n += 32, b += 16 * 16 * vectors, before = nullptr) {
    amx_tiles::load<kLeft>(a + n, 2 * a_stride);
    amx_tiles::load<kRight>(b, row);
    multiply_tiles<first>();
    if (before != nullptr) amx_tiles::store<other>(before, row);
    if constexpr (vectors > 1) {
      amx_tiles::load<kRight>(b + 16, row);
      multiply_tiles<first + 1>();
      if (before != nullptr) amx_tiles::store<other + 1>(before + 16, row);
    }
    if constexpr (vectors > 2) {
      amx_tiles::load<kRight>(b + 32, row);
      multiply_tiles<first + 2>();
      if (before != nullptr) amx_tiles::store<other + 2>(before + 32, row);
    }
  }
}

template <int vectors, int first>
void store_rows(float* c) {
  constexpr int64_t row = vectors * 64;
  amx_tiles::store<first>(c, row);
  if constexpr (vectors > 1) amx_tiles::store<first + 1>(c + 16, row);
  if constexpr (vectors > 2) amx_tiles::store<first + 2>(c + 32, row);
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

void amx_multiply(const Left& a, int64_t rows, const uint32_t* b, Width width, int64_t depth,
                  float* c, bool add) {
  if (width.vectors == 3) return multiply_by_tiles<3>(a.data, a.row_stride, rows, b, depth, c, add);
  if (width.vectors == 2) return multiply_by_tiles<2>(a.data, a.row_stride, rows, b, depth, c, add);
  multiply_by_tiles<1>(a.data, a.row_stride, rows, b, depth, c, add);
}

constexpr Products kAmx{"amx", true, amx_multiply, configure_tiles, release_tiles};

// --- AVX512_BF16 ---

#define ATTEST_IMPLS_DOTS __attribute__((target("avx512f,avx512vl,avx512bf16")))

struct WholeVector {
  static constexpr int kLanes = 16;
  using Sums = __m512;
  ATTEST_IMPLS_DOTS static Sums zero() { return _mm512_setzero_ps(); }
  ATTEST_IMPLS_DOTS static Sums load(const float* from) { return _mm512_loadu_ps(from); }
  ATTEST_IMPLS_DOTS static void store(float* to, Sums x) { _mm512_storeu_ps(to, x); }
  ATTEST_IMPLS_DOTS static __m512bh pairs(const uint32_t* from) {
    return reinterpret_cast<__m512bh>(_mm512_loadu_si512(from));
  }
  ATTEST_IMPLS_DOTS static __m512bh everywhere(int32_t pair) {
    return reinterpret_cast<__m512bh>(_mm512_set1_epi32(pair));
  }
  ATTEST_IMPLS_DOTS static Sums add_dots(Sums sums, __m512bh left, __m512bh right) {
    return _mm512_dpbf16_ps(sums, left, right);
  }
  ATTEST_IMPLS_DOTS static Sums add_dots(Sums sums, const int32_t* left, __m512bh right) {
    asm("vdpbf16ps %1%{1to16%}, %2, %0" : "+v"(sums) : "m"(*left), "v"(right));
    return sums;
  }
};

struct HalfVector {
  static constexpr int kLanes = 8;
  using Sums = __m256;
  ATTEST_IMPLS_DOTS static Sums zero() { return _mm256_setzero_ps(); }
  ATTEST_IMPLS_DOTS static Sums load(const float* from) { return _mm256_loadu_ps(from); }
  ATTEST_IMPLS_DOTS static void store(float* to, Sums x) { _mm256_storeu_ps(to, x); }
  ATTEST_IMPLS_DOTS static __m256bh pairs(const uint32_t* from) {
    return reinterpret_cast<__m256bh>(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(from)));
  }
  ATTEST_IMPLS_DOTS static Sums add_dots(Sums sums, const int32_t* left, __m256bh right) {
    asm("vdpbf16ps %1%{1to8%}, %2, %0" : "+v"(sums) : "m"(*left), "v"(right));
    return sums;
  }
};

/// Two or three vectors, rows in tiles of 8. With `close` row_stride of `a` is 2, else pair_stride.
template <int vectors, bool close>
ATTEST_IMPLS_DOTS void multiply_by_dots(const Left& a, int64_t rows, const uint32_t* b,
                                        int64_t depth, float* c, bool add) {
  using V = WholeVector;
  constexpr int height = 8;
  constexpr int64_t wide = 16 * vectors;
  for (int64_t r = 0; r < rows; r += height) {
    float* const out = c + r * wide;
    typename V::Sums sum[height][vectors];
    for (int i = 0; i < height; ++i)
      for (int v = 0; v < vectors; ++v)
        sum[i][v] = add ? V::load(out + i * wide + v * V::kLanes) : V::zero();
    const uint16_t* const first = a.data + r * (close ? 2 : a.row_stride);
    const uint16_t* row[height];
    for (int i = 0; i < height; ++i) row[i] = first + i * a.row_stride;
    for (int64_t n = 0; 2 * n < depth; ++n) {
      decltype(V::pairs(b)) right[vectors];
      for (int v = 0; v < vectors; ++v) right[v] = V::pairs(b + n * wide + v * V::kLanes);
      for (int i = 0; i < height; ++i) {
        int32_t pair;
        __builtin_memcpy(&pair, close ? first + n * a.pair_stride + 2 * i : row[i] + 2 * n, 4);
        const auto left = V::everywhere(pair);
        for (int v = 0; v < vectors; ++v) sum[i][v] = V::add_dots(sum[i][v], left, right[v]);
      }
    }
    for (int i = 0; i < height; ++i)
      for (int v = 0; v < vectors; ++v) V::store(out + i * wide + v * V::kLanes, sum[i][v]);
  }
}

/// The same of one vector, in tiles of 16 rows: as many sums hide the latency of half vectors, of
/// which the processor multiplies two at a time.
template <class V, bool close>
ATTEST_IMPLS_DOTS void multiply_one_vector(const Left& a, int64_t rows, const uint32_t* b,
                                           int64_t depth, float* c, bool add) {
  const int64_t row = 2 * a.row_stride;
  // Sixteen rows by few registers: the compiler must not make a pointer of each.
  int64_t row3 = 3 * row, row5 = 5 * row, row7 = 7 * row;
  asm("" : "+r"(row3), "+r"(row5), "+r"(row7));
  const int64_t step = 2 * a.pair_stride;
  const bool fetches = !close && a.ahead != nullptr;
  const char* ahead = fetches ? a.ahead : reinterpret_cast<const char*>(b);
  const char* also_ahead = fetches ? a.also_ahead : ahead;
  for (int64_t r = 0; r < rows; r += 16) {
    float* const out = c + r * 16;
    typename V::Sums sum[16];
    for (int i = 0; i < 16; ++i) sum[i] = add ? V::load(out + i * 16) : V::zero();
    const char* first = reinterpret_cast<const char*>(a.data + r * a.row_stride);
    const char* second = first + 8 * row;
    for (int64_t n = 0; 2 * n < depth; ++n) {
      const auto right = V::pairs(b + n * 16);
      const auto add_at = [&](const char* left, auto& sums) ATTEST_IMPLS_DOTS {
        sums = V::add_dots(sums, reinterpret_cast<const int32_t*>(left), right);
      };
      if constexpr (close) {
        for (int i = 0; i < 16; ++i) add_at(first + 4 * i, sum[i]);
        first += step;
      } else {
        const auto add_eight = [&](const char* at, auto* sums) ATTEST_IMPLS_DOTS {
          add_at(at, sums[0]);
          add_at(at + row, sums[1]);
          add_at(at + 2 * row, sums[2]);
          add_at(at + row3, sums[3]);
          add_at(at + 4 * row, sums[4]);
          add_at(at + row5, sums[5]);
          add_at(at + 2 * row3, sums[6]);
          add_at(at + row7, sums[7]);
        };
        add_eight(first, sum);
        add_eight(second, sum + 8);
        __builtin_prefetch(ahead + n * 64, 0, 2);
        __builtin_prefetch(also_ahead + n * 64, 0, 2);
        first += 4;
        second += 4;
        asm("" : "+r"(first), "+r"(second));
      }
    }
    for (int i = 0; i < 16; ++i) V::store(out + i * 16, sum[i]);
    if (fetches) {
      ahead += depth * 32;
      also_ahead += depth * 32;
    }
  }
}

template <bool close>
void multiply_by_dots(const Left& a, int64_t rows, const uint32_t* b, Width width, int64_t depth,
                      float* c, bool add) {
  if (width.vectors == 3) return multiply_by_dots<3, close>(a, rows, b, depth, c, add);
  if (width.vectors == 2) return multiply_by_dots<2, close>(a, rows, b, depth, c, add);
  if (!width.half) return multiply_one_vector<WholeVector, close>(a, rows, b, depth, c, add);
  multiply_one_vector<HalfVector, close>(a, rows, b, depth, c, add);
}

void dots_multiply(const Left& a, int64_t rows, const uint32_t* b, Width width, int64_t depth,
                   float* c, bool add) {
  if (a.row_stride == 2) return multiply_by_dots<true>(a, rows, b, width, depth, c, add);
  multiply_by_dots<false>(a, rows, b, width, depth, c, add);
}
void nothing() {}

constexpr Products kDots{"avx512_bf16", false, dots_multiply, nothing, nothing};

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
  return __builtin_cpu_supports("avx512vl") && __get_cpuid_count(7, 1, &a, &b, &c, &d) != 0 &&
         (a & kBf16) != 0;
}

// Intel's do half as many multiplications a second as its float32 FMA.
bool fast_dots() { return __builtin_cpu_is("amd") != 0; }
const Products* dots() {
  static const Products* const found = has_dots() ? &kDots : nullptr;
  return found;
}

#else

const Products* dots() { return nullptr; }
bool fast_dots() { return false; }

#endif

}  // namespace

#if ATTEST_IMPLS_AMX
const Products* amx() {
  static const Products* const found = has_amx() ? &kAmx : nullptr;
  return found;
}
#else
const Products* amx() { return nullptr; }
#endif

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

Float32By demanded_float32() {
  const char* const demand = std::getenv("ATTEST_CPU_F32");
  if (demand == nullptr || *demand == 0) return Float32By::kBest;
  if (std::strcmp(demand, "fma") == 0) return Float32By::kFma;
  if (std::strcmp(demand, "amx") == 0) return Float32By::kAmx;
  if (std::strcmp(demand, "portable_terms") == 0) return Float32By::kPortableTerms;
  return Float32By::kUnknown;
}

}  // namespace impls
