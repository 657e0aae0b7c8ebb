// Which targets Highway compiles the core's kernels for: AVX-512, AVX2 and SSE4 on x86,
// NEON on Arm. Include it before foreach_target.h. Processors with SSSE3 and no SSE4 are older than
// 2008, and AVX3_DL only adds instructions that no kernel of the core uses. Vectors are members of
// classes, which scalable ones (SVE, RVV) cannot be.
#pragma once

#define HWY_DISABLED_TARGETS \
  (HWY_SSSE3 | HWY_AVX3_DL | HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128 | HWY_RVV)

#include <hwy/detect_targets.h>

// Ubuntu 22.04 has Highway 0.16, which lacks these two.
#ifndef HWY_SVE_256
#define HWY_SVE_256 0
#define HWY_SVE2_128 0
#endif
