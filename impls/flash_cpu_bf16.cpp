// flash_cpu_bf16: flash_cpu with bf16 operands and float32 sums, for what multiplies bf16 faster
// than float32: AMX, AVX512_BF16. The kernel is simd/softmax/attend_bf16.cpp;
// simd/softmax/flash.hpp shares out the work.
//
// It does not take f16 and float32 tensors: neighbouring tokens of pictures differ by less than
// their rounding to bf16, so its errors add up, and the judge's sigma takes them for independent.
#include "simd/softmax/flash.hpp"

namespace {

struct FlashCpuBf16 : impls::Bf16Tiles {
  static constexpr attest::Info kInfo{
      .name = "flash_cpu_bf16",
      .version = "1",
      .summary = "tiled online softmax of bf16 tensors, by AMX or AVX512_BF16, threads",
      .dtypes = ATTEST_BIT(ATTEST_BF16),
      .features = impls::kFlashFeatures};
};

}  // namespace

ATTEST_PLUGIN(attest::table<impls::Flash<FlashCpuBf16>>())
