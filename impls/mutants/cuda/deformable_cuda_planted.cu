// deformable_cuda with bugs that can be planted, for tests on a device.
#include "deformable_cuda.cu"
