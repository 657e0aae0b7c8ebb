// Which targets Highway compiles the kernels for: AVX-512, AVX2 and SSE4 on x86, NEON on
// Arm. Include it before foreach_target.h. The kernels keep arrays of vectors, which scalable
// vectors (SVE, RVV) cannot be in.
#pragma once

#define HWY_DISABLED_TARGETS \
  (HWY_SSSE3 | HWY_AVX3_DL | HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128 | HWY_RVV)

#include <hwy/detect_targets.h>

// Ubuntu 22.04 has Highway 0.16, which lacks these two.
#ifndef HWY_SVE_256
#define HWY_SVE_256 0
#define HWY_SVE2_128 0
#endif
