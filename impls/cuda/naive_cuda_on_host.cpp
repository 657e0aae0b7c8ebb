// naive_cuda on the host, for tests where there is no device.
#include "naive_cuda.cu"
