// flash_cpu_bf16: flash_cpu with bf16 operands and float32 sums, for what multiplies bf16 faster
// than float32: AMX, AVX512_BF16. The kernel is simd/attend_bf16.cpp; simd/flash.hpp shares out the
// work.
#include "simd/flash.hpp"

namespace {

struct FlashCpuBf16 : impls::Bf16Tiles {
  static constexpr attest::Info kInfo{
      .name = "flash_cpu_bf16",
      .version = "1",
      .summary = "tiled online softmax, bf16 products by AMX or AVX512_BF16, threads",
      .dtypes = impls::kFlashDtypes,
      .features = impls::kFlashFeatures};
};

}  // namespace

ATTEST_PLUGIN(attest::table<impls::Flash<FlashCpuBf16>>())
