#include "core/measure/compute_units.hpp"

#include "core/measure/probe_kernels.hpp"

#if defined(__x86_64__)
#include <cpuid.h>
#include <immintrin.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

namespace attest::core {
namespace {

#if defined(__x86_64__)

// Intel 64 and IA-32 Architectures Software Developer's Manual, volume 2A, CPUID, leaf 7.
struct Leaf7 {
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
};
Leaf7 read_leaf7(unsigned subleaf) {
  Leaf7 leaf;
  if (__get_cpuid_count(7, subleaf, &leaf.eax, &leaf.ebx, &leaf.ecx, &leaf.edx) == 0) return {};
  return leaf;
}

// Which registers the system saves when it switches threads: XCR0.
uint64_t saved_registers() {
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  constexpr unsigned kOsXsave = 1u << 27;
  if (__get_cpuid(1, &eax, &ebx, &ecx, &edx) == 0 || (ecx & kOsXsave) == 0) return 0;
  unsigned low = 0, high = 0;
  __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return uint64_t(high) << 32 | low;
}
bool saves(uint64_t registers) { return (saved_registers() & registers) == registers; }

constexpr uint64_t kAvx512Registers = 0xe6;      // xmm, ymm, and the three parts of AVX-512
constexpr uint64_t kTileRegisters = 3ull << 17;  // their configuration and their data

bool has_avx512() {
  constexpr unsigned kAvx512F = 1u << 16;
  return saves(kAvx512Registers) && (read_leaf7(0).ebx & kAvx512F) != 0;
}
bool has_avx512_bf16() { return has_avx512() && (read_leaf7(1).eax & 1u << 5) != 0; }
bool has_avx512_fp16() { return has_avx512() && (read_leaf7(0).edx & 1u << 23) != 0; }

// Linux refuses the first tile instruction of a process that has not asked (Documentation/arch/x86/
// xstate.rst).
bool may_use_tiles() {
#if defined(SYS_arch_prctl)
  constexpr long kRequestPermission = 0x1023, kTileData = 18;
  return syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
#else
  return false;
#endif
}
bool has_amx_bf16() {
  constexpr unsigned kAmxBf16 = 1u << 22, kAmxTile = 1u << 24;
  constexpr unsigned kBoth = kAmxBf16 | kAmxTile;
  return saves(kTileRegisters) && (read_leaf7(0).edx & kBoth) == kBoth && may_use_tiles();
}

constexpr int kRepeats = 8;  // of all chains in a round
constexpr uint16_t kOneBf16 = 0x3f80;

// Twelve chains hide six cycles of latency on two units. They start apart, so that the compiler
// cannot merge two; the sums grow until nothing changes any more, and never overflow.
__attribute__((target("avx512f,avx512bf16"))) double run_avx512_bf16(int64_t rounds) {
  const __m512bh one = (__m512bh)_mm512_set1_epi16(short(kOneBf16));
  __m512 a = _mm512_set1_ps(1), b = _mm512_set1_ps(2), c = _mm512_set1_ps(3), d = _mm512_set1_ps(4),
         e = _mm512_set1_ps(5), f = _mm512_set1_ps(6);
  __m512 g = _mm512_set1_ps(7), h = _mm512_set1_ps(8), i = _mm512_set1_ps(9),
         j = _mm512_set1_ps(10), k = _mm512_set1_ps(11), l = _mm512_set1_ps(12);
  for (int64_t round = 0; round < rounds; ++round)
    for (int repeat = 0; repeat < kRepeats; ++repeat) {
      a = _mm512_dpbf16_ps(a, one, one);
      b = _mm512_dpbf16_ps(b, one, one);
      c = _mm512_dpbf16_ps(c, one, one);
      d = _mm512_dpbf16_ps(d, one, one);
      e = _mm512_dpbf16_ps(e, one, one);
      f = _mm512_dpbf16_ps(f, one, one);
      g = _mm512_dpbf16_ps(g, one, one);
      h = _mm512_dpbf16_ps(h, one, one);
      i = _mm512_dpbf16_ps(i, one, one);
      j = _mm512_dpbf16_ps(j, one, one);
      k = _mm512_dpbf16_ps(k, one, one);
      l = _mm512_dpbf16_ps(l, one, one);
    }
  const __m512 sum = _mm512_add_ps(_mm512_add_ps(_mm512_add_ps(a, b), _mm512_add_ps(c, d)),
                                   _mm512_add_ps(_mm512_add_ps(e, f), _mm512_add_ps(g, h)));
  const __m512 rest = _mm512_add_ps(_mm512_add_ps(i, j), _mm512_add_ps(k, l));
  const __m512 kept = _mm512_add_ps(sum, rest);
  __asm__ volatile("" : : "v"(kept));    // the loop is not to be left out
  constexpr double kFlops = 2 * 2 * 16;  // a multiply-add of two pairs in each of 16 lanes
  return kFlops * 12 * kRepeats * double(rounds);
}

#if defined(__clang__) ? __clang_major__ >= 14 : __GNUC__ >= 12
#define ATTEST_HAS_FP16_LOOP 1
// x -> x / 2 + 1 / 4 runs towards 1 / 2, from another start in each chain.
__attribute__((target("avx512f,avx512fp16"))) double run_avx512_fp16(int64_t rounds) {
  // Halves by their bits, since older compilers lack the type: 0x3c00 is 1.
  const __m512h half = (__m512h)_mm512_set1_epi16(0x3800),
                step = (__m512h)_mm512_set1_epi16(0x3400);
  __m512h a = (__m512h)_mm512_set1_epi16(0x3c00);
  __m512h b = (__m512h)_mm512_set1_epi16(0x3d00);
  __m512h c = (__m512h)_mm512_set1_epi16(0x3e00);
  __m512h d = (__m512h)_mm512_set1_epi16(0x3f00);
  __m512h e = (__m512h)_mm512_set1_epi16(0x4000);
  __m512h f = (__m512h)_mm512_set1_epi16(0x4100);
  __m512h g = (__m512h)_mm512_set1_epi16(0x4200);
  __m512h h = (__m512h)_mm512_set1_epi16(0x4300);
  __m512h i = (__m512h)_mm512_set1_epi16(0x4400);
  __m512h j = (__m512h)_mm512_set1_epi16(0x4500);
  __m512h k = (__m512h)_mm512_set1_epi16(0x4600);
  __m512h l = (__m512h)_mm512_set1_epi16(0x4700);
  for (int64_t round = 0; round < rounds; ++round)
    for (int repeat = 0; repeat < kRepeats; ++repeat) {
      a = _mm512_fmadd_ph(a, half, step);
      b = _mm512_fmadd_ph(b, half, step);
      c = _mm512_fmadd_ph(c, half, step);
      d = _mm512_fmadd_ph(d, half, step);
      e = _mm512_fmadd_ph(e, half, step);
      f = _mm512_fmadd_ph(f, half, step);
      g = _mm512_fmadd_ph(g, half, step);
      h = _mm512_fmadd_ph(h, half, step);
      i = _mm512_fmadd_ph(i, half, step);
      j = _mm512_fmadd_ph(j, half, step);
      k = _mm512_fmadd_ph(k, half, step);
      l = _mm512_fmadd_ph(l, half, step);
    }
  const __m512h sum = _mm512_add_ph(_mm512_add_ph(_mm512_add_ph(a, b), _mm512_add_ph(c, d)),
                                    _mm512_add_ph(_mm512_add_ph(e, f), _mm512_add_ph(g, h)));
  const __m512h rest = _mm512_add_ph(_mm512_add_ph(i, j), _mm512_add_ph(k, l));
  const __m512 kept = (__m512)_mm512_add_ph(sum, rest);
  __asm__ volatile("" : : "v"(kept));  // the loop is not to be left out
  constexpr double kFlops = 2 * 32;    // a multiply-add in each of 32 lanes
  return kFlops * 12 * kRepeats * double(rounds);
}
#endif

// Palette 1: eight tiles of 16 rows of 64 bytes.
struct alignas(64) TileConfiguration {
  uint8_t palette = 1, start_row = 0, reserved[14] = {};
  uint16_t row_bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
  uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
};
static_assert(sizeof(TileConfiguration) == 64);

struct alignas(64) TileOfOnes {
  uint16_t element[16 * 32];
  constexpr TileOfOnes() : element() {
    for (uint16_t& one : element) one = kOneBf16;
  }
};

// Static, because g++ 12 takes local variables that only tile instructions read for unused.
constinit const TileConfiguration kTiles;
constinit const TileOfOnes kOnes;

// Four tiles of sums, 16 x 16 f32 each, from two tiles of left factors, 16 x 32 bf16, and two of
// right ones.
__attribute__((target("amx-tile,amx-bf16"))) double run_amx_bf16(int64_t rounds) {
  _tile_loadconfig(&kTiles);
  _tile_zero(0);
  _tile_zero(1);
  _tile_zero(2);
  _tile_zero(3);
  _tile_loadd(4, kOnes.element, 64);
  _tile_loadd(5, kOnes.element, 64);
  _tile_loadd(6, kOnes.element, 64);
  _tile_loadd(7, kOnes.element, 64);
  for (int64_t round = 0; round < rounds; ++round) {
    _tile_dpbf16ps(0, 4, 6);
    _tile_dpbf16ps(1, 4, 7);
    _tile_dpbf16ps(2, 5, 6);
    _tile_dpbf16ps(3, 5, 7);
  }
  _tile_release();
  constexpr double kFlops = 2 * 16 * 16 * 32;
  return kFlops * 4 * double(rounds);
}

void add_x86_units(std::vector<ComputeUnit>& units) {
#if defined(ATTEST_HAS_FP16_LOOP)
  if (has_avx512_fp16()) units.push_back({"f16", "AVX-512 FP16", run_avx512_fp16});
#endif
  if (has_avx512_bf16()) units.push_back({"bf16", "AVX-512 BF16", run_avx512_bf16});
  if (has_amx_bf16()) units.push_back({"bf16", "AMX", run_amx_bf16});
}

#endif  // x86-64

}  // namespace

std::vector<ComputeUnit> compute_units() {
  std::vector<ComputeUnit> units{{"f32", vectors_in_use(), run_multiply_adds}};
#if defined(__x86_64__)
  add_x86_units(units);
#endif
  return units;
}

}  // namespace attest::core
