// The kernels of the softmax golden, for a module that the driver loads.
#include "core/operations/softmax/golden/row_kernels.cuh"
