// flash_cuda on the host, for tests where there is no device.
#include "flash_cuda.cu"
