// cublas_cuda on the host, for tests where there is no device: with the products of fake_cublas,
// and steps of a few rows or heads.
#define ATTEST_MATMUL_BYTES 4000
#define ATTEST_CUBLAS_WORKSPACE_BYTES 4096
#define ATTEST_MATMUL_THREADS 64
#include "testing/cuda/on_host.hpp"

#include "cublas_cuda.cu"
