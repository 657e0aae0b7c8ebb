// window_cuda on the host, for tests where there is no device.
#include "window_cuda.cu"
