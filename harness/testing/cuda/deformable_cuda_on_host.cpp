// deformable_cuda on the host, for tests where there is no device.
#include "testing/cuda/on_host.hpp"

#include "deformable_cuda.cu"
