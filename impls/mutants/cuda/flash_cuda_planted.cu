// flash_cuda with bugs that can be planted, for tests on a device.
#include "flash_cuda.cu"
