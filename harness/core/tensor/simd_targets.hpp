// Which targets Highway compiles the core's kernels for, on x86: AVX-512, AVX2, SSE4 and plain C++.
// Include it before foreach_target.h. Processors with SSSE3 and no SSE4 are older than 2008, and
// AVX3_DL only adds instructions that no kernel of the core uses.
#pragma once

#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_AVX3_DL)
