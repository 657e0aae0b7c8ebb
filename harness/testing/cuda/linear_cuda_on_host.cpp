// linear_cuda on the host, for tests where there is no device.
#include "testing/cuda/on_host_products.hpp"

#include "linear_cuda.cu"
