#include "core/measure/limits/compute_units.hpp"

#include "core/measure/limits/probe_kernels.hpp"

#if defined(__x86_64__)
#include <cpuid.h>
#include <immintrin.h>
#include <sys/syscall.h>
#include <unistd.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#include <sys/auxv.h>
#endif

namespace attest::core {
namespace {

#if defined(__x86_64__) || defined(__aarch64__)
// Twelve chains hide six cycles of latency on two units.
constexpr int kChains = 12;
constexpr int kRepeats = 8;  // of all chains in a round
constexpr uint16_t kOneBf16 = 0x3f80;
// All steps of a round become one line of code, so that the chains stay in registers.
#if defined(__clang__)
#define ATTEST_UNROLL _Pragma("unroll")
#else
#define ATTEST_UNROLL _Pragma("GCC unroll 96")
#endif
#endif

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
// Not called where the compiler lacks AVX-512 FP16, as g++ 11 does.
[[maybe_unused]] bool has_avx512_fp16() {
  return has_avx512() && (read_leaf7(0).edx & 1u << 23) != 0;
}

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
bool has_tiles() {
  constexpr unsigned kAmxTile = 1u << 24;
  return saves(kTileRegisters) && (read_leaf7(0).edx & kAmxTile) != 0 && may_use_tiles();
}
bool has_amx_bf16() { return (read_leaf7(0).edx & 1u << 22) != 0 && has_tiles(); }
bool has_amx_fp16() { return (read_leaf7(1).eax & 1u << 21) != 0 && has_tiles(); }

// The sums start apart, so that the compiler cannot merge two; they grow until nothing changes any
// more, and never overflow.
__attribute__((target("avx512f,avx512bf16"))) double run_avx512_bf16(int64_t rounds) {
  const __m512bh one = (__m512bh)_mm512_set1_epi16(short(kOneBf16));
  __m512 sum[kChains];
  for (int chain = 0; chain < kChains; ++chain) sum[chain] = _mm512_set1_ps(float(chain + 1));
  for (int64_t round = 0; round < rounds; ++round) {
    ATTEST_UNROLL
    for (int step = 0; step < kChains * kRepeats; ++step)
      sum[step % kChains] = _mm512_dpbf16_ps(sum[step % kChains], one, one);
  }
  ATTEST_UNROLL
  for (const __m512& kept : sum) __asm__ volatile("" : : "v"(kept));  // the loop is not left out
  constexpr double kFlops = 2 * 2 * 16;  // a multiply-add of two pairs in each of 16 lanes
  return kFlops * kChains * kRepeats * double(rounds);
}

#if defined(__clang__) ? __clang_major__ >= 16 : __GNUC__ >= 12
#define ATTEST_HAS_FP16_LOOP 1
// x -> x / 2 + 1 / 4 runs towards 1 / 2, from another start in each chain.
__attribute__((target("avx512f,avx512fp16"))) double run_avx512_fp16(int64_t rounds) {
  // Halves by their bits, since older compilers lack the type: 0x3c00 is 1.
  const __m512h half = (__m512h)_mm512_set1_epi16(0x3800),
                quarter = (__m512h)_mm512_set1_epi16(0x3400);
  __m512h x[kChains];
  for (int chain = 0; chain < kChains; ++chain)
    x[chain] = (__m512h)_mm512_set1_epi16(short(0x3c00 + 0x100 * chain));
  for (int64_t round = 0; round < rounds; ++round) {
    ATTEST_UNROLL
    for (int step = 0; step < kChains * kRepeats; ++step)
      x[step % kChains] = _mm512_fmadd_ph(x[step % kChains], half, quarter);
  }
  ATTEST_UNROLL
  for (const __m512h& kept : x) __asm__ volatile("" : : "v"((__m512)kept));
  constexpr double kFlops = 2 * 32;  // a multiply-add in each of 32 lanes
  return kFlops * kChains * kRepeats * double(rounds);
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
  constexpr explicit TileOfOnes(uint16_t one) : element() {
    for (uint16_t& each : element) each = one;
  }
};

// Static, because g++ 12 takes local variables that only tile instructions read for unused.
constinit const TileConfiguration kTiles;
constinit const TileOfOnes kBf16Ones(kOneBf16), kFp16Ones(0x3c00);

__attribute__((target("amx-tile"))) void load_tiles(const TileOfOnes& ones) {
  _tile_loadconfig(&kTiles);
  _tile_zero(0);
  _tile_zero(1);
  _tile_zero(2);
  _tile_zero(3);
  _tile_loadd(4, ones.element, 64);
  _tile_loadd(5, ones.element, 64);
  _tile_loadd(6, ones.element, 64);
  _tile_loadd(7, ones.element, 64);
}

// Four tiles of sums, 16 x 16 f32 each, from two tiles of left factors, 16 x 32 elements of 16
// bits, and two of right ones.
constexpr double kFlopsOfFourTiles = 4.0 * 2 * 16 * 16 * 32;

__attribute__((target("amx-tile,amx-bf16"))) double run_amx_bf16(int64_t rounds) {
  load_tiles(kBf16Ones);
  for (int64_t round = 0; round < rounds; ++round) {
    _tile_dpbf16ps(0, 4, 6);
    _tile_dpbf16ps(1, 4, 7);
    _tile_dpbf16ps(2, 5, 6);
    _tile_dpbf16ps(3, 5, 7);
  }
  _tile_release();
  return kFlopsOfFourTiles * double(rounds);
}

// The same by TDPFP16PS. It is written by its bytes, because g++ 12 and older assemblers lack it.
__attribute__((target("amx-tile"))) double run_amx_fp16(int64_t rounds) {
  load_tiles(kFp16Ones);
  for (int64_t round = 0; round < rounds; ++round)
    __asm__ volatile(
        ".byte 0xc4, 0xe2, 0x4b, 0x5c, 0xc4\n\t"    // tmm0 += tmm4 tmm6
        ".byte 0xc4, 0xe2, 0x43, 0x5c, 0xcc\n\t"    // tmm1 += tmm4 tmm7
        ".byte 0xc4, 0xe2, 0x4b, 0x5c, 0xd5\n\t"    // tmm2 += tmm5 tmm6
        ".byte 0xc4, 0xe2, 0x43, 0x5c, 0xdd\n\t");  // tmm3 += tmm5 tmm7
  _tile_release();
  return kFlopsOfFourTiles * double(rounds);
}

void add_x86_units(std::vector<ComputeUnit>& units) {
#if defined(ATTEST_HAS_FP16_LOOP)
  if (has_avx512_fp16()) units.push_back({"f16", "AVX-512 FP16", run_avx512_fp16});
#endif
  if (has_avx512_bf16()) units.push_back({"bf16", "AVX-512 BF16", run_avx512_bf16});
  if (has_amx_fp16()) units.push_back({"f16", "AMX FP16", run_amx_fp16});
  if (has_amx_bf16()) units.push_back({"bf16", "AMX", run_amx_bf16});
}

#endif  // x86-64

#if defined(__aarch64__)

// Arm Architecture Reference Manual, FEAT_FP16 (FMLA) and FEAT_BF16 (BFMMLA). FMLA adds to its
// destination, so a chain is a sum: a chain of other addends would need a copy at each step, in the
// same units. The sums grow until nothing changes any more.
__attribute__((target("arch=armv8.2-a+fp16"))) double run_neon_fp16(int64_t rounds) {
  const float16x8_t one = vdupq_n_f16(__fp16(1.0f));
  float16x8_t sum[kChains];
  for (int chain = 0; chain < kChains; ++chain) sum[chain] = vdupq_n_f16(__fp16(float(chain + 1)));
  for (int64_t round = 0; round < rounds; ++round) {
    ATTEST_UNROLL
    for (int step = 0; step < kChains * kRepeats; ++step)
      sum[step % kChains] = vfmaq_f16(sum[step % kChains], one, one);
  }
  ATTEST_UNROLL
  for (const float16x8_t& kept : sum) __asm__ volatile("" : : "w"(kept));
  constexpr double kFlops = 2 * 8;  // a multiply-add in each of 8 lanes
  return kFlops * kChains * kRepeats * double(rounds);
}

__attribute__((target("arch=armv8.2-a+bf16"))) double run_neon_bf16(int64_t rounds) {
  uint16x8_t bits = vdupq_n_u16(kOneBf16);
  // Not a constant to the compiler: g++ 12 writes a vector of ones of bf16 as one of fp16.
  __asm__("" : "+w"(bits));
  const bfloat16x8_t one = vreinterpretq_bf16_u16(bits);
  float32x4_t sum[kChains];
  for (int chain = 0; chain < kChains; ++chain) sum[chain] = vdupq_n_f32(float(chain + 1));
  for (int64_t round = 0; round < rounds; ++round) {
    ATTEST_UNROLL
    for (int step = 0; step < kChains * kRepeats; ++step)
      sum[step % kChains] = vbfmmlaq_f32(sum[step % kChains], one, one);
  }
  ATTEST_UNROLL
  for (const float32x4_t& kept : sum) __asm__ volatile("" : : "w"(kept));
  constexpr double kFlops = 2 * 2 * 2 * 4;  // 2 x 2 sums of four products
  return kFlops * kChains * kRepeats * double(rounds);
}

// Linux says which instructions a process may use (Documentation/arch/arm64/elf_hwcaps.rst).
void add_arm_units(std::vector<ComputeUnit>& units) {
  constexpr unsigned long kHalvesInVectors = 1ul << 10, kBf16 = 1ul << 14;  // ASIMDHP, BF16
  if (getauxval(AT_HWCAP) & kHalvesInVectors) units.push_back({"f16", "NEON FP16", run_neon_fp16});
  if (getauxval(AT_HWCAP2) & kBf16) units.push_back({"bf16", "NEON BF16", run_neon_bf16});
}

#endif  // aarch64

}  // namespace

std::vector<ComputeUnit> compute_units() {
  std::vector<ComputeUnit> units{{"f32", vectors_in_use(), run_multiply_adds}};
#if defined(__x86_64__)
  add_x86_units(units);
#elif defined(__aarch64__)
  add_arm_units(units);
#endif
  return units;
}

}  // namespace attest::core
