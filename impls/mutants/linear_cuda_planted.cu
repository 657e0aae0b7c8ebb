// linear_cuda with bugs that can be planted, for tests on a device.
#include "linear_cuda.cu"
