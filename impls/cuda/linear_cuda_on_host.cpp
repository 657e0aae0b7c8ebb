// linear_cuda on the host, for tests where there is no device.
#include "linear_cuda.cu"
