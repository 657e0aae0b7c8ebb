// flash_cuda on the host, for tests where there is no device.
#include "testing/cuda/on_host_sm90.hpp"

#include "flash_cuda.cu"
