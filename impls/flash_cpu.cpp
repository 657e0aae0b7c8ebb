// flash_cpu: tiled softmax attention with an online softmax, O(tokens * head_dim) memory,
// vectorised and threaded. Everything is computed in float32, whatever the storage. The kernel is
// simd/softmax/attend_f32.cpp, with top_k simd/softmax/top_k.cpp; simd/softmax/flash.hpp shares out
// the work.
#include "simd/softmax/flash.hpp"

namespace {

struct FlashCpu : impls::Float32Tiles {
  static constexpr attest::Info kInfo{
      .name = "flash_cpu",
      .version = "1",
      .summary = "tiled online softmax in float32, SIMD and threads",
      .dtypes = ATTEST_BIT(ATTEST_F32) | ATTEST_BIT(ATTEST_F16) | ATTEST_BIT(ATTEST_BF16),
      .features = impls::kFlashFeatures | ATTEST_WITH_TOP_K};
};

}  // namespace

ATTEST_PLUGIN(attest::table<impls::Flash<FlashCpu>>())
