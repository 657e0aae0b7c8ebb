// window_cuda with bugs that can be planted, for tests on a device.
#include "window_cuda.cu"
