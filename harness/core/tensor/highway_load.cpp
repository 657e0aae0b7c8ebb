// Makes libhwy load quickly. When it is loaded, it measures the resolution of the processor's timer
// for its own benchmarks. That takes 3 ms of CPU, more than all else that a worker does before its
// first call or a test's program before its test, and nothing here uses the figure. A program's
// definition comes before that of a shared library; from a static one the linker does not take it
// then. A plugin that times by Highway's own benchmarks, which none of attest's does, has to
// measure the resolution itself.
#include <hwy/nanobenchmark.h>

namespace hwy::platform {

uint64_t TimerResolution() { return 1; }

}  // namespace hwy::platform
