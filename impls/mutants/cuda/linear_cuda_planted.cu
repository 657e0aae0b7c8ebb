// linear_cuda with bugs that can be planted, for tests on a device. Of its kernels on tensor cores
// those of the head size that scripts/device_mutants.sh tries.
#undef ATTEST_ONLY_HEAD_DIM
#define ATTEST_ONLY_HEAD_DIM 32
#include "linear_cuda.cu"
